"""The command answers as a user runs it, and refuses bad input in one line."""

import json
import re
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shuffledp import krr, version
from shuffledp.accounting.krr import upper_log_delta
from shuffledp.accounting.setting import Setting
from shuffledp.cli import main, output
from shuffledp.mechanisms import gaussian
from shuffledp.mechanisms.catalogue import VIEWS
from shuffledp.mechanisms.randomised_response import KRRParameters
from shuffledp.mechanisms.registry import MECHANISMS
from shuffledp.papers.literature import renyi

SETTING = ["--n", "1e4", "--k", "16", "--eps0", "1"]


def run(capsys, *arguments):
    status = main(list(arguments))
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def rows(capsys, *arguments):
    status, out, _ = run(capsys, *arguments, "--format", "json")
    assert status == 0
    return json.loads(out)


def refused(capsys, *arguments):
    """Return the one line with which the command refuses its arguments."""
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    return err


def test_delta_in_full_precision(capsys):
    (row,) = rows(capsys, "delta", *SETTING, "--eps", "0.0186")
    upper = upper_log_delta(0.0186, Setting(10_000, 16, 1.0))
    assert list(row) == ["n", "k", "eps0", "eps", "rounds", "bound", "delta_lower", "delta_upper",
                         "log10_delta_lower", "log10_delta_upper",
                         "neighbours", "unit"]  # fmt: skip
    assert row["delta_upper"] == float(np.nextafter(np.exp(upper), np.inf))
    assert row["delta_lower"] < row["delta_upper"] < 1.0001 * row["delta_lower"] + 1e-9


def test_bounds_lists_guarantees_first(capsys):
    bounds = rows(capsys, "bounds", *SETTING, "--delta", "1e-6")
    assert len(bounds) >= 12
    order = [(not row["guarantee"], row["eps"]) for row in bounds]
    assert order == sorted(order)
    assert bounds[0]["bound"] == "upper"
    assert not bounds[-1]["guarantee"]
    assert all(row["source"] for row in bounds)


def test_plan_predicts_errors(capsys):
    (row,) = rows(capsys, "plan", "--n", "1e5", "--k", "408", "--eps", "0.5", "--delta", "1e-8")
    assert row["krr_cell_sd_users"] > row["gaussian_cell_sd_users"] > 0
    assert 0 < row["gaussian_tv_distance"] < row["krr_tv_distance"] < 1
    (n,) = rows(capsys, "plan", "--eps0", "4", "--k", "408", "--eps", "0.05", "--delta", "1e-8",
                "--mechanism", "krr")  # fmt: skip
    assert 90_000 < n["n"] < 100_000
    assert "krr_cell_sd_users" in n and "gaussian_cell_sd_users" not in n
    (eps,) = rows(capsys, "plan", *SETTING, "--delta", "1e-6", "--mechanism", "krr")
    assert 0 < eps["eps"] < 1


RELEASED = ["delta", "--n", "9", "--k", "3", "--eps", "1", "--mechanism"]
COMPARE = ["compare", "--eps", "1", "--delta", "1e-6"]
TWO = [*COMPARE, "--mechanism", "gaussian", "krr"]


def test_compare_lists_every_mechanism_the_most_accurate_first(capsys):
    compared = rows(capsys, *COMPARE, "--n", "1e4", "--k", "16")
    assert {row["mechanism"] for row in compared} == set(MECHANISMS)
    assert all(row["histogram"] == "uniform" and row["reason"] is None for row in compared)
    distances = [row["tv_distance"] for row in compared]
    assert distances == sorted(distances)
    by_name = {row["mechanism"]: row for row in compared}
    central = by_name["gaussian"]
    sigma = gaussian.gaussian_sigma(1.0, np.log(1e-6))
    assert central["cell_sd_users"] == pytest.approx(sigma, rel=1e-12)
    assert central["largest_cell_sd_users"] == pytest.approx(sigma, rel=1e-12)
    assert central["parameters"] == f"sigma={sigma}"
    assert central["tv_distance"] == pytest.approx(16 * sigma / 1e4 / np.sqrt(2 * np.pi))
    assert central["local_eps0"] is None
    (budget,) = rows(capsys, "calibrate", "--n", "1e4", "--k", "16", *COMPARE[1:])
    assert by_name["krr"]["local_eps0"] == budget["eps0"]


