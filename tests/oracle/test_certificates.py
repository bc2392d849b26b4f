"""Certificates of the accountant, checked by balls; altered ones must be refused."""

import copy
import json

import numpy as np
import pandas as pd
import pytest
from effort import examples, long
from shuffledp import cli
from shuffledp.accounting.certificate import certificate
from shuffledp.accounting.one_round import certified
from shuffledp.accounting.setting import Setting
from shuffledp.verification.certificate import verify
from shuffledp.verification.deltas import RefusedError, TooLongError

from oracle import exact

# n, k, eps0, eps: every argument, and data sets of every shape.
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
]


def altered(true, random):
    """The same certificate with one claim that is no longer true, and what was altered."""
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
        # As good as can be: nothing above the lower end, nothing below the upper one is proven.
        made["lower"]["log_delta"] += 1e-6 * max(1.0, abs(made["lower"]["log_delta"]))
        with pytest.raises(RefusedError):
            verify(made)


def still_true(made):
    """Whether both ends enclose what the accountant says of the altered claims, blocks whole."""
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


def test_the_tables_of_the_default_run_have_certificates():
    """A sample of the settings that `make run` asks: both cities, smallest and largest budgets."""
    for n, k, eps0, eps in [
        (1000, 408, 1.0, 0.1),
        (10_000, 192, 2.0, 0.05),
        (11_190, 192, 4.0, 0.1),
        (10_260, 165, 6.0, 0.5),
        (123_094, 408, 4.0, 0.03),
    ]:
        verify(certificate(eps, Setting(n, k, eps0)))
    with pytest.raises(TooLongError, match="terms"):
        verify(certificate(0.001, Setting(10_000_000, 3, 1.0)))


@pytest.mark.parametrize(("n", "k"), [(3, 3), (5, 3), (4, 4), (6, 3), (5, 5)])
@pytest.mark.parametrize("share", [0.1, 0.6, 0.97])
def test_for_few_users_the_lower_end_is_the_worst_data_set(n, k, share):
    """In all of these it is one of two groups: some in the target's cell, the rest in a third."""
    E = exact.Fraction(20)
    e = 1 + (E - 1) * exact.Fraction(share)
    worst, _ = exact.worst_delta(n, k, E, e)
    setting = Setting(n, k, float(np.log(20.0)))
    lower = float(certified.lower_log_delta(float(np.log(float(e))), setting))
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
    assert cli.main(["verify", "missing.json"]) == 2
    assert "missing.json cannot be read" in capsys.readouterr().err
    assert cli.main(["certify", *setting[:-1], "-1"]) == 2
