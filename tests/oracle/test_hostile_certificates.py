"""Certificates that are meant to mislead their reader or to keep the checker busy."""

import contextlib
import json
import os
from fractions import Fraction
from pathlib import Path

import pytest
from effort import long

from oracle import exact
from oracle.high_precision import ball
from shuffledp.accounting.certificate import (
    certificate,
    dummies_certificate,
    view_certificate,
)
from shuffledp.accounting.setting import Setting
from shuffledp.cli import main
from shuffledp.errors import InputError
from shuffledp.verification import checker
from shuffledp.verification.checker import MAX_FILE_BYTES, read, verify
from shuffledp.verification.deltas import RefusedError, TooLongError

KINDS = {
    "one round": lambda: certificate(0.3, Setting(100, 5, 1.0)),
    "counts": lambda: certificate(0.1, Setting(60, 2, 4.0)),
    "dummies": lambda: dummies_certificate(0.3, 50, 4, 1.5, 2),
    "rounds": lambda: certificate(1.0, Setting(20, 3, 1.0, rounds=3)),
}
BOTH = {"eps": 1.0, "nu": 5}
VIEWS = {
    "Gaussian": lambda: view_certificate(
        1.0, (50, 5), "two-servers", {"sigma": 3.0, "nu": 5}, "public", -1.0
    ),
    "servers": lambda: view_certificate(0.0, (50, 5), "two-servers", BOTH, "public", -1.0),
}


def verdicts(capsys, *files):
    status = main(["verify", *map(str, files), "--format", "json"])
    return status, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("kind", [*KINDS, *VIEWS])
def test_keys_that_nobody_checks_are_refused(kind):
    made = json.loads(json.dumps((KINDS | VIEWS)[kind]()))
    verify(made)
    for where in ("it", "lower", "upper"):
        more = json.loads(json.dumps(made))
        (more if where == "it" else more[where])["users"] = 100
        with pytest.raises(RefusedError, match=f"{where} has an unknown key 'users'"):
            verify(more)


MEANT_ILL = [
    ("servers", {"eps": 1e-300}, RefusedError, "eps of the noise must be"),
    ("servers", {"nu": 2**52}, TooLongError, "terms"),
    ("servers", {"nu": 2.0}, RefusedError, "nu must be an integer"),
    ("Gaussian", {"sigma": 1e5}, TooLongError, "terms"),
    ("Gaussian", {"sigma": 1e-300}, RefusedError, "sigma must be from"),
    ("Gaussian", {"eps": 1.0}, RefusedError, "parameters has an unknown key 'eps'"),
]


@pytest.mark.parametrize(("kind", "change", "error", "words"), MEANT_ILL)
def test_parameters_that_keep_the_checker_busy(kind, change, error, words):
    made = VIEWS[kind]()
    made["parameters"] |= change
    with pytest.raises(error, match=words):
        verify(made)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"view": "both"}, "view must be one of analyst, shuffler, public, got 'both'"),
        ({"mechanism": "shuffler-dummies", "view": "shuffler"}, "analyst, public, got 'shuffler'"),
        ({"lower": {"log_delta": -9.0}}, "lower end of a view must be null"),
        ({"upper": {"log_delta": None}}, "delta is not shown to be 0"),
        ({"upper": {"log_delta": -200.0}}, "upper: delta"),
        long({"upper": {"log_delta": -1e12}}, "upper: delta"),
    ],
)
def test_unknown_views_are_refused(change, words):
    with pytest.raises(RefusedError, match=words):
        verify(VIEWS["servers"]() | change)


def test_a_key_that_is_there_twice_is_refused(tmp_path):
    text = json.dumps(KINDS["one round"]())
    (tmp_path / "two.json").write_text('{"n": 1000000, ' + text[1:])
    with pytest.raises(RefusedError, match="'n' occurs twice"):
        read(tmp_path / "two.json")


