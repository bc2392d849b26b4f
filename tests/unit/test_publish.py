"""The command publishes a map and a statement, and nothing else about the records."""

import contextlib
import csv
import io
import json
import logging
import re
from base64 import b64encode
from datetime import date
from fractions import Fraction
from hashlib import sha256
from pathlib import Path

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import shuffledp
from shuffledp.cli import main
from shuffledp.errors import InputError
from shuffledp.publishing import counting, publication
from shuffledp.publishing import folder as folders
from shuffledp.publishing.noise import Noise
from shuffledp.publishing.options import Period, Protection, Source
from shuffledp.publishing.page import embedded_json

FILES = ["map.csv", "map.geojson", "map.html", "map.parquet", "map.png", "statement.json",
         "statement.md", "statement.yaml"]  # fmt: skip
BOX = ("--box", "0", "1", "0", "1")
DAYS = ("--time", "when", "--from", "2024-01-01", "--to", "2024-01-28")
DISTRICTS = {
    "type": "FeatureCollection",
    "features": [
        {
            "type": "Feature",
            "properties": {"NAME": f"District {i}", "CODE": f"D{i}"},
            "geometry": {
                "type": "Polygon",
                "coordinates": [[[i, 0], [i + 1, 0], [i + 1, 1], [i, 1], [i, 0]]],
            },
        }
        for i in range(4)
    ],
}


