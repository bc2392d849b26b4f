"""What may be typed or given as a file to mislead the command or keep it busy."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from shuffledp.accounting.registry import BOUNDS
from shuffledp.accounting.setting import LARGEST_ROUNDS, Setting
from shuffledp.cli import main, tables
from shuffledp.cli.words import number, one_line
from shuffledp.errors import InputError

SETTING = ["--n", "100", "--k", "3", "--eps0", "1"]
COMPARE = ["compare", "--eps", "1", "--delta", "1e-6", "--mechanism", "gaussian", "--histogram"]


def ended(capsys, *arguments):
    """Status, and what was said of it: one line."""
    try:
        status = main(list(arguments))
    except SystemExit as stopped:
        status = stopped.code
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert len(err) < 1_500
    return status, err


@pytest.mark.parametrize("rounds", ["1e9", "1e13", "1e17", "1000001"])
@pytest.mark.parametrize("command", ["delta --eps .5", "epsilon --delta 1e-6", "fdp"])
def test_rounds_have_a_limit(capsys, command, rounds):
    name, *question = command.split()
    status, err = ended(capsys, name, *SETTING, *question, "--rounds", rounds)
    assert status == 2
    assert f"at most {LARGEST_ROUNDS:,}" in err


def test_budgets_below_floats_are_refused(capsys):
    status, err = ended(capsys, "fdp", "--n", "9", "--k", "3", "--eps0", "5e-324", "--rounds", "2")
    assert status == 2
    assert "at least 1e-200" in err
    with pytest.raises(InputError, match="at least 1e-200"):
        Setting(9, 3, 1e-201)


@pytest.mark.parametrize(
    "text", ["1_0", "٣", "0x64", "1e", "", ".", "1 0", "１", "1e9999999999", "1e999999999"]
)
def test_numbers_are_written_plainly(capsys, text):
    with pytest.raises(ValueError, match="number"):
        number(text)
    for option in ("--n", "--eps0", "--eps"):
        words = {"--n": "10", "--k": "3", "--eps0": "1", "--eps": "0.5"} | {option: text}
        status, err = ended(capsys, "delta", *[word for pair in words.items() for word in pair])
        assert status == 2
        assert "is not a" in err
    assert number(" +1.5e-3 ") == 1.5e-3


def test_numbers_of_a_file_are_written_plainly(capsys, tmp_path):
    path = tmp_path / "counts.csv"
    for text in ("1_0", "٣", "0x10"):
        path.write_text(f"count\n5\n{text}\n", encoding="utf-8")
        status, err = ended(capsys, *COMPARE, str(path))
        assert status == 2
        assert "whole number of users" in err
    path.write_text("0.5,0.5\n0_1,0.9\n")
    status, err = ended(capsys, "matrix", str(path), "--n", "9", "--eps", "1")
    assert "must be a probability" in err


def test_messages_are_one_readable_line(capsys, tmp_path):
    assert one_line("a\n\x1b[2Jb") == "a \\x1b[2Jb"
    assert len(one_line("x" * 10**6)) < 200
    assert len(one_line("word " * 10**5)) <= 1_000
    for words in (
        ["delta", *SETTING, "--eps", "9" * 10**5],
        ["delta", *SETTING, "--eps", "1", "--bound", "b" * 10**5],
        ["z" * 10**5],
        ["list", "--format", "q" * 10**5],
    ):
        assert ended(capsys, *words)[0] == 2
    path = tmp_path / "m.csv"
    path.write_text(",".join(["0.5"] * 5000 + ["x"]) + "\n")
    assert (
        "must be a probability" in ended(capsys, "matrix", str(path), "--n", "9", "--eps", "1")[1]
    )


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_pipes_and_devices_are_refused(capsys, tmp_path, suffix):
    pipe = tmp_path / f"pipe{suffix}"
    os.mkfifo(pipe)
    (tmp_path / f"zero{suffix}").symlink_to("/dev/zero")
    for source in (pipe, tmp_path / f"zero{suffix}", tmp_path):
        for words in (
            [*COMPARE, str(source)],
            ["personalised", "--mechanism", "binary", "--budgets", str(source)],
            ["matrix", str(source), "--n", "9", "--eps", "1"],
        ):
            status, err = ended(capsys, *words)
            assert status == 2
            assert "no regular file" in err


def test_rows_are_counted_before_they_are_read(capsys, tmp_path, monkeypatch):
    path = tmp_path / "rows.parquet"
    # A constant takes next to nothing in the file, and 8 bytes a row in memory.
    rows = pa.chunked_array([pa.array(np.ones(1_000_000, np.int64))] * 3)
    pq.write_table(pa.table({"count": rows}), path)
    assert path.stat().st_size < 100_000
    status, err = ended(capsys, *COMPARE, str(path))
    assert status == 2
    assert "3,000,000 rows" in err
    monkeypatch.setattr(tables, "LARGEST_ROWS", 3)
    for name, text in (("c.csv", "count\n" + "1\n" * 4), ("m.csv", "1,0\n0,1\n")):
        (tmp_path / name).write_text(text)
    assert "4 rows" in ended(capsys, *COMPARE, str(tmp_path / "c.csv"))[1]
    words = ["matrix", str(tmp_path / "m.csv"), "--n", "9", "--eps", "1"]
    assert "2 rows of 2 columns" in ended(capsys, *words)[1]


def test_damaged_parquet_is_one_line(capsys, tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"count": [4, 5, 6], "eps": [0.5, 1.0, 2.0]}), path)
    whole, random = path.read_bytes(), np.random.default_rng(3)
    refused = 0
    for _ in range(300):
        bad = bytearray(whole)
        bad[int(random.integers(len(bad) // 2, len(bad)))] = int(random.integers(256))
        path.write_bytes(bad)
        try:
            tables.read_histogram(path)
        except InputError as error:
            refused += 1
            assert "\n" not in one_line(str(error))
    assert refused > 100


def test_a_column_of_words_is_refused(capsys, tmp_path):
    path = tmp_path / "w.parquet"
    pq.write_table(pa.table({"count": ["1", "2"]}), path)
    assert "must hold numbers (got string)" in ended(capsys, *COMPARE, str(path))[1]


def test_the_ends_of_the_range_of_budgets_are_answered(capsys):
    """With the smallest a round's grid had steps of 0, with the largest a tail's scale was inf."""
    assert main(["fdp", "--n", "1", "--k", "4", "--eps0", "1e-200", "--rounds", "2"]) == 0
    assert capsys.readouterr().err == ""
    curve = BOUNDS["single-bin"].curve(Setting(100, 4, 350.0))
    assert 0.0 < curve.epsilon(np.log(1e-6)).lower <= 350.0
    assert curve.log_delta(5.857933154483458).lower <= 0.0
