"""Sound, odd and missing files as arguments of a command."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shuffledp.accounting.certificate import certificate
from shuffledp.accounting.setting import Setting

TEXTS = {
    "empty.csv": "",
    "histogram.csv": "count\n5\n8\n0\n20\n",
    "matrix.csv": "0.7,0.2,0.1\n0.1,0.8,0.1\n0.2,0.2,0.6\n",
    "zeros.csv": "1,0\n0.5,0.5\n",
    "alike.csv": "0.5,0.5\n0.5,0.5\n",
    "budgets.csv": "eps,count\n0.5,10\n1,20\n2,3\n",
    "noisy.csv": "eps,delta,count\n0.5,1e-6,10\n1,1e-7,20\n",
    "extreme.csv": "eps,count\n340,10\n1,50\n0,3\n5e-324,2\n",
    "digits.csv": "count\n1_0\n٣\n0x10\n",
    "columns.csv": "count,eps,count\n1,2\n3\n1,2,3,4\n",
    "long.csv": "count\n" + "9" * 5000 + "\n",
    "word.csv": "count\n" + "x" * 100_000 + "\n",
    "quotes.csv": 'count\n"1\n2\n',
    "deep.json": "[" * 200_000,
    "list.json": "[1, 2]",
    "twice.json": '{"n": 1, "n": 2}',
}
CERTIFICATE = certificate(0.3, Setting(30, 2, 1.0))
VALUES = (0, -1, 1e300, 5e-324, 10**30, None, "1", [], {}, True, float("nan"), 300.0)


def make(folder: Path, random: np.random.Generator) -> list[Path]:
    """Write the files and return their paths, some of which are no regular file or do not exist."""
    paths = []
    for name, text in TEXTS.items():
        (folder / name).write_text(text, encoding="utf-8")
        paths.append(folder / name)
    (folder / "latin.csv").write_bytes(b"count\n\xff\n")
    (folder / "bytes.parquet").write_bytes(random.bytes(500))
    os.mkfifo(folder / "pipe.csv")
    paths += [folder / name for name in ("latin.csv", "bytes.parquet", "pipe.csv", "none.csv")]
    paths += [folder, Path("/dev/zero"), Path("/dev/null")]
    return [*paths, *_parquets(folder, random), *_certificates(folder, random)]


def _parquets(folder: Path, random: np.random.Generator) -> Iterator[Path]:
    table = pa.table({"count": [4, 5, 6], "eps": [0.5, 1.0, 2.0]})
    whole = folder / "whole.parquet"
    pq.write_table(table, whole)
    yield whole
    pq.write_table(pa.table({"count": ["a", "b"], "eps": [[1], [2]]}), folder / "words.parquet")
    yield folder / "words.parquet"
    content = whole.read_bytes()
    for i in range(40):  # the damage is mostly in the metadata of the columns
        bad = bytearray(content)
        for _ in range(int(random.integers(1, 4))):
            bad[int(random.integers(len(bad) // 3, len(bad)))] = int(random.integers(256))
        path = folder / f"bad{i}.parquet"
        path.write_bytes(bad)
        yield path


def _certificates(folder: Path, random: np.random.Generator) -> Iterator[Path]:
    for i in range(30):
        document = json.loads(json.dumps(CERTIFICATE))
        for _ in range(int(random.integers(0, 3))):
            part = [document, document["lower"], document["upper"]][int(random.integers(3))]
            if isinstance(part, dict) and part:
                part[str(random.choice(sorted(part)))] = VALUES[int(random.integers(len(VALUES)))]
            if not isinstance(document["lower"], dict) or not isinstance(document["upper"], dict):
                break
        path = folder / f"certificate{i}.json"
        path.write_text(json.dumps(document))
        yield path