def write_records(folder):
    """Write districts, and records of 300 users in them."""
    (folder / "districts.geojson").write_text(json.dumps(DISTRICTS))
    rows = ["card,when,lat,lon"]
    rows += [
        f"u{i % 300},2024-01-{1 + i % 28:02d}T08:00:00Z,0.5,{(i % 300) % 4 + 0.5}"
        for i in range(3_000)
    ]
    (folder / "taps.csv").write_text("\n".join(rows) + "\n")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Work in a folder with records."""
    monkeypatch.chdir(tmp_path)
    write_records(tmp_path)
    return tmp_path


@pytest.fixture
def plain(folder, monkeypatch):
    """Leave out page, GeoJSON and picture, which take most of the time."""
    monkeypatch.setattr(folders, "fits_on_page", lambda cells, windows: False)
    monkeypatch.setattr(folders, "MAX_DRAWN_CELLS", 0)
    return folder


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """Return a folder in which a map was published, and what the command printed."""
    folder = tmp_path_factory.mktemp("example")
    write_records(folder)
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()) as printed:
        assert main(words("--records-per-user", "3", "--title", "Taps")) == 0
    return folder / "map", " ".join(printed.getvalue().split())


def words(*more, unit="user", cells=("districts.geojson", "--cell-name", "NAME", "--cell-id",
                                     "CODE"), eps="1", ledger="l.jsonl", output="map"):  # fmt: skip
    users = ("--user", "card") if unit == "user" else ()
    return [
        *("publish", "taps.csv", "--latitude", "lat", "--longitude", "lon", *users, "--unit", unit),
        *("--cells", *cells, "--eps", eps, "--ledger", ledger, "--output", output, *more),
    ]


def read_map(folder):
    return pd.read_csv(folder / "map.csv"), json.loads((folder / "statement.json").read_text())


def published(*arguments):
    assert main(list(arguments)) == 0
    return read_map(Path(arguments[arguments.index("--output") + 1]))


def test_the_folder_has_a_map_and_a_statement(example):
    folder, said = example
    table, statement = read_map(folder)
    assert sorted(path.name for path in folder.iterdir()) == FILES
    assert not [path for path in folder.parent.iterdir() if path.name.startswith(".")]
    names = "cell id name noisy_count raw count estimate low high joint_low joint_high"
    assert table.columns.tolist() == names.split()
    assert table["name"].tolist() == [f"District {i}" for i in range(4)]
    assert table["id"].tolist() == ["D0", "D1", "D2", "D3"]
    # 75 users in each district with at least 3 records each.
    assert (abs(table["count"] - 225) < 150).all()
    assert (table["joint_high"] - table["joint_low"] >= table["high"] - table["low"]).all()
    assert statement["guarantee"]["eps"] == 1
    assert statement["guarantee"]["eps_for_replacement"] == 2
    assert statement["mechanism"]["scale"] == pytest.approx(3)
    assert "map is published. About 100 % of the records lie in cells whose interval is" in said
    assert "The map is differentially private with eps = 1 for one user" in said
    assert "Ledger: eps=0 of 1 is left." in said


def test_all_files_show_the_same_numbers(example):
    folder, _ = example
    table, _ = read_map(folder)
    for name in ("map.parquet", "map.geojson"):
        read = gpd.read_parquet if name.endswith("parquet") else gpd.read_file
        other = read(folder / name)
        assert other.crs == 4326
        pd.testing.assert_frame_equal(
            pd.DataFrame(other.drop(columns="geometry")), table, check_dtype=False
        )
    page = (folder / "map.html").read_text()
    data = json.loads(re.search(r'id="data">(.*?)</script>', page)[1])
    (values,) = data["values"][0]
    assert values["count"] == [table["count"].tolist()]
    assert values["estimate"] == [table["estimate"].tolist()]


def test_the_page_may_load_nothing_and_run_only_its_own_scripts(example):
    page = (example[0] / "map.html").read_text()
    assert "default-src 'none'" in page
    allowed = re.search("script-src (.*?);", page)[1].split()
    scripts = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    hashes = [b64encode(sha256(one.encode()).digest()).decode() for one in scripts]
    assert allowed == [f"'sha256-{one}'" for one in hashes]
    markup = re.sub(r"<script.*?</script>|<style.*?</style>", "", page, flags=re.DOTALL)
    assert not re.search(r'(src|href)="(?!#)', markup)


def test_no_data_can_end_its_html_element():
    nasty = {"title": "</script><script>alert(1)</script>", "line": "\u2028", "city": "Zürich"}
    text = embedded_json(nasty)
    assert "<" not in text and "\u2028" not in text and "Zürich" in text
    assert json.loads(text) == nasty
    with pytest.raises(ValueError, match="not JSON compliant"):
        embedded_json({"eps": float("nan")})


def test_the_statement_says_the_same_in_words(plain):
    _, statement = published(*words("--records-per-user", "2", "--distinct", eps="0.8"))
    text = Path("map/statement.md").read_text()
    assert "eps = 0.8" in text
    assert "no possible map is more than 2.23 times as likely with a person" in text
    assert "At most 2 records of each user count, each in a different cell" in text
    assert "a cell may have far more records than its count and its intervals say" in text
    assert statement["mechanism"]["sensitivity_l2_squared"] == 2
    assert statement["software"]["shuffledp"] == shuffledp.__version__


@pytest.mark.parametrize(("unit", "warned"), [("user", True), ("record", False)])
def test_records_that_do_not_count_are_mentioned_if_there_may_be_any(folder, unit, warned):
    published(*words(unit=unit))
    for name in ("statement.md", "map.html"):
        assert ("Other records are left out" in Path("map", name).read_text()) == warned


# --- Nothing true is released ---------------------------------------------------------------

SECRET = "Zebedee7Q"


@pytest.fixture
def said(caplog, capfd):
    """Return a function that runs the command and returns all that it prints and logs."""
    caplog.set_level(logging.DEBUG)

    def run(*arguments):
        caplog.clear()
        assert main(list(arguments)) == 0
        return "".join(capfd.readouterr()) + caplog.text

    return run


def test_numbers_and_users_of_the_source_are_nowhere(folder, said):
    # 3,517 rows: 17 malformed, 500 of which lie in no district, and one user with 41 records.
    source = folder / "taps.csv"
    lines = source.read_text().splitlines()
    lines += [f"{SECRET},2024-01-01T00:00:00Z,0.5,0.5"] * 41
    lines += ["out,2024-01-01T00:00:00Z,0.5,77.25"] * 459 + ["bad,x,y,z"] * 17
    source.write_text("\n".join(lines) + "\n")
    printed = said(*words("--records-per-user", "5"))
    released = {path.name: path.read_bytes() for path in (folder / "map").iterdir()}
    secrets = [SECRET, "taps.csv", str(folder), "77.25", "l.jsonl"]
    secrets += ["3517", "3,517", "3516", "3041", "3,041", "3058", "459", "301", "302"]
    texts = {name: content.decode() for name, content in released.items()
             if not name.endswith((".png", ".parquet"))}  # fmt: skip
    page = texts.pop("map.html")
    texts["page"] = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    geometry = re.compile(r'"(coordinates|cells)": ?\[.*?\]\]\]+')
    for name, whole in texts.items():
        text = geometry.sub("", whole)
        written = set(re.findall(r"[\w.,/-]+", text))
        noisy = set(re.findall(r"-?\d+", (folder / "map" / "map.csv").read_text()))
        leaked = [s for s in secrets if s in written and s not in noisy]
        assert not leaked, (name, leaked)
        assert SECRET not in text
    for name in ("map.png", "map.parquet"):
        assert SECRET.encode() not in released[name]
        assert b"taps" not in released[name]
    assert SECRET not in printed
    assert not [s for s in secrets[5:] if re.search(rf"\b{s}\b", printed)]


def test_what_is_said_does_not_depend_on_what_was_dropped(folder, plain, said):
    texts = []
    lines = (folder / "taps.csv").read_text().splitlines()
    for number, more in enumerate(
        [[], ["bad,x,y,z"] * 3 + ["out,2024-01-01T00:00:00Z,0.5,77.25"] * 500]
    ):
        (folder / "taps.csv").write_text("\n".join(lines + more) + "\n")
        output, charged = f"map{number}", f"l{number}.jsonl"
        text = said(*words(output=output, ledger=charged))
        texts.append(" ".join(text.replace(output, "map").split()))
    assert texts[0] == texts[1]


# --- Cells, windows and units ---------------------------------------------------------------


def test_every_week_is_one_histogram_and_costs_one_eps(plain):
    table, statement = published(*words(*DAYS, "--every", "week", unit="record"))
    assert table["window"].unique().tolist() == ["2024-01-01", "2024-01-08", "2024-01-15",
                                                 "2024-01-22"]  # fmt: skip
    records = pd.read_csv("taps.csv")
    week = (records["when"].str[8:10].astype(int) - 1) // 7
    truth = pd.crosstab(week, records["lon"].astype(int)).to_numpy().ravel()
    assert (abs(table["count"] - truth) < 40).all()
    assert statement["mechanism"]["scale"] == pytest.approx(1.0)
    assert statement["period"]["every"] == "week"


def test_the_statement_says_in_what_the_records_of_a_user_are_distinct(plain):
    weeks = (*DAYS, "--every", "week", "--records-per-user", "2", "--distinct")
    _, statement = published(*words(*weeks))
    assert "count, no two in the same cell and window; they" in statement["unit"]["bound"]
    _, statement = published(*words(*weeks, "--per-window", ledger="other.jsonl", output="other"))
    assert "count in each window, each in a different cell; they" in statement["unit"]["bound"]


def test_a_bound_for_each_week_costs_as_many_times_the_noise(plain):
    _, statement = published(*words(*DAYS, "--every", "week", "--per-window"))
    assert statement["mechanism"]["scale"] == pytest.approx(4.0)
    assert statement["unit"]["bound_holds_for"] == "each window"
    # With a delta, the mechanism with less noise is chosen: Gaussian noise for a long series.
    long = ("--every", "day", "--per-window", "--delta", "1e-6")
    _, statement = published(*words(*DAYS, *long, output="days", ledger="m.jsonl"))
    assert statement["mechanism"]["name"] == "discrete Gaussian"
    assert statement["mechanism"]["sensitivity_l2_squared"] == 28
    assert statement["mechanism"]["standard_deviation"] < 28
    assert statement["all_publications"]["measure"] == "rho"
    _, statement = published(*words("--delta", "1e-6", output="once", ledger="n.jsonl"))
    assert statement["mechanism"]["name"] == "discrete Laplace"
    assert statement["guarantee"]["delta"] == 0


@pytest.mark.parametrize("cells", ["shape:3x5", "step:0.25x0.5", "metres:30000", "h3:5"])
def test_cells_may_be_lattices_and_hexagons(plain, cells):
    table, statement = published(*words(*BOX, unit="record", cells=(cells,)))
    assert len(table) == statement["cells"]["number"] >= 8
    assert statement["cells"]["kind"] == cells
    # The records at longitude 0.5 are in one cell.
    assert abs(table["count"].max() - 750) < 60


def test_a_file_of_counts_is_published(plain):
    (plain / "counts.csv").write_text("cell,count\nD1,500\nD3,70\n")
    table, _ = published(
        *("publish", "counts.csv", "--unit", "record", "--cells", "districts.geojson"),
        *("--cell-id", "CODE", "--eps", "1", "--ledger", "l.jsonl", "--output", "map"),
    )
    assert (abs(table["count"] - [0, 500, 0, 70]) < 40).all()


@pytest.mark.parametrize("suffix", ["geojson", "gpkg", "shp"])
def test_points_with_unix_times_are_published(folder, suffix):
    taps = pd.read_csv("taps.csv")
    seconds = pd.to_datetime(taps["when"]).astype("datetime64[s, UTC]").astype("int64")
    points = gpd.GeoDataFrame(
        {"card": taps["card"], "when": seconds},
        geometry=gpd.points_from_xy(taps["lon"], taps["lat"]), crs=4326,
    )  # fmt: skip
    points.to_file(f"taps.{suffix}")
    table, _ = published(
        *("publish", f"taps.{suffix}", "--user", "card", "--unit", "user", "--time", "when"),
        *("--records-per-user", "20", "--from", "2024-01-08", "--to", "2024-01-14"),
        *("--time-format", "unix", "--cells", "districts.geojson", "--eps", "1000"),
        *("--ledger", "l.jsonl", "--output", "map"),
    )
    # Noise at eps = 1000 with 20 records of a user has a scale of 1 / 50.
    week = taps[taps["when"].between("2024-01-08", "2024-01-15")]
    assert table["count"].tolist() == week["lon"].value_counts(sort=False).sort_index().tolist()


def test_a_map_without_counts_says_that_it_is_mostly_noise(folder, capsys):
    published(*words(*BOX, cells=("shape:20x20",), unit="record", eps="0.002"))
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("This map is mostly noise")
    for name in ("statement.md", "map.html"):
        assert "This map is mostly noise" in Path("map", name).read_text()


def test_the_function_returns_the_map(plain):
    result = shuffledp.publish(
        Source("taps.csv", latitude="lat", longitude="lon"), "map", ledger="l.jsonl",
        cells="districts.geojson", protection=Protection("record", 0.5),
    )  # fmt: skip
    assert result.new
    assert result.left == "eps=0 of 0.5 is left"
    assert len(result.to_frame()) == 4
    with Path("map/map.csv").open() as file:
        noisy = [int(row["count"]) for row in csv.DictReader(file)]
    assert result.to_frame()["count"].tolist() == noisy


# --- Refusals -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (words("--records-per-user", "2", unit="record"), "an additional record could change"),
        (words("--distinct", unit="record"), "are for --unit user"),
        (words("--time-format", "unix"), "--time-format needs --time"),
        (words(*DAYS, "--time-format", "%H"), "shuffledp: --time-format must be unix"),
        (words(*DAYS, "--to", "2023-01-01"), "period.to must not be before period.from"),
        (words("--separator", ";"), "taps.csv has no column 'card' (--user)"),
        (words("--separator", "a"), "shuffledp: separator must be one character"),
        (["publish", "districts.geojson", *words()[2:]], "leave out --latitude, --longitude"),
        (words("--records-per-user", "0"), "records_per_user must be an integer >= 1"),
        (words(cells=("metres:500",)), "these cells need a region"),
        (words(*BOX, cells=("shape:axb",)), "cells must be h3:8"),
        (words(*BOX, cells=("h3:8", "--cell-id", "CODE")), "properties of a file of polygons"),
        (words(*BOX, "--outline", "districts.geojson"), "give either --box or --outline"),
        (words("--time", "when"), "a period needs both"),
        (words("--every", "week"), "--every and --profile need a period"),
        (words("--from", "2024-01-01"), "give both --from and --to"),
        (words("--per-window"), "needs several windows"),
        (words("--delta", "1e-6", "--mechanism", "laplace"), "give --mechanism gaussian"),
        (words(eps="nan"), "eps must be finite"),
        (words(output="."), "would be in the published folder"),
        (words(output="districts.geojson"), "exists and is never overwritten"),
        (["publish", "counts.csv", *words()[6:]], "a file of counts does not say"),
        ([*words()[:4], *words()[6:]], "give either both --latitude and --longitude"),
        (words("--user", "who"), "no column"),
        (["publish", "none.csv", *words()[2:]], "does not exist"),
        (words(output="taps.csv/map"), "cannot be written"),
        (words(output="m" * 240), "cannot be written"),
        (words("--title", "caf\udce9"), "must be Unicode text"),
        (words(*DAYS, "--to", "9999-12-31"), "in the years 2 to 9998"),
    ],
)
def test_what_cannot_be_published_is_refused_and_costs_nothing(folder, capsys, arguments, message):
    assert main(arguments) == 2
    assert message in capsys.readouterr().err
    assert not Path("map").exists()
    assert not Path("l.jsonl").exists() or not Path("l.jsonl").read_text()


def test_a_link_to_nowhere_is_not_replaced(folder, capsys):
    Path("map").symlink_to("nowhere")
    assert main(words()) == 2
    assert "exists and is never overwritten" in capsys.readouterr().err
    assert not Path("l.jsonl").read_text()


def test_arguments_of_the_function_may_have_other_types(plain):
    source = Source("taps.csv", latitude="lat", longitude="lon", time="when")
    days = date(2024, 1, 1), date(2024, 1, 28)
    options = {"ledger": "l.jsonl", "cells": "districts.geojson"}
    options |= {"protection": Protection("record", np.float64(1.0))}
    for title, every, said in ((Path("x"), None, "title must be"), ("x", "decade", "every must")):
        with pytest.raises(InputError, match=said):
            shuffledp.publish(source, "map", windows=Period(*days, every), title=title, **options)
    published = shuffledp.publish(source, "map", windows=Period(*days), **options)
    assert published.statement["period"]["to"] == "2024-01-28"
    assert published.statement["guarantee"]["eps"] == 1.0


def test_there_is_no_seed(folder, capsys):
    with pytest.raises(SystemExit):
        main(words("--seed", "1"))
    assert "unrecognized arguments: --seed" in capsys.readouterr().err


def test_an_error_about_the_records_publishes_nothing(folder, capsys):
    lines = (folder / "taps.csv").read_text().splitlines()
    (folder / "taps.csv").write_text("\n".join(lines + ["bad,x,y,z"] * 100) + "\n")
    assert main(words()) == 2
    assert "more than --max-malformed-share 0.01 allows" in capsys.readouterr().err
    assert not Path("map").exists()
    assert not Path("l.jsonl").read_text()


# --- An audit from outside ------------------------------------------------------------------

SIDE = 100
"""Rows and columns of an audited map. In each cell, one user is there or not, so that a pair of
maps is as many pairs of neighbours as there are cells."""

CELLS = SIDE**2
CHANCE = 1e-10
"""Probability with which a test below may fail although nothing is wrong."""

DEVIATIONS = stats.norm.isf(CHANCE / 2)


def audited(present, *more, name, records=10, unit="user"):
    """Publish a map with or without a unit in each cell, and return noisy counts and eps.

    A user has `records` records, all in one cell. Another one, outside, is always there.
    """
    rows = ["card,lat,lon", "keeper,0.999,0.999"]
    if present:
        rows += [
            f"u{i},{(i // SIDE + 0.5) / SIDE},{(i % SIDE + 0.5) / SIDE}"
            for i in range(CELLS)
            for _ in range(records)
        ]
    Path("taps.csv").write_text("\n".join(rows) + "\n")
    table, statement = published(
        *words(*more, *BOX, cells=(f"shape:{SIDE}x{SIDE}",), unit=unit, output=name,
               ledger=f"{name}.jsonl")
    )  # fmt: skip
    return table["count"].to_numpy(), statement["guarantee"]["eps"]


def pair(*more, **options):
    """Return noisy counts with and without the units, and the promised eps."""
    (present, promised), (absent, _) = (
        audited(there, *more, name=f"present-{there}", **options) for there in (True, False)
    )
    return present, absent, promised


def certain_ratio(often, rarely, n):
    """Return a lower bound on the log of the ratio of two probabilities, by Clopper and Pearson."""
    low = stats.beta.ppf(CHANCE / 2, often, n - often + 1) if often else 1e-300
    high = stats.beta.ppf(1 - CHANCE / 2, rarely + 1, n - rarely) if rarely < n else 1.0
    return np.log(low / high)


def eps_at_least(present, absent):
    """Return a lower bound on eps: half of the cells choose the threshold, the others count."""
    chosen, held = np.stack([present, absent])[:, ::2], np.stack([present, absent])[:, 1::2]
    n = held.shape[1]
    thresholds = np.unique(chosen)
    exceeded = [(chosen >= threshold).sum(axis=1) for threshold in thresholds]
    best = thresholds[np.argmax([certain_ratio(*numbers, n) for numbers in exceeded])]
    return float(certain_ratio(*(held >= best).sum(axis=1), n))


@pytest.mark.parametrize(
    ("more", "options", "law"),
    [
        (("--records-per-user", "3"), {}, Noise("laplace", 3.0)),
        ((), {"unit": "record", "records": 1}, Noise("laplace", 1.0)),
    ],
    ids=["user", "record"],
)
def test_an_audit_finds_the_promised_eps_and_no_more(plain, more, options, law):
    present, absent, promised = pair(*more, **options)
    assert 0.5 * promised < eps_at_least(present, absent) <= promised
    # As many counts are published unchanged as the law says: all but the keeper's are 0.
    unchanged = np.tanh(0.5 / law.scale)
    error = DEVIATIONS * np.sqrt(unchanged * (1 - unchanged) / CELLS)
    assert abs((absent == 0).mean() - unchanged) < error + 1 / CELLS


def _half_the_noise(patch):
    original = publication.add_noise
    patch.setattr(
        publication,
        "add_noise",
        lambda counts, noise: original(counts, Noise(noise.mechanism, noise.scale / 2)),
    )


def _unbounded_contributions(patch):
    original = counting._Bounded.__init__

    def unbounded(self, size, cells, bound):
        original(self, size, cells, type(bound)("user", 10))

    patch.setattr(counting._Bounded, "__init__", unbounded)


@pytest.mark.parametrize("mutant", [_half_the_noise, _unbounded_contributions])
def test_the_audit_catches_a_defect(plain, monkeypatch, mutant):
    mutant(monkeypatch)
    present, absent, promised = pair("--records-per-user", "3")
    assert eps_at_least(present, absent) > promised


def test_two_publications_of_the_same_records_share_no_noise(plain):
    maps = [audited(True, "--records-per-user", "3", records=3, name=name)[0] for name in "ab"]
    # Independent counts agree in 1 of 12 cells, and their correlation is below 0.07.
    assert (maps[0] == maps[1]).mean() < 0.2
    assert abs(np.corrcoef(*maps)[0, 1]) < 0.2


def test_all_maps_of_a_ledger_together_keep_its_total(plain):
    total = Fraction(0)
    for number in range(8):
        eps = f"0.{20 + number}"
        states = main(words("--total", "1", eps=eps, output=f"map{number}"))
        total += Fraction(eps) if states == 0 else 0
    # 0.2 + 0.21 + 0.22 + 0.23 = 0.86 leaves too little for any other.
    assert total == Fraction("0.86")


def test_the_statement_agrees_with_shuffledp_delta(plain, capsys):
    _, statement = published(*words(unit="record", eps="0.7"))
    capsys.readouterr()
    # The command speaks of replacing a record, which adds to one cell and takes from another.
    eps, local = statement["guarantee"]["eps_for_replacement"], 2 / statement["mechanism"]["scale"]
    assert main(
        ["delta", "--n", "1000", "--k", "4", "--mechanism", "discrete-laplace", "--format", "json",
         "--parameters", f"eps={local!r}", "--eps", str(0.99 * eps), str(eps)]
    ) == 0  # fmt: skip
    smaller, promised = json.loads(capsys.readouterr().out)
    assert smaller["delta_public"] > 0
    assert promised["delta_public"] == statement["guarantee"]["delta_for_replacement"] == 0