def test_compare_is_a_table_of_80_columns(capsys, monkeypatch):
    """The table shows each eps of the JSON output, rounded up to three digits."""
    monkeypatch.setenv("COLUMNS", "200")
    arguments = [*COMPARE, "--n", "1e4", "--k", "16"]
    by_name = {row["mechanism"]: row for row in rows(capsys, *arguments)}
    status, out, _ = run(capsys, *arguments)
    assert status == 0
    assert max(map(len, out.splitlines())) <= 80
    lines = [line.split() for line in out.splitlines()]
    lines = [line for line in lines if line and line[0] in by_name and len(line) == 10]
    assert [line[0] for line in lines] == [name for name in MECHANISMS if name in by_name]
    for name, error, messages, uploaded, moved, *views, _ in lines:
        row = by_name[name]
        assert float(error) == pytest.approx(row["cell_sd_users"], rel=6e-3)
        assert float(messages) == pytest.approx(row["messages"], rel=6e-3)
        assert float(uploaded) == pytest.approx(row["bytes_sent"], rel=6e-3)
        assert 10 * row["moved_by_one"] <= float(moved) <= 10.1 * row["moved_by_one"]
        for view, text in zip(VIEWS, views, strict=True):
            least = row[f"eps_{view}"]
            assert (text == "-") == (least is None)
            assert least is None or least <= float(text) <= 1.01 * least


def test_compare_reads_a_histogram(capsys, tmp_path):
    counts = [0, 30, 500, 70]
    text, table = tmp_path / "counts.csv", tmp_path / "counts.parquet"
    text.write_text("cell,count\n" + "".join(f"{i},{c}\n" for i, c in enumerate(counts)))
    pq.write_table(pa.table({"count": counts}), table)
    from_text = rows(capsys, *TWO, "--histogram", str(text))
    assert {(row["n"], row["k"], row["histogram"]) for row in from_text} == {(600, 4, str(text))}
    krr_row = next(row for row in from_text if row["mechanism"] == "krr")
    p, q = krr.probabilities(krr_row["local_eps0"], 4)
    # The fullest cell has the largest variance.
    variance = (500 * p * (1 - p) + 100 * q * (1 - q)) / (p - q) ** 2
    assert krr_row["largest_cell_sd_users"] == pytest.approx(np.sqrt(variance))
    assert krr_row["cell_sd_users"] < krr_row["largest_cell_sd_users"]
    from_parquet = rows(capsys, *TWO, "--histogram", str(table))
    assert [row | {"histogram": str(text)} for row in from_parquet] == from_text
    wider = rows(capsys, *TWO, "--histogram", str(text), "--n", "1e4", "--k", "9")
    assert {(row["n"], row["k"]) for row in wider} == {(10_000, 9)}


FAST = ["discrete-laplace", "two-servers", "krr", "hadamard"]


def test_delta_and_epsilon_take_what_compare_prints(capsys):
    sizes = ["--n", "1e4", "--k", "16"]
    for row in rows(capsys, *COMPARE, *sizes, "--mechanism", *FAST):
        chosen = [*sizes, "--mechanism", row["mechanism"], "--parameters", row["parameters"]]
        (at,) = rows(capsys, "delta", *chosen, "--eps", "1")
        assert at["parameters"] == row["parameters"]
        assert at["delta_upper"] <= 1e-6
        assert at["delta_both"] == (1.0 if row["local_eps0"] is None else pytest.approx(1.0))
        (answer,) = rows(capsys, "epsilon", *chosen, "--delta", "1e-6")
        assert answer["eps_upper"] == pytest.approx(1.0, rel=1e-5)
        for view in (f"eps_{name}" for name in VIEWS):
            assert answer[view] == (row[view] and pytest.approx(row[view], rel=1e-5))


