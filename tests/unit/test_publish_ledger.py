"""The ledger of publications: what may be spent, and what survives crashes and two at once."""

import json
import os
import re
import threading
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pytest
from waiting import run_python

from shuffledp.cli import main
from shuffledp.errors import InputError
from shuffledp.publishing import publication
from shuffledp.publishing.folder import folder_sha256
from shuffledp.publishing.ledger import (
    cost_of,
    first_total,
    make_charge,
    opened,
    read_ledger,
)
from shuffledp.publishing.noise import Guarantee, zcdp_eps

PURE = Guarantee(1.0)


def charged(path, eps, request=None, total=None, guarantee=None):
    """Charge a publication of an eps to a ledger and complete it."""
    guarantee = guarantee or Guarantee(float(eps))
    eps = Decimal(eps)
    with opened(path) as book:
        limit = first_total("user", guarantee, eps, total and Decimal(total))
        measure = (book.state.total or limit).measure
        charge = make_charge(
            request or {}, Path("map"), eps, guarantee, measure, os.urandom(4).hex()
        )
        book.charge(limit, charge)
        book.complete(charge.id, "0" * 64)
    return read_ledger(path)


def test_pure_costs_add_up_exactly_to_the_total(tmp_path):
    ledger = tmp_path / "l.jsonl"
    for _ in range(10):
        state = charged(ledger, "0.1", total="1")
    assert state.spent == 1  # the sum of ten floats 0.1 is not 1
    assert state.left == 0
    with pytest.raises(InputError, match=r"costs eps=1e-09, but nothing is left: 1 of 1 is spent"):
        charged(ledger, "0.000000001")
    assert len(read_ledger(ledger).charges) == 10


def test_without_a_total_the_first_publication_is_the_last(tmp_path):
    charged(tmp_path / "l.jsonl", "0.7")
    with pytest.raises(InputError, match=r"0\.7 of 0\.7 is spent"):
        charged(tmp_path / "l.jsonl", "0.1")


def test_a_refused_first_publication_sets_no_total(tmp_path):
    with pytest.raises(InputError, match="costs eps=2, but 1 is left of 1"):
        charged(tmp_path / "l.jsonl", "2", total="1")
    assert read_ledger(tmp_path / "l.jsonl").total is None
    assert charged(tmp_path / "l.jsonl", "2").left == 0


def test_rho_adds_up_to_a_total_of_eps_and_delta(tmp_path):
    ledger = tmp_path / "l.jsonl"
    one = Guarantee(0.5, 1e-6, 0.01)
    for _ in range(3):
        state = charged(ledger, "0.5", total="2", guarantee=one)
    assert state.total.measure == "rho"
    assert zcdp_eps(float(state.total.total), 1e-6) == pytest.approx(2.0, rel=1e-6)
    assert float(state.spent) == pytest.approx(0.03)
    assert zcdp_eps(float(state.left), 1e-6) < 2.0
    # A pure guarantee costs eps^2 / 2.
    assert charged(ledger, "0.2").charges[-1].cost == Decimal("0.02")
    with pytest.raises(InputError, match="costs rho="):
        charged(ledger, "1")


def test_a_first_gaussian_publication_may_spend_all(tmp_path):
    guarantee = Guarantee(1.0, 1e-6, 0.0243)
    assert charged(tmp_path / "l.jsonl", "1", guarantee=guarantee).left == 0


def test_a_pure_ledger_refuses_gaussian_noise():
    with pytest.raises(InputError, match="give --mechanism laplace"):
        cost_of(Decimal(1), Guarantee(1.0, 1e-6, 0.1), "eps")


def test_a_ledger_protects_one_unit(tmp_path):
    charged(tmp_path / "l.jsonl", "1", total="5")
    with opened(tmp_path / "l.jsonl") as book, pytest.raises(InputError, match="protect one user"):
        limit = first_total("record", PURE, Decimal(1), None)
        book.charge(limit, make_charge({}, Path("map"), Decimal(1), PURE, "eps", "a"))


@pytest.mark.parametrize("total", ["0", "-1", "Infinity", "NaN"])
def test_a_total_must_be_positive(total):
    with pytest.raises(InputError, match="total must be a positive and finite eps"):
        first_total("user", PURE, Decimal(1), Decimal(total))


