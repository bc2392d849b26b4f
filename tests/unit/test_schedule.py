"""`shuffledp rounds`: the file, the answer, and the errors of both."""

import json

import pytest

import shuffledp
from shuffledp import cli
from shuffledp.accounting.accountant import curve
from shuffledp.accounting.conventions import log_of_delta
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.input_files import read_rounds
from shuffledp.mechanisms.catalogue import VIEWS
from shuffledp.mechanisms.registry import MECHANISMS
from shuffledp.mechanisms.shuffler_dummies import ShufflerDummiesParameters
from shuffledp.mechanisms.target_calibration import Released

MIXED = """n,k,eps0,mechanism,parameters,rounds,note
60,4,1.5,,,2,spring

"6e1",4,,two-servers,"eps=0.2, nu=200",,
"""


def written(path, text):
    path = path / "schedule.csv"
    path.write_text(text, encoding="utf-8")
    return path


def rows(capsys, *words):
    assert cli.main([*words, "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_row_is_a_setting(tmp_path):
    two_servers = Released(MECHANISMS["two-servers"], ShufflerDummiesParameters(0.2, 200))
    settings = shuffledp.read_rounds(written(tmp_path, MIXED))
    assert settings == [Setting(60, 4, 1.5, 2), Setting(60, 4, mechanism=two_servers)]


@pytest.mark.slow
def test_the_command_answers_for_all_rows_together(capsys, tmp_path):
    path = str(written(tmp_path, MIXED))
    schedule = curve(read_rounds(path))
    (row,) = rows(capsys, "rounds", path, "--delta", "1e-6")
    assert list(row) == ["rows", "rounds", "delta", "eps_lower", "eps_upper",
                         *(f"eps_{view}" for view in VIEWS), "neighbours", "unit"]  # fmt: skip
    assert (row["rows"], row["rounds"], row["unit"]) == (2, 3, "all 3 records of one user")
    assert row["eps_upper"] == row["eps_analyst"] == schedule.epsilon(log_of_delta(1e-6)).upper
    # Both servers together see the records of one round; the public sees less than the analyst.
    assert row["eps_both"] is None
    assert 0.0 < row["eps_public"] < row["eps_analyst"] < 3.2
    assert row["eps_shuffler"] == pytest.approx(row["eps_analyst"], rel=1e-4)


def test_delta_of_a_schedule_is_that_of_its_curve(capsys, tmp_path):
    path = str(written(tmp_path, MIXED))
    low, high = rows(capsys, "rounds", path, "--eps", "0.5", "1")
    deltas = curve(read_rounds(path)).log_delta([0.5, 1.0]).exp()
    assert [low["delta_upper"], high["delta_upper"]] == deltas.upper.tolist()
    assert [low["delta_lower"], high["delta_lower"]] == deltas.lower.tolist()
    assert low["delta_public"] < low["delta_analyst"] == low["delta_upper"]
    assert (high["eps"], high["delta_both"]) == (1.0, 1.0)


def test_equal_rows_count_as_rounds(capsys, tmp_path):
    path = written(tmp_path, "n,k,eps0,rounds\n40,4,1,2\n40,4,1.0,3\n")
    (row,) = rows(capsys, "rounds", str(path), "--eps", "0.5")
    setting = ["--n", "40", "--k", "4", "--eps0", "1", "--rounds", "5", "--eps", "0.5"]
    (same,) = rows(capsys, "delta", *setting)
    assert row.items() - same.items() == {("rows", 2)}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("n,k,eps0\n", "has no rounds in it"),
        ("n,k,eps0,round\n9,3,1,4\n", "may have no column round; did you mean rounds?"),
        ("n,k,eps0,k\n9,3,1,4\n", r"has a column twice \(columns: n, k, eps0, k\)"),
        ("n,k,eps0\n9,3,1\n0,3,1\n", r"line 3: n must be an integer .*, got n=0"),
        ("n,k,eps0,rounds\n9,3,1,1.5\n", "line 2: rounds must be a whole number, got 1.5"),
        ("n,k,eps0\n9,3,\n", "line 2: give eps0, for k-RR, or a mechanism and its parameters"),
        (
            "n,k,mechanism,parameters\n9,3,user-dummies,dummies=1, chances=1\n",
            "line 2 has more values than columns: put a value with a comma in quotes",
        ),
        ("n,k,eps0\n9,3,1\0\n", "is not a csv file|line 2: "),
        ("n,k,eps0,rounds\n9,3,1,1e6\n9,3,2,1\n", r"from 1 to 1,000,000 rounds, got 1,000,001"),
    ],
)
def test_a_bad_file_is_refused_in_one_line(tmp_path, capsys, text, words):
    path = written(tmp_path, text)
    with pytest.raises(InputError, match=words) as error:
        curve(read_rounds(path))
    assert "\n" not in str(error.value)
    assert cli.main(["rounds", str(path), "--delta", "1e-6"]) == 2
    message = capsys.readouterr().err
    assert str(path) in message
    assert message.count("\n") == 1
