"""The accountant's certificates are proven in balls, and altered ones refused."""

import copy
import json
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from effort import examples, long
from flint import arb, ctx

from oracle import exact
from shuffledp import cli
from shuffledp.accounting import krr
from shuffledp.accounting.certificate import certificate, view_certificate
from shuffledp.accounting.setting import Setting
from shuffledp.mechanisms.shuffler_dummies import ShufflerDummies
from shuffledp.mechanisms.two_servers import GaussianServersParameters, TwoServers
from shuffledp.verification import noise_deltas
from shuffledp.verification.checker import verify
from shuffledp.verification.deltas import RefusedError

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
    """Return whether both ends still enclose the accountant's answer to the altered claims."""
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