def test_a_bad_file_does_not_suppress_other_verdicts(capsys, tmp_path):
    (tmp_path / "deep").write_text("[" * 200_000)
    (tmp_path / "long").write_bytes(b" " * (MAX_FILE_BYTES + 1))
    (tmp_path / "bytes").write_bytes(b"\xff\xfe{")
    (tmp_path / "number").write_text("9" * 10_000)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "good").write_text(json.dumps(KINDS["one round"]()))
    names = ["deep", "long", "bytes", "number", "pipe", "good"]
    status, rows = verdicts(capsys, *(tmp_path / name for name in names), "/dev/zero")
    assert status == 1
    unread = "not checked"
    assert [row["verdict"] for row in rows] == [
        *("refused", unread, "refused", "refused", unread, "proven", unread)
    ]
    assert all(row["n"] is None for row in rows if row["verdict"] != "proven")
    assert "regular" in rows[-1]["reason"]


@pytest.mark.parametrize(
    "change",
    [
        {"rounds": 10**9},
        {"masses": [[i, 1e-9] for i in range(1, 5000)]},
        {"masses": [[10**8, 0.1]]},
    ],
)
def test_rounds_that_take_too_long_are_not_begun(change):
    made = KINDS["rounds"]()
    made |= {key: value for key, value in change.items() if key == "rounds"}
    made["upper"] |= {key: value for key, value in change.items() if key == "masses"}
    made["upper"]["step"] = 2.0**-30
    with pytest.raises(TooLongError):
        verify(made)


def changed(value, odd):
    """Yield copies of a JSON value in each of which one leaf is replaced by an odd value."""
    if isinstance(value, dict | list):
        keys = sorted(value) if isinstance(value, dict) else [0, -1][: len(value)]
        for key in keys:
            for other in changed(value[key], odd):
                copy = value.copy()
                copy[key] = other
                yield copy
    else:
        yield odd


@pytest.mark.parametrize("odd", [-1, 10**400, 10**16, 1e308, -1e308, 5e-324, "1", None, []])
@pytest.mark.parametrize("kind", KINDS | VIEWS)
def test_an_odd_value_anywhere_is_refused_or_harmless(kind, odd):
    made = json.loads(json.dumps((KINDS | VIEWS)[kind]()))
    for hostile in changed(made, odd):
        with contextlib.suppress(RefusedError, TooLongError):
            assert verify(hostile).high >= made["upper"]["log_delta"]


# ---------------------------------------------------------------- dummies


@pytest.mark.parametrize(("n", "k", "r"), [(1, 2, 1), (3, 3, 2), (5, 4, 3), (2, 2, 4), (8, 6, 1)])
@pytest.mark.parametrize("share", [0.25, 0.5, 1.0])
@pytest.mark.parametrize("e", [1.0, 1.5, 6.0])
def test_dummies_are_certified_to_nine_digits(n, k, r, share, e):
    eps = float(ball(e).log())
    made = json.loads(json.dumps(dummies_certificate(eps, n, k, share * r, r)))
    claim = verify(made)
    with pytest.raises(RefusedError):
        verify(made | {"upper": {"log_delta": made["lower"]["log_delta"] - 1e-9}})
    # The truth is rational; eps is a double next to log(e).
    truth = exact.dummies_delta(n * r, Fraction(share) / k, Fraction(e))
    assert claim.low == pytest.approx(float(ball(truth).log()), abs=1e-9)
    assert claim.high == pytest.approx(claim.low, abs=1e-8)


def test_altered_parameters_of_dummies_are_refused():
    made = json.loads(json.dumps(dummies_certificate(0.5, 5, 4, 1.5, 3)))
    verify(made)
    for key, value in (
        ("n", 6),
        ("n", 4),
        ("k", 5),
        ("dummies", 1.4),
        ("chances", 4),
        ("eps", 0.4),
    ):
        with pytest.raises(RefusedError, match="is not shown"):
            verify(made | {key: value})


# ---------------------------------------------------------------- rounds