# --- Files ----------------------------------------------------------------------------------


def test_an_incomplete_last_line_is_of_a_crash_before_noise_and_is_replaced(tmp_path):
    ledger = tmp_path / "l.jsonl"
    charged(ledger, "1", total="3")
    before = ledger.read_bytes()
    line = before.splitlines()[1]
    for rest in (b"{", line[:40], line[:-1], b"\0" * 9, line[:40] + b"\0"):
        ledger.write_bytes(before + rest)
        assert read_ledger(ledger).spent == 1
    assert charged(ledger, "1").spent == 2
    assert ledger.read_bytes().startswith(before)
    assert all(json.loads(line) for line in ledger.read_text().splitlines())


def test_a_last_line_counts_without_its_line_feed(tmp_path):
    ledger = tmp_path / "l.jsonl"
    charged(ledger, "1", total="3")
    charge = charged(ledger, "0.5").charges[-1]
    whole = ledger.read_bytes()
    *_, charge_line, _ = whole.splitlines(keepends=True)
    for content in (whole, whole[: whole.index(charge_line) + len(charge_line)]):
        ledger.write_bytes(content[:-1] + b"\0" * (content is whole))
        state = read_ledger(ledger)
        assert state.spent == Decimal("1.5")
        assert state.charges[-1].sha256 == (charge.sha256 if content is whole else None)
        with pytest.raises(InputError, match=r"but 1\.5 is left"):
            charged(ledger, "2")
    assert charged(ledger, "1").spent == Decimal("2.5")
    assert ledger.read_bytes().startswith(content)
    assert read_ledger(ledger).spent == Decimal("2.5")


@pytest.mark.parametrize(
    "damage",
    [
        lambda lines: lines[1:],
        lambda lines: [lines[0], lines[0], *lines[1:]],
        lambda lines: [*lines[:2], lines[1], *lines[2:]],
        lambda lines: [lines[0], lines[1].replace('"cost": "1"', '"cost": "-1"'), *lines[2:]],
        lambda lines: [lines[0].replace('"version": 1', '"version": 2'), *lines[1:]],
        lambda lines: [lines[0].replace('"total": "3"', '"total": 1e999'), *lines[1:]],
        lambda lines: ["[]", *lines],
        lambda lines: ["\x00", *lines],
        lambda lines: [lines[0], "", *lines[1:]],
    ],
)
def test_a_damaged_ledger_is_refused(tmp_path, damage):
    ledger = tmp_path / "l.jsonl"
    charged(ledger, "1", total="3")
    ledger.write_text("".join(line + "\n" for line in damage(ledger.read_text().splitlines())))
    with pytest.raises(InputError, match=r"line \d is not a line of a ledger: restore"):
        read_ledger(ledger)


def test_a_file_that_is_no_ledger_is_not_overwritten(tmp_path):
    line = '{"kind": "charge"}'
    for text in (
        *("riders", "user,lat\n1,2\n", '{"type": "Feature"}', '{"kind": "Pod", "', "\0" * 9),
        *(f"{line}\r{line}", line * 2, "[" * 100_000, "[" * 100_000 + "\n"),
    ):
        (tmp_path / "l.csv").write_bytes(text.encode())
        with pytest.raises(InputError, match="is no"):
            charged(tmp_path / "l.csv", "1")
        assert (tmp_path / "l.csv").read_bytes() == text.encode()


def test_only_its_owner_may_read_a_new_ledger(tmp_path):
    charged(tmp_path / "l.jsonl", "1")
    assert (tmp_path / "l.jsonl").stat().st_mode & 0o077 == 0


def test_a_full_disk_charges_nothing(tmp_path, monkeypatch):
    ledger = tmp_path / "l.jsonl"
    charged(ledger, "1", total="3")
    before = ledger.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left")))
        with pytest.raises(OSError, match="No space left"):
            charged(ledger, "1")
    assert ledger.read_bytes() == before


# --- Publications ---------------------------------------------------------------------------


