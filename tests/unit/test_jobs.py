"""A job that lacks memory ends with one line that says so, whichever library noticed it."""

import errno
import os

import numpy as np
import pyarrow as pa
import pytest
from waiting import run_python

from shuffledp.pipeline.jobs import job
from shuffledp.pipeline.tables import read_tables, reading


def too_large_for_arrow():
    pa.allocate_buffer(2**62)


def loaded_without_room():
    """Raise what the Linux loader raises for a library that is imported late."""
    raise ImportError("sklearn/_random.so: failed to map segment from shared object")


def refused_by_the_system():
    raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))


WANTS = {
    "numpy": lambda: np.ones((10**8, 10**8)),
    "arrow": too_large_for_arrow,
    "loader": loaded_without_room,
    "system": refused_by_the_system,
}


@pytest.mark.parametrize("want", WANTS)
def test_lack_of_memory_is_reported_in_one_line(tmp_path, capfd, want):
    with pytest.raises(SystemExit), job(str(tmp_path / "log")):
        WANTS[want]()
    printed = capfd.readouterr().err
    assert len(printed.splitlines()) == 1, printed
    assert "out of memory" in printed
    assert "defect" not in printed


def test_a_table_is_not_damaged_because_memory_is_short_or_it_is_missing(tmp_path):
    with pytest.raises(MemoryError), reading(tmp_path / "table.parquet"):
        too_large_for_arrow()
    with pytest.raises(FileNotFoundError, match=r"table\.parquet"):
        read_tables([tmp_path / "table.parquet"])


def test_a_job_under_a_memory_limit_of_the_system(tmp_path):
    """The system enforces the limit: Arrow does not fit into the remaining address space."""
    code = (
        "import resource\n"
        "from shuffledp.pipeline.jobs import job\n"
        f"with job({str(tmp_path / 'log')!r}):\n"
        "    now = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "    resource.setrlimit(resource.RLIMIT_AS, (now + 2**23, now + 2**23))\n"
        "    import pyarrow\n"
    )
    done = run_python("-c", code, env={"OPENBLAS_NUM_THREADS": "1"})
    assert done.returncode == 1, done.stderr
    assert "out of memory" in done.stderr
    assert "defect" not in done.stderr
    assert "Traceback" not in done.stderr
