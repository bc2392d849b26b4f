"""The command as a user runs it."""

import csv
import errno
import io
import json
import shlex
import subprocess
import sys

import numpy as np
import pytest
from shuffledp import cli
from shuffledp.accounting.one_round import certified
from shuffledp.accounting.setting import Setting
from shuffledp.cli import answers, main

SETTING = ["--n", "1e4", "--k", "16", "--eps0", "1"]


def run(capsys, *arguments):
    status = main(list(arguments))
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def rows(capsys, *arguments):
    status, out, _ = run(capsys, *arguments, "--format", "json")
    assert status == 0
    return json.loads(out)


def test_delta_in_full_precision(capsys):
    (row,) = rows(capsys, "delta", *SETTING, "--eps", "0.0186")
    upper = certified.upper_log_delta(0.0186, Setting(10_000, 16, 1.0))
    assert list(row) == ["n", "k", "eps0", "eps", "rounds", "bound", "delta_lower", "delta_upper",
                         "log10_delta_lower", "log10_delta_upper"]  # fmt: skip
    assert row["delta_upper"] == float(np.nextafter(np.exp(upper), np.inf))
    assert row["delta_lower"] < row["delta_upper"] < 1.0001 * row["delta_lower"] + 1e-9


def test_epsilon_encloses_the_published_interval(capsys):
    # docs/accounting.md: eps in [.0185898, .0185902] to the digits given.
    (row,) = rows(capsys, "epsilon", *SETTING, "--delta", "1e-6")
    assert row["eps_lower"] == pytest.approx(0.0185898, abs=1e-7)
    assert row["eps_upper"] == pytest.approx(0.0185902, abs=1e-7)


def test_one_sided_bounds_leave_the_other_side_null(capsys):
    names = ["clones", "single-bin", "exact-2rr"]
    found = rows(capsys, "delta", "--n", "500", "--k", "2", "--eps0", "1", "--eps", "0.2",
                 "--bound", *names)  # fmt: skip
    clones, single, exact = found
    assert clones["delta_lower"] is None
    assert clones["delta_upper"] > 0
    assert single["delta_upper"] is None
    assert exact["delta_lower"] is None
    assert 0 < exact["delta_upper"] <= clones["delta_upper"]


def test_calibrate_then_delta_round_trip(capsys):
    arguments = ["--n", "100000", "--k", "408"]
    (row,) = rows(capsys, "calibrate", *arguments, "--eps", "0.5", "--delta", "1e-8")
    assert row["delta_upper"] <= 1e-8
    (back,) = rows(capsys, "delta", *arguments, "--eps0", repr(row["eps0"]), "--eps", "0.5")
    assert back["delta_upper"] == row["delta_upper"]


def test_bounds_are_many_and_sorted(capsys):
    found = rows(capsys, "bounds", *SETTING, "--delta", "1e-6")
    assert len(found) >= 12
    eps = [row["eps"] for row in found]
    assert eps == sorted(eps)
    names = [row["bound"] for row in found]
    assert names.index("lower") < names.index("upper") < names.index("clones")
    best = min(row["eps"] for row in found if row["guarantee"])
    assert next(row for row in found if row["eps"] == best)["bound"] == "upper"
    assert all(row["source"] for row in found)


def test_plan_predicts_errors(capsys):
    (row,) = rows(capsys, "plan", "--n", "1e5", "--k", "408", "--eps", "0.5", "--delta", "1e-8")
    assert row["krr_cell_sd"] > row["gaussian_cell_sd"] > 0
    assert 0 < row["gaussian_tv_distance"] < row["krr_tv_distance"] < 1
    (n,) = rows(capsys, "plan", "--eps0", "4", "--k", "408", "--eps", "0.05", "--delta", "1e-8")
    assert 90_000 < n["n"] < 100_000


def test_rounds_and_sampling(capsys):
    once, thrice = (
        rows(capsys, "epsilon", *SETTING, "--delta", "1e-6", "--rounds", rounds)[0]["eps_upper"]
        for rounds in ("1", "3")
    )
    assert once < thrice < 3 * once
    sampled = rows(capsys, "delta", *SETTING, "--eps", "0.03", "--sampling-rate", "0.5")[0]
    assert sampled["delta_lower"] is None
    assert sampled["delta_upper"] > 0