@pytest.fixture
def records(tmp_path, monkeypatch):
    """Write records, and leave out pictures of their maps."""
    monkeypatch.setattr(publication.folders, "fits_on_page", lambda cells, windows: False)
    monkeypatch.setattr(publication.folders, "MAX_DRAWN_CELLS", 0)
    lines = [f"u{i % 50},{0.05 + 0.1 * (i % 10)},0.5" for i in range(400)]
    (tmp_path / "taps.csv").write_text("\n".join(["card,lat,lon", *lines]) + "\n")
    return tmp_path / "taps.csv"


def words(records, output, *more, eps="1"):
    folder = records.parent
    return [
        *("publish", str(records), "--latitude", "lat", "--longitude", "lon", "--user", "card"),
        *("--unit", "user", "--cells", "shape:10x2", "--box", "0", "1", "0", "1"),
        *("--eps", eps, "--ledger", str(folder / "l.jsonl"), "--output", str(folder / output)),
        *more,
    ]


def refused(capsys, records, output, *more, eps="1"):
    """Return what the command says when it refuses."""
    assert main(words(records, output, *more, eps=eps)) == 2
    return capsys.readouterr().err


def test_noise_is_drawn_only_after_the_charge_is_on_the_disk(records, monkeypatch):
    seen = []

    def drawn(counts, noise):
        seen.append(read_ledger(records.parent / "l.jsonl").spent)
        raise KeyboardInterrupt

    monkeypatch.setattr(publication, "add_noise", drawn)
    with pytest.raises(KeyboardInterrupt):
        main(words(records, "map"))
    assert seen == [1]
    assert not (records.parent / "map").exists()
    monkeypatch.undo()
    # What was spent stays spent; the same map costs once more, if that is left.
    assert main(words(records, "map")) == 2
    assert main(words(records, "map", "--again")) == 2
    assert read_ledger(records.parent / "l.jsonl").charges[0].sha256 is None


def test_a_crash_after_the_noise_leaves_no_folder(records, monkeypatch, capsys):
    monkeypatch.setattr(
        publication.folders, "flush_folder", lambda _: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    with pytest.raises(KeyboardInterrupt):
        main(words(records, "map", "--total", "2"))
    assert sorted(path.name for path in records.parent.iterdir()) == ["l.jsonl", "taps.csv"]
    monkeypatch.undo()
    assert "interrupted: restore it, or pay" in refused(capsys, records, "map")
    assert main(words(records, "map", "--again")) == 0
    assert main(["ledger", "show", str(records.parent / "l.jsonl"), "--format", "csv"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("interrupted") == 1
    assert shown.count("complete") == 1


def test_a_full_disk_after_the_charge_is_reported_with_it(records, monkeypatch, capsys):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(publication.folders, "write_files", full)
    said = refused(capsys, records, "map", "--total", "2")
    assert "cannot be written (No space left on device), but the budget is spent" in said
    assert read_ledger(records.parent / "l.jsonl").spent == 1
    assert not (records.parent / "map").exists()


def test_the_same_map_is_returned_without_new_noise(records, capsys):
    assert main(words(records, "map")) == 0
    before = folder_sha256(records.parent / "map")
    assert main(words(records, "map")) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "was published before. This is the earlier map: no noise is drawn" in printed
    assert "publish them with --again and another --output" in printed
    assert folder_sha256(records.parent / "map") == before
    assert len(read_ledger(records.parent / "l.jsonl").charges) == 1
    # It is the same map under another name, too.
    assert "use that folder, or pay" in refused(capsys, records, "other")


def test_a_changed_file_of_the_same_name_is_published_if_it_is_paid_for(records, capsys):
    assert main(words(records, "map", "--total", "2")) == 0
    records.write_text("card,lat,lon\n" + "\n".join(f"u{i},0.5,0.5" for i in range(900)) + "\n")
    assert main(words(records, "map")) == 0
    assert "nothing is charged, and no record is read" in " ".join(capsys.readouterr().out.split())
    assert "also if the records or cells have changed" in refused(capsys, records, "new")
    assert main(words(records, "new", "--again")) == 0
    assert pd.read_csv(records.parent / "new" / "map.csv")["count"].max() > 600
    assert read_ledger(records.parent / "l.jsonl").left == 0


@pytest.mark.parametrize("change", [("--separator", ";"), ("--outline", "o.geojson")])
def test_a_map_is_recognised_by_all_that_decides_what_is_counted(records, change, monkeypatch):
    monkeypatch.chdir(records.parent)
    box = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]]}
    Path("o.geojson").write_text(json.dumps(box))
    first = words(records, "map", "--total", "9")
    if change[0] == "--outline":
        place = first.index("--box")
        first[place : place + 5] = change
    assert main(first) == 0
    if change[0] == "--outline":
        # Another folder has another file of the same name, which is published by name alone.
        (records.parent / "else").mkdir()
        Path("else/o.geojson").write_text(json.dumps(box))
        again = [word.replace("o.geojson", "else/o.geojson") for word in first]
    else:
        records.write_text(records.read_text().replace(",", ";"))
        again = [*first, *change]
    again[again.index("--output") + 1] = str(records.parent / "other")
    assert main(again) == 0


