"""The accountant's certificates are proven in balls, and altered or hostile ones refused."""

import contextlib
import copy
import json
import os
from dataclasses import asdict
from fractions import Fraction
from functools import reduce
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from effort import examples, long
from flint import arb, ctx

from oracle import exact
from oracle.high_precision import ball
from oracle.test_profile import by_ratio, delta_of, of_both
from shuffledp import cli
from shuffledp.accounting import krr
from shuffledp.accounting.certificate import certificate, dummies_certificate, view_certificate
from shuffledp.accounting.setting import Setting
from shuffledp.cli import main
from shuffledp.errors import InputError
from shuffledp.mechanisms.shuffler_dummies import ShufflerDummies
from shuffledp.mechanisms.two_servers import GaussianServersParameters, TwoServers
from shuffledp.verification import checker, noise_deltas
from shuffledp.verification.checker import MAX_FILE_BYTES, read, verify
from shuffledp.verification.deltas import RefusedError, TooLongError

# n, k, eps0, eps: every kind of argument and of worst data set.
TRUE = [
    (1, 2, 1.0, 0.5),
    (5, 3, 2.0, 0.3),
    (30, 3, 3.0, 2.4),
    (12, 5, 2.0, 1.8),
    (60, 2, 4.0, 0.1),
    (800, 2, 1.0, 0.12),
    (1000, 3, 1.15, 0.14),
    (1000, 4, 1.0, 0.11),
    long((5000, 3, 0.5, 0.03)),
    long((10_000, 16, 1.0, 0.0186)),
    (100_000, 408, 4.0, 0.03),
    (50, 10, 40.0, 3.0),
    long((2000, 3, 1.0, 0.7)),
    (7, 4, 1.0, 1.0),
    (50, 3, 1.0, 1e-12),
    (50, 5, 1.0, 5e-324),
    (50, 4, 1.0, 1.0 - 1e-15),
    (50, 4, 1e-9, 0.0),
    (50, 3, 250.0, 249.0),
    (400, 3, 2.0, 1.99),
    long((100_000, 408, 4.0, 3.0)),
]


def altered(true, random):
    """Return the certificate with one claim made false, and the name of that claim."""
    made = copy.deepcopy(true)
    n = made["n"]
    shift = 10.0 ** random.uniform(-5, 0)
    kinds = ["lower end", "upper end", "eps", "eps0", "users", "cells"]
    kinds += ["blocks"] * (made["upper"]["argument"] == "counts")
    kind = kinds[random.integers(len(kinds))]
    if kind == "lower end":
        made["lower"]["log_delta"] += shift
    elif kind == "upper end":
        made["upper"]["log_delta"] -= shift * (1.0 + abs(made["upper"]["log_delta"]))
    elif kind == "eps":
        made["eps"] *= 1.0 + (shift if random.random() < 0.5 else -shift)
    elif kind == "eps0":
        made["eps0"] *= 1.0 + (shift if random.random() < 0.5 else -shift)
    elif kind == "users":  # what was said of n users is said of more or fewer
        other = n + int(random.integers(1, 10)) * int(random.choice([-1, 1]))
        made["n"] = max(other, 1) if other != n else n + 1
        held = max(made["lower"]["others"], key=made["lower"]["others"].get)
        made["lower"]["others"][held] += made["n"] - n
    elif kind == "cells":
        made["k"] += int(random.integers(1, 4))
    else:
        blocks = made["upper"]["blocks"]
        del blocks[int(random.integers(len(blocks)))]
    return made, kind


@pytest.mark.parametrize("where", TRUE, ids=str)
def test_true_certificates_are_proven(where):
    n, k, eps0, eps = where
    made = json.loads(json.dumps(certificate(eps, Setting(n, k, eps0))))
    verify(made)
    if made["lower"]["log_delta"] is not None:
        # The certificate is sharp: no larger lower end and no smaller upper end is proven.
        made["lower"]["log_delta"] += 1e-6 * max(1.0, abs(made["lower"]["log_delta"]))
        with pytest.raises(RefusedError):
            verify(made)


def still_true(made):
    setting = Setting(made["n"], made["k"], made["eps0"])
    truth = certificate(made["eps"], setting)
    if made["upper"].get("blocks") != truth["upper"].get("blocks"):
        return False
    low = made["lower"]["log_delta"] <= truth["lower"]["log_delta"] + 1e-9
    return low and made["upper"]["log_delta"] >= truth["upper"]["log_delta"] - 1e-9


def test_altered_certificates_are_refused():
    random = np.random.default_rng(11)
    tight = [(1, 2, 1.0, 0.5), (60, 2, 4.0, 0.1), (300, 2, 1.0, 0.2), (100, 16, 1.0, 0.15),
             (400, 30, 2.0, 0.2), (1000, 40, 1.0, 0.05), (40, 3, 2.0, 0.5)]  # fmt: skip
    true = [certificate(eps, Setting(n, k, eps0)) for n, k, eps0, eps in tight]
    for each in true:
        verify(each)
    kinds = []
    while len(kinds) < examples(200):
        made, kind = altered(true[random.integers(len(true))], random)
        if still_true(made):
            continue
        with pytest.raises(RefusedError):
            verify(made)
        kinds.append(kind)
    assert len(set(kinds)) == 7


CITIES = [(123_094, 408), (10_528, 192)]


LESS_NOISE = {"ratio": 0.999, "eps": 1.001, "sigma": 0.999}