def test_krr_by_name_over_rounds_equals_krr_by_its_budget(capsys):
    setting = ["--n", "60", "--k", "4", "--rounds", "3", "--colluding", "7"]
    (known,) = rows(capsys, "epsilon", *setting, "--eps0", "1.5", "--delta", "1e-6")
    by_name = ["--mechanism", "krr", "--parameters", "eps0=1.5"]
    (row,) = rows(capsys, "epsilon", *setting, *by_name, "--delta", "1e-6")
    assert row["eps_upper"] == row["eps_public"] == known["eps_upper"]
    assert (row["eps_both"], row["rounds"], row["colluding"]) == (4.5, 3, 7)


@pytest.mark.parametrize("name", [*FAST[:3], pytest.param("oue", marks=pytest.mark.slow)])
def test_compare_calibrates_for_all_rounds_together(capsys, name):
    sizes, rounds = ["--n", "300", "--k", "4"], ["--rounds", "3"]
    (row,) = rows(capsys, *COMPARE, *sizes, *rounds, "--mechanism", name)
    assert (row["rounds"], row["unit"]) == (3, "all 3 records of one user")
    assert all(row[f"eps_{view}"] is None or row[f"eps_{view}"] <= 1.0 for view in VIEWS[:3])
    chosen = ["--mechanism", name, "--parameters", row["parameters"]]
    (at,) = rows(capsys, "delta", *sizes, *rounds, *chosen, "--eps", "1")
    # Half of delta is reserved for the mass that no eps of a round covers.
    assert 0.4e-6 < at["delta_upper"] <= 1e-6 or name == "discrete-laplace"
    (once,) = rows(capsys, *COMPARE, *sizes, "--mechanism", name)
    assert once["cell_sd_users"] < row["cell_sd_users"] < 3.1 * once["cell_sd_users"]


HISTOGRAM = [*COMPARE, "--histogram"]
MATRIX = ["matrix", "--eps", "0.1", "--n", "9"]