def attained(n, k, E, e, rounds):
    """Return the exact delta of rounds if all other users hold a third cell."""
    cells = (2,) * (n - 1)
    laws = [exact.histogram_law((target, *cells), k, E) for target in (0, 1)]
    one = [(laws[0].get(h, 0), laws[1].get(h, 0)) for h in set(laws[0]) | set(laws[1])]
    pairs = {(Fraction(1), Fraction(1)): 1}
    for _ in range(rounds):
        after = {}
        for (p, q), times in pairs.items():
            for a, b in one:
                after[p * a, q * b] = after.get((p * a, q * b), 0) + times
        pairs = after
    return sum(
        (times * max(p - e * q, Fraction(0)) for (p, q), times in pairs.items()), Fraction(0)
    )


@pytest.mark.parametrize(
    ("n", "rounds", "eps"), [(2, 2, 0.5), (3, 2, 0.3), (3, 3, 1.0), (4, 2, 0.1)]
)
def test_certified_rounds_are_above_a_data_set(n, rounds, eps):
    E, k = 3, 3
    eps0 = float(ball(E).log())
    made = json.loads(json.dumps(certificate(eps, Setting(n, k, eps0, rounds=rounds))))
    claim = verify(made)
    truth = float(attained(n, k, Fraction(E), Fraction(float(ball(eps).exp())), rounds))
    assert truth <= float(ball(claim.high).exp()) <= 2.5 * truth
    with pytest.raises(RefusedError, match="grid"):
        verify(made | {"upper": made["upper"] | {"log_delta": claim.high - 1e-3}})


@pytest.mark.parametrize("of", ["eps0", "n", "k", "mass", "infinite", "step", "sum"])
def test_a_grid_that_does_not_dominate_a_round_is_refused(of):
    made = json.loads(json.dumps(certificate(0.8, Setting(30, 4, 1.5, rounds=4))))
    verify(made)
    upper = made["upper"]
    # With any valid grid delta of the rounds is far below this.
    upper["log_delta"] = -1e-6
    if of in ("eps0", "n", "k"):
        made[of] = {"eps0": 1.6, "n": 28, "k": 3}[of]
    elif of == "mass":
        upper["masses"][0][1] *= 1.0 - 1e-5
    elif of == "infinite":
        upper["masses"] = upper["masses"][:2]
    elif of == "step":
        upper["step"] /= 2.0
    else:
        upper["masses"] = [[i, 10.0 * mass] for i, mass in upper["masses"]]
    with pytest.raises(RefusedError, match="grid"):
        verify(made)


def test_commands_certify_rounds_and_dummies(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sizes = ["--n", "40", "--k", "4", "--eps", "0.8"]
    assert main(["certify", *sizes, "--eps0", "1.5", "--rounds", "3", "--output", "r.json"]) == 0
    assert main(["certify", *sizes, "--dummies", "1.5", "--output", "d.json"]) == 0
    status, rows = verdicts(capsys, "r.json", "d.json")
    assert status == 0
    assert [(row["rounds"], row["chances"]) for row in rows] == [(3, None), (1, 2)]
    for wrong, message in [
        ([], "give exactly one of"),
        (["--eps0", "1", "--chances", "2"], "--chances is for --dummies"),
        (["--dummies", "2", "--rounds", "2"], "one round"),
        (["--eps0", "0.1", "--rounds", "2"], "below rounds * eps0"),
    ]:
        assert main(["certify", *sizes, *wrong]) == 2
        assert message in capsys.readouterr().err


def test_certificates_need_full_participation():
    for more in (
        {"sampling_rate": 0.5},
        {"colluding": 3},
        {"response_rate": 0.5},
        {"dummies": 1.0},
    ):
        with pytest.raises(InputError, match="honest users who all report"):
            certificate(0.3, Setting(100, 5, 1.0, **more))


def test_the_checker_shares_no_code_with_the_library():
    for path in sorted(Path(checker.__file__).parent.glob("*.py")):
        for line in path.read_text().splitlines():
            if line.startswith(("import shuffledp", "from shuffledp")):
                assert line.startswith("from shuffledp.verification"), path.name