@pytest.mark.parametrize(("n", "k"), CITIES)
@pytest.mark.parametrize("mechanism", [TwoServers(), ShufflerDummies()])
def test_views_of_two_cities_have_certificates(mechanism, n, k):
    """The promise is proven, but not with slightly less noise or at a smaller eps."""
    check_views(mechanism, mechanism.calibrate(1.0, np.log(1e-6), Setting(n, k)), n, k)


@pytest.mark.parametrize(("sigma", "nu"), [(7.2, 60), (0.8, 3), long(3.3, 40)])
def test_views_of_gaussian_noise_have_certificates(sigma, nu):
    check_views(TwoServers(), GaussianServersParameters(sigma, nu), 500, 20)


def check_views(mechanism, calibrated, n, k):
    setting = Setting(n, k)
    curves = {"analyst": mechanism.curve(calibrated, setting)} | mechanism.views(
        calibrated, setting
    )
    for view, curve in curves.items():
        for eps in (0.5, 0.97, 1.0):
            high = curve.log_delta(eps).promised
            if view == "both" or high == 0.0:
                continue
            made = view_certificate(eps, (n, k), mechanism.name, asdict(calibrated), view, high)
            made = json.loads(json.dumps(made))
            verify(made)
            if made["upper"]["log_delta"] is None:
                continue
            for altered in [made | {"eps": 0.999 * eps}] + [
                made | {"parameters": made["parameters"] | {name: made["parameters"][name] * by}}
                for name, by in LESS_NOISE.items()
                if name in made["parameters"]
            ]:
                with pytest.raises(RefusedError, match="upper: delta"):
                    verify(altered)


def test_ratios_of_unknown_order_only_make_the_bound_larger():
    known, masses = [arb(1), arb(2), arb(0.5)], [arb(0.25), arb(0.25), arb(0.5)]
    wide = [ratio + arb(0, 0.1) for ratio in known]
    with ctx.workprec(256):
        true, at_most = (noise_deltas.mean_excess(masses, each, arb(1)) for each in (known, wide))
        assert true == arb(0.5) * (arb(0.25) * 0.5 + arb(0.25) * 1.5) + arb(0.0625)
        assert at_most.upper() >= true


@pytest.mark.parametrize(("n", "k"), [(3, 3), (5, 3), (4, 4), (6, 3), (5, 5)])
@pytest.mark.parametrize("share", [0.1, 0.6, 0.97])
def test_for_few_users_the_lower_end_is_the_worst_data_set(n, k, share):
    """In all of these the others form two groups: in the target's cell and in a third one."""
    E = exact.Fraction(20)
    e = 1 + (E - 1) * exact.Fraction(share)
    worst, _ = exact.worst_delta(n, k, E, e)
    setting = Setting(n, k, float(np.log(20.0)))
    lower = float(krr.lower_log_delta(float(np.log(float(e))), setting))
    assert lower == pytest.approx(np.log(float(worst)), abs=1e-9)


def test_commands(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    setting = ["--n", "100", "--k", "5", "--eps0", "1", "--eps", ".3"]
    assert cli.main(["certify", *setting, "--output", "good.json"]) == 0
    assert cli.main(["certify", *setting]) == 0
    assert capsys.readouterr().out == (tmp_path / "good.json").read_text()
    assert cli.main(["verify", "good.json"]) == 0
    bad = json.loads((tmp_path / "good.json").read_text())
    bad["upper"]["log_delta"] -= 0.1
    (tmp_path / "bad.json").write_text(json.dumps(bad))
    (tmp_path / "none.json").write_text("{")
    capsys.readouterr()
    assert cli.main(["verify", "good.json", "bad.json", "none.json", "--format", "json"]) == 1
    rows = pd.DataFrame(json.loads(capsys.readouterr().out))
    assert rows["verdict"].tolist() == ["proven", "refused", "refused"]
    assert "upper" in rows["reason"][1]
    assert cli.main(["verify", "missing.json"]) == 1
    printed = capsys.readouterr().out
    assert "missing.json" in printed and "cannot be read" in printed
    assert cli.main(["certify", *setting[:-1], "-1"]) == 2


def test_commands_of_a_view(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    setting = ["--n", "100", "--k", "5", "--eps", ".3", "--mechanism", "two-servers"]
    chosen = [*setting, "--parameters", "eps=.5, nu=9"]
    assert cli.main(["certify", *chosen, "--view", "public", "--output", "public.json"]) == 0
    assert cli.main(["verify", "public.json", "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["verdict"], row["mechanism"], row["view"]) == ("proven", "two-servers", "public")
    gaussian = [*setting, "--parameters", "sigma=4, nu=9"]
    assert cli.main(["certify", *gaussian, "--view", "public", "--output", "gaussian.json"]) == 0
    assert cli.main(["verify", "gaussian.json"]) == 0
    assert "sigma=4.0, nu=9" in capsys.readouterr().out
    for wrong, words in [
        ([*chosen, "--view", "both"], "no delta below 1 is certified for the view both"),
        ([*chosen, "--rounds", "2"], "certified for one round"),
        ([*chosen, "--eps0", "1"], "one of --eps0, --dummies and --mechanism"),
        (setting, "give --parameters with --mechanism"),
        ([*setting[:-1], "krr", "--parameters", "eps0=.5"], "mechanism must be one of"),
    ]:
        assert cli.main(["certify", *wrong]) == 2
        assert words in capsys.readouterr().err


# --- Certificates that are meant to mislead their reader or to keep the checker busy --------------

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
    return delta_of(reduce(of_both, [by_ratio(*laws)] * rounds), e)


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