def test_an_altered_or_missing_map_is_not_replaced_for_free(records, capsys):
    assert main(words(records, "map", "--total", "2")) == 0
    csv = records.parent / "map" / "map.csv"
    csv.write_text(csv.read_text() + "\n")
    assert "which is altered" in refused(capsys, records, "map")
    assert "is never overwritten" in refused(capsys, records, "map", "--again")
    (records.parent / "map").rename(records.parent / "old")
    assert "which is missing" in refused(capsys, records, "map")
    assert main(words(records, "map", "--again")) == 0
    assert read_ledger(records.parent / "l.jsonl").left == 0


def test_a_publication_that_exceeds_the_total_is_refused_before_the_records_are_read(
    records, capsys
):
    assert main(words(records, "map", "--total", "1.5")) == 0
    records.write_text("")
    assert "costs eps=0.6, but 0.5 is left of 1.5" in refused(capsys, records, "second", eps="0.6")
    assert not (records.parent / "second").exists()


def test_the_total_cannot_be_changed(records, capsys):
    assert main(words(records, "map", "--total", "2")) == 0
    told = refused(capsys, records, "second", "--total", "9", eps="0.5")
    assert "total of this ledger is eps=2 and cannot be changed" in told
    assert main(words(records, "second", "--total", "2", eps="0.5")) == 0


PREPARED = """
import os, signal, sys
import geopandas, opendp.prelude, pandas, pyarrow.csv, pyarrow.parquet, scipy.optimize
from shuffledp.publishing import folder as folders, publication
publication.folders.fits_on_page = lambda cells, windows: False
publication.folders.MAX_DRAWN_CELLS = 0

def child(function, *arguments):
    # Forks run without imports, which take two seconds.
    process = os.fork()
    if not process:
        try:
            function(*arguments)
            os._exit(0)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
    return process
"""


def prepared(code, *arguments):
    """Run code in a process in which `child` forks others, and return what it prints."""
    done = run_python("-c", PREPARED + code, *arguments, seconds=600.0)
    assert done.returncode == 0, done.stderr
    return done.stdout


RACE = """
from decimal import Decimal
from pathlib import Path
from shuffledp.errors import InputError
from shuffledp.publishing.ledger import first_total, make_charge, opened
from shuffledp.publishing.noise import Guarantee

def spend():
    ledger, eps, guarantee = Path(sys.argv[1]), Decimal("0.1"), Guarantee(0.1)
    while True:
        with opened(ledger) as book:
            charge = make_charge({}, ledger, eps, guarantee, "eps", os.urandom(8).hex())
            try:
                book.charge(first_total("user", guarantee, eps, Decimal(5)), charge)
            except InputError:
                return
            book.complete(charge.id, str(os.getpid()))

for process in [child(spend) for _ in range(2)]:
    assert os.waitpid(process, 0)[1] == 0
"""


def test_two_processes_at_once_spend_the_total_and_no_more(tmp_path):
    ledger = tmp_path / "l.jsonl"
    prepared(RACE, ledger)
    state = read_ledger(ledger)
    assert len(state.charges) == 50
    assert state.left == 0
    assert all(charge.sha256 for charge in state.charges)
    assert len(ledger.read_text().splitlines()) == 101