def test_csv_and_table(capsys):
    status, out, _ = run(capsys, "list", "--format", "csv")
    assert status == 0
    listed = list(csv.DictReader(io.StringIO(out)))
    assert {"upper", "lower", "clones", "erlingsson"} <= {row["bound"] for row in listed}
    status, out, _ = run(capsys, "delta", *SETTING, "--eps", "0.01", "1", "2")
    assert status == 0
    assert len(out.splitlines()) == 4
    assert "certified" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["delta", "--n", "10", "--k", "1", "--eps0", "1", "--eps", "0.1"], "k must be at least 2"),
        (["delta", *SETTING, "--eps", "-1"], "eps must be at least 0"),
        (["delta", *SETTING, "--eps", "0.1", "--bound", "nothing"], "there is no bound"),
        (["delta", *SETTING, "--eps", "0.1", "--bound", "exact-2rr"], "k = 2 only"),
        (["epsilon", *SETTING, "--delta", "2"], "delta must lie in"),
        (["epsilon", *SETTING, "--delta", "nan"], "delta must lie in"),
        (["plan", "--n", "10"], "exactly one"),
        (["delta", *SETTING, "--eps", "0.1", "--sampling-rate", "2"], "sampling rate"),
        (["delta", *SETTING, "--eps", "0.1", "--count", "5"], "has no meaning for certified"),
        (["delta", *SETTING, "--eps", "0.1", "--bound", "renyi-special-pair"], "neither an upper"),
        (["delta", "--n", "1e15", "--k", "3", "--eps0", "1", "--eps", "0.1"], "n must lie in"),
        (["plan", "--n", "0", "--eps0", "1", "--eps", "1", "--delta", "0.1"], "n must lie in"),
        (["plan", "--n", "9", "--k", "3", "--eps", "-1", "--delta", "0.1"], "eps must be at"),
        (["calibrate", "--n", "9", "--k", "3", "--eps", "inf", "--delta", "0.1"], "eps must be at"),
        (["plan", "--n", "1000", "--k", "1e9", "--eps0", "2", "--eps", "0.1"], "k must lie in"),
    ],
)
def test_bad_input_is_one_line_and_status_two(capsys, arguments, message):
    status, out, err = run(capsys, *arguments)
    assert status == 2
    assert out == ""
    assert message in err
    assert err.count("\n") == 1


def test_a_defect_is_not_the_users_mistake(monkeypatch):
    def broken(arguments):
        raise ValueError("negative mass")

    monkeypatch.setattr(answers, "answer", broken)
    with pytest.raises(ValueError, match="negative mass") as caught:
        main(["list"])
    assert any("please report it" in note for note in caught.value.__notes__)


def test_no_room_for_the_answer_is_one_line(capsys, monkeypatch):
    def full(rows, style):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(cli, "print_rows", full)
    status, _, err = run(capsys, "list")
    assert status == 1
    assert err == "shuffledp: the answer cannot be written: [Errno 28] No space left on device\n"


def test_a_reader_that_goes_away_is_no_error():
    command = f"{shlex.quote(sys.executable)} -m shuffledp list --format json | true"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_as_a_process():
    command = [sys.executable, "-m", "shuffledp", "delta", *SETTING, "--eps", "x"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 2
    assert "invalid float value: 'x'" in done.stderr
    assert done.stderr.count("\n") == 1
    done = subprocess.run(
        [sys.executable, "-m", "shuffledp", "--help"],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert "replacement of one report" in done.stdout


@pytest.mark.parametrize("n", ["inf", "nan", "1.5", "x"])
def test_whole_numbers(n):
    with pytest.raises(SystemExit) as stopped:
        main(["delta", "--n", n, "--k", "3", "--eps0", "1", "--eps", "0.1"])
    assert stopped.value.code == 2


def test_deltas_below_the_smallest_float(capsys):
    (row,) = rows(capsys, "epsilon", *SETTING, "--delta", "1e-5000")
    assert 0 < row["eps_lower"] <= row["eps_upper"] < 1
    (row,) = rows(capsys, "delta", *SETTING, "--eps", repr(row["eps_upper"]))
    assert row["delta_upper"] == 5e-324
    assert row["log10_delta_upper"] == pytest.approx(-5000, rel=1e-6)
    (row,) = rows(capsys, "delta", *SETTING, "--eps", "1")
    assert row["delta_upper"] == 0.0


def test_sampling_certifies_upper_ends_only(capsys):
    arguments = ["--n", "1000", "--k", "2", "--eps0", "1", "--eps", "0.1", "--sampling-rate", "0.5"]
    for name in ("exact-2rr", "blanket-bennett", "certified"):
        (row,) = rows(capsys, "delta", *arguments, "--bound", name)
        assert row["delta_lower"] is None
        assert 0 < row["delta_upper"] <= 0.5


def test_calibrated_budgets_are_printed_rounded_down(capsys):
    arguments = ["calibrate", "--n", "1000", "--k", "10", "--eps", "0.1", "--delta", "1e-7"]
    status, out, _ = run(capsys, *arguments)
    assert status == 0
    (row,) = rows(capsys, *arguments)
    assert float(out.splitlines()[1].split()[4]) <= row["eps0"]


def test_the_table_rounds_to_the_safe_side(capsys):
    status, out, _ = run(capsys, "epsilon", *SETTING, "--delta", "1e-6")
    assert status == 0
    shown = out.splitlines()[1].split()
    (row,) = rows(capsys, "epsilon", *SETTING, "--delta", "1e-6")
    assert float(shown[-2]) <= row["eps_lower"]
    assert float(shown[-1]) >= row["eps_upper"]