@pytest.mark.parametrize(
    ("command", "content", "message"),
    [
        (HISTOGRAM, "cell\n1\n", "no column count"),
        (HISTOGRAM, "count\n7\n-1\n", "line 3: count must be a whole number from 0 to 10,000,00"),
        (HISTOGRAM, "count\n1,2\n", "line 2 has more values than columns"),
        (HISTOGRAM, "count,count\n1,2\n", "has a column twice"),
        (HISTOGRAM, "count\n5\n", "k must be at least 2"),
        (HISTOGRAM, None, "cannot be read"),
        (MATRIX, "a,b\n0.5,0.5\n1.2,-0.2\n", "line 3: report 0 must be a number from 0 to 1, go"),
        (MATRIX, "0.5,0.5\n0.4,0.3,0.3\n", "as many probabilities as the first, 2, got 3"),
        (MATRIX, None, "cannot be read: No such file"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(capsys, tmp_path, command, content, message):
    path = tmp_path / "numbers.csv"
    if content is not None:
        path.write_text(content)
    assert message in refused(capsys, *command, str(path))


def test_colluders_and_dropouts(capsys):
    small = ["--k", "4", "--eps0", "1", "--delta", "0.01"]
    fewer = rows(capsys, "epsilon", "--n", "30", *small)[0]
    (row,) = rows(capsys, "epsilon", "--n", "40", *small, "--colluding", "10")
    assert row == fewer | {"n": 40, "colluding": 10}
    (row,) = rows(capsys, "epsilon", "--n", "10", *small, "--response-rate", "0.75")
    assert row["eps_lower"] is None
    assert fewer["eps_upper"] < row["eps_upper"] < 1
    (row,) = rows(capsys, "epsilon", "--n", "40", *small, "--dummies", "0.5")
    assert row["dummies"] == 0.5
    assert row["eps_lower"] is None
    assert row["eps_upper"] < fewer["eps_upper"]


def krr_matrix(k, eps0):
    return (np.ones((k, k)) + np.expm1(eps0) * np.eye(k)) / (np.exp(eps0) + k - 1)


@pytest.mark.parametrize("kind", ["csv", "csv with a header", "parquet"])
def test_a_matrix_of_krr_is_krr(capsys, tmp_path, kind):
    matrix, path = krr_matrix(4, 1.0), tmp_path / f"channel.{kind.split()[0]}"
    if kind == "parquet":
        pq.write_table(pa.table({f"r{j}": column for j, column in enumerate(matrix.T)}), path)
    else:
        header = "a,b,c,d" if "header" in kind else ""
        np.savetxt(path, matrix, delimiter=",", fmt="%.17g", header=header, comments="")
    (row,) = rows(capsys, "matrix", str(path), "--n", "100", "--eps", "0.2")
    (known,) = rows(capsys, "delta", "--n", "100", "--k", "4", "--eps0", "1", "--eps", "0.2")
    assert (row["records"], row["reports"]) == (4, 4)
    assert row["local_eps0"] == pytest.approx(1.0, rel=1e-14)
    assert row["delta_lower"] == pytest.approx(known["delta_lower"], rel=2e-3)
    assert known["delta_upper"] <= row["delta_upper"]
    assert row["delta_upper"] == pytest.approx(known["delta_upper"], rel=2e-3)
    variance = MECHANISMS["krr"].variance(np.full(4, 0.25), 100, KRRParameters(1.0))
    assert row["cell_sd_users"] == pytest.approx(100 * np.sqrt(variance.max()))


def test_a_matrix_with_a_zero_has_no_eps_for_a_small_delta(capsys, tmp_path):
    """Report 1 identifies record 1 where nobody else holds it, so delta is at least 0.6."""
    path = tmp_path / "channel.csv"
    path.write_text("1,0\n0.4,0.6\n")
    question = ["matrix", str(path), "--n", "9", "--format", "json"]
    (row,) = json.loads(run(capsys, *question, "--eps", "100")[1])
    assert row["delta_upper"] == pytest.approx(0.6, rel=1e-6)
    assert row["delta_upper"] >= 0.6
    status, out, err = run(capsys, *question[:4], "--delta", "0.59")
    assert status == 0
    assert "delta=0.59 is at least 1/n" in err
    assert re.search(r"local_eps0 +inf\n", out)
    assert re.search(r"eps_upper +inf\n", out)


def test_a_matrix_needs_one_question_and_may_have_fewer_reports_than_records(capsys, tmp_path):
    assert "exactly one of --eps and --delta" in refused(capsys, "matrix", "c.csv", "--n", "9")
    path = tmp_path / "channel.csv"
    path.write_text("0.5,0.5\n0.4,0.6\n0.45,0.55\n")
    (row,) = rows(capsys, *MATRIX, str(path))
    assert row["cell_sd_users"] is None


def test_the_hidden_slot_gives_a_matrix_a_smaller_delta(capsys, tmp_path):
    path = tmp_path / "channel.csv"
    path.write_text("0.6,0.3,0.1\n0.3,0.4,0.3\n0.1,0.3,0.6\n")
    question = ["matrix", str(path), "--n", "2000", "--eps", "0.15"]
    (blanket,) = rows(capsys, *question)
    (hidden,) = rows(capsys, *question, "--hidden-slot")
    assert hidden["hidden_slot"] is True
    assert blanket["delta_lower"] == hidden["delta_lower"]
    assert hidden["delta_lower"] < hidden["delta_upper"] < 0.7 * blanket["delta_upper"]


def test_completion_knows_the_names_of_mechanisms_and_bounds(capsys):
    pytest.importorskip("shtab", reason="shtab is not installed")
    with pytest.raises(SystemExit) as ended:
        main(["completion", "bash"])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert "prio3-histogram" in printed and "strong-adversary" in printed
    assert "rdp___bound_choices=(renyi renyi-simple renyi-special-pair)" in printed


def test_a_list_can_be_filtered_by_words(capsys):
    names = [row["name"] for row in rows(capsys, "list", "Mechanism", "laplace")]
    assert names == ["discrete-laplace", "prio3-histogram"]
    assert "has the word 'zzz'" in refused(capsys, "list", "krr", "zzz")


@pytest.mark.parametrize(("delta", "warned"), [("0.0001", True), ("0.00009", False)])
def test_a_delta_that_promises_nothing_is_pointed_out(capsys, delta, warned):
    status, _, error = run(capsys, "epsilon", *SETTING, "--delta", delta)
    assert status == 0
    assert ("at least 1/n" in error) == warned


def test_all_digits_of_a_typed_delta_are_printed(capsys):
    _, printed, _ = run(capsys, "epsilon", *SETTING, "--delta", "0.00000123456789")
    assert "1.23456789e-06" in printed


def test_completion_without_its_package_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert "pip install shtab" in refused(capsys, "completion", "zsh")


def test_the_error_of_sampled_rounds_is_of_all_users(capsys):
    n, k, rate = 2000, 5, 0.3
    (row,) = rows(capsys, "plan", "--n", str(n), "--k", str(k), "--eps0", "2", "--eps", "1.5",
                  "--sampling-rate", str(rate))  # fmt: skip
    rng = np.random.default_rng(5)
    drawn = rng.binomial(n // k, rate, size=(4000, k))
    reports = np.concatenate([krr.randomise(counts, 2.0, rng) for counts in drawn])
    users = n * krr.invert(reports.astype(float), 2.0)
    assert row["krr_cell_sd_users"] == pytest.approx(users.std(), rel=0.03)


@pytest.mark.parametrize(("rounds", "rate"), [("1", "1"), ("2", "1"), ("2", "0.5"), ("1", "0.5")])
def test_delta_of_a_calibrated_budget_is_the_one_that_calibrate_prints(capsys, rounds, rate):
    common = ["--n", "12", "--k", "4", "--rounds", rounds, "--sampling-rate", rate]
    (row,) = rows(capsys, "calibrate", *common, "--eps", "0.3", "--delta", "0.01")
    (back,) = rows(capsys, "delta", *common, "--eps0", repr(row["eps0"]), "--eps", "0.3")
    assert back["delta_upper"] == row["delta_upper"] <= 0.01
    assert ("sampling_rate" in row) == (rate != "1")


def test_renyi_and_tradeoff_curves(capsys):
    orders = rows(capsys, "rdp", "--n", "1e5", "--eps0", "1", "--rounds", "3", "--order", "2", "8",
                  "--bound", "renyi", "renyi-simple")  # fmt: skip
    assert [(row["bound"], row["order"]) for row in orders] == [
        ("renyi", 2.0), ("renyi", 8.0), ("renyi-simple", 2.0), ("renyi-simple", 8.0)]  # fmt: skip
    once = renyi.shuffled_rdp_upper(8, Setting(100_000, 2, 1.0))
    assert orders[1]["rdp"] == pytest.approx(3 * float(once), rel=1e-15)
    tradeoff = rows(capsys, "fdp", *SETTING, "--alpha", "0", "0.05", "0.5", "1")
    errors = [row["type_2_error_at_least"] for row in tradeoff]
    (total,) = rows(capsys, "delta", *SETTING, "--eps", "0")
    assert errors[-1] == 0.0
    # A test with error probabilities a and b exists only if delta(0) >= 1 - a - b.
    assert 0.95 > errors[1] > 0.95 - total["delta_upper"]
    assert 0.5 > errors[2] >= 0.5 - total["delta_upper"] - 1e-12


@pytest.mark.parametrize(
    ("arguments", "part"), [([], "calibrate"), (["--version"], version.find_version())]
)
def test_help_and_version(capsys, arguments, part):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 0
    assert part in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["epsilon", *SETTING, "--delta", "1e-6", "1e-8"],
        ["calibrate", *SETTING[:4], "--eps", "0.5", "--delta", "1e-6"],
        ["plan", *SETTING[:4], "--eps", "0.5", "--delta", "1e-6"],
        ["compare", *SETTING[:4], "--eps", "1", "--delta", "1e-6", "--mechanism", "gaussian"],
        ["bounds", *SETTING, "--delta", "1e-6"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_neighbours_and_unit_stand_beside_the_number(capsys, arguments):
    guarantee = {"neighbours": "replacement, the same n", "unit": "one record of one user"}
    assert all(guarantee.items() <= row.items() for row in rows(capsys, *arguments))
    _, out, _ = run(capsys, *arguments)
    assert out.endswith("\nneighbours: replacement, the same n; unit: one record of one user\n")
    assert out.count("neighbours") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["delta", *SETTING, "--eps", "-1"], "eps must be at least 0"),
        (["delta", *SETTING, "--eps", "0.1", "--bound", "klones"], "did you mean clones?"),
        (["rdp", "--n", "9", "--eps0", "1", "--bound", "upper"], "not a bound on Renyi DP"),
        ([*COMPARE, "--n", "10", "--k", "3", "--colluding", "10"], "colluding must be below n"),
        ([*COMPARE, "--n", "10"], "give --n and --k, or a --histogram"),
        ([*RELEASED, "krr"], "give either --eps0, for k-RR, or --mechanism with --parameters"),
        (
            [*RELEASED, "krr", "--parameters", "eps=1"],
            "of krr must be eps0, each once, as in eps0=1",
        ),
        ([*RELEASED, "krr", "--parameters", "eps0=1", "--bound", "clones"], "--bound applies to"),
    ],
)
def test_bad_input_is_one_line_and_status_two(capsys, arguments, message):
    assert message in refused(capsys, *arguments)


def test_deltas_below_the_smallest_float(capsys):
    (row,) = rows(capsys, "epsilon", *SETTING, "--delta", "1e-5000")
    assert 0 < row["eps_lower"] <= row["eps_upper"] < 1
    (row,) = rows(capsys, "delta", *SETTING, "--eps", repr(row["eps_upper"]))
    assert row["delta_upper"] == 5e-324
    assert row["log10_delta_upper"] == pytest.approx(-5000, rel=1e-6)


def test_the_table_rounds_to_the_safe_side(capsys):
    for arguments, up in [
        (["calibrate", "--n", "1000", "--k", "10", "--eps", "0.1", "--delta", "1e-7"], False),
        (["epsilon", *SETTING, "--delta", "1e-6"], True),
    ]:
        header, line, *_ = run(capsys, *arguments)[1].splitlines()
        shown = dict(zip(header.split(), line.split(), strict=True))
        (row,) = rows(capsys, *arguments)
        if up:
            assert float(shown["eps_lower"]) <= row["eps_lower"]
            assert float(shown["eps_upper"]) >= row["eps_upper"]
        else:
            assert float(shown["eps0"]) <= row["eps0"]


def test_the_table_shows_all_digits_of_inputs(capsys):
    eps0, eps = 4.000000004999, 0.0300000049999
    arguments = ("--n", "1000", "--k", "10", "--eps0", str(eps0), "--eps", "0.05", str(eps))
    printed = run(capsys, "delta", *arguments)[1].split()
    assert str(eps0) in printed
    assert str(eps) in printed


def test_a_column_without_a_direction_of_rounding_cannot_be_printed():
    with pytest.raises(KeyError):
        output.print_rows([{"n": 10, "upper_end": 0.5}], "json")