def test_a_publication_waits_until_another_is_complete(records):
    with opened(records.parent / "l.jsonl") as book:
        waiting = threading.Thread(target=main, args=[words(records, "map")])
        waiting.start()
        waiting.join(1.0)
        limit = first_total("user", Guarantee(0.5), Decimal("0.5"), None)
        charge = make_charge({}, Path("map"), Decimal("0.5"), Guarantee(0.5), "eps", "a")
        book.charge(limit, charge)
    waiting.join(60.0)
    # Nothing is left for it.
    assert not waiting.is_alive()
    assert len(read_ledger(records.parent / "l.jsonl").charges) == 1
    assert not (records.parent / "map").exists()


def verified(folder):
    """Check that every folder was charged and completed, and return the ledger."""
    state = read_ledger(folder / "l.jsonl")
    assert state.spent <= state.total.total
    paid = {charge.output: charge.sha256 for charge in state.charges}
    for path in folder.glob("map*"):
        assert folder_sha256(path) == paid[str(path)]
    return state


KILLS = """
EVENTS = {"open", "os.mkdir", "os.remove", "os.rename"}
folder, arguments = sys.argv[1], sys.argv[2:]
eps = arguments.index("--eps")
del arguments[eps : eps + 2]

def publish_until(number):
    left = number

    def event(half=lambda: None):
        nonlocal left
        left -= 1
        if left == 0:
            half()
            os.kill(os.getpid(), signal.SIGKILL)

    def hook(name, details):
        if name in EVENTS and (name != "open" or details[2] & (os.O_WRONLY | os.O_RDWR)):
            if str(details[0]).startswith(folder) and not str(details[0]).endswith(".pyc"):
                event()

    def fsync(descriptor, original=os.fsync):
        event()
        original(descriptor)

    def pwrite(descriptor, text, position, original=os.pwrite):
        event(lambda: original(descriptor, text[: len(text) // 2], position))
        return original(descriptor, text, position)

    os.fsync, os.pwrite = fsync, pwrite
    sys.addaudithook(hook)
    # Every map is another one, so that each of them is charged.
    changes = ["--eps", f"{1 + number / 100}", "--output", f"{folder}/map{number}"]
    from shuffledp.cli import main
    assert main([*arguments, *changes]) == 0

for number in range(1, 100):
    status = os.waitpid(child(publish_until, number), 0)[1]
    print(number, os.WTERMSIG(status), os.WEXITSTATUS(status))
    if status == 0:
        break
"""


def test_no_kill_leaves_a_map_that_was_not_paid_for(records):
    folder = records.parent
    ends = prepared(KILLS, folder, *words(records, "none", "--total", "200")).splitlines()[-40:]
    *killed, last = (line.split() for line in ends if line[0].isdigit())
    assert [end[1:] for end in killed] == [["9", "0"]] * len(killed)
    assert last[1:] == ["0", "0"]
    # A publication opens, writes or flushes at least as many files.
    assert len(killed) >= 20
    state = verified(folder)
    # Killed before it was charged, after it was charged, and after its folder appeared.
    paid = {Path(charge.output).name: charge.sha256 is not None for charge in state.charges}
    published = {path.name for path in folder.glob("map*")}
    states = [(name in paid, paid.get(name), name in published)
              for name in (f"map{number}" for number in range(1, len(killed) + 2))]  # fmt: skip
    assert states == sorted(states, key=lambda each: (each[0], bool(each[1]), each[2]))
    assert set(states) == {(False, None, False), (True, False, False), (True, True, False),
                           (True, True, True)}  # fmt: skip


def test_what_is_left_of_rho_is_said_as_eps_of_gaussian_noise(records, capsys):
    gaussian = ("--mechanism", "gaussian", "--delta", "1e-6")
    assert main(words(records, "map", "--total", "2", *gaussian)) == 0
    said = " ".join(capsys.readouterr().out.split())
    fits = re.search(r"for Gaussian noise at eps=([\d.]+), delta=1e-06", said)
    assert main(words(records, "next", *gaussian, eps=str(float(fits[1]) - 0.01))) == 0
    assert main(words(records, "last", *gaussian, eps="0.3")) == 2
