"""The machine's clock set while the pipeline runs: for machines that nobody else uses."""

import os
import time
from contextlib import contextmanager

import pytest
from background import Background, Stop
from needs import needs

from faults.runs import RUN, TARGET, first_named, tables
from faults.test_runs import DAY, YEARS

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(
        os.environ.get("SHUFFLEDP_SET_CLOCK") != "1" or os.geteuid() != 0,
        reason=needs("machine", "it sets the clock: SHUFFLEDP_SET_CLOCK=1 and root"),
    ),
]


@contextmanager
def clock_set_by(seconds):
    """The clock is wrong inside, and right again to some milliseconds afterwards."""
    true = time.time() - time.monotonic()  # the monotonic clock is nobody's to set
    time.clock_settime(time.CLOCK_REALTIME, true + time.monotonic() + seconds)
    try:
        yield
    finally:
        time.clock_settime(time.CLOCK_REALTIME, true + time.monotonic())


@pytest.mark.parametrize(
    "seconds", [-10.0, -DAY, -YEARS, DAY], ids=["-10 s", "-1 d", "-10 y", "+1 d"]
)
def test_the_clock_set_while_the_pipeline_runs(clone, undisturbed, tmp_path, seconds):
    """The run ends well or names the clock; once that is right it ends with the same bytes."""
    with Background(clone, *RUN, stop=Stop(tmp_path / "stop", first_named(clone))) as run:
        run.wait_for_stop()
        with clock_set_by(seconds):
            run.stop.go_on()
            code = run.finished()
        assert code == 0 or "clock skew" in run.printed(), run.printed()
        made = tables(clone)
        assert made == {name: undisturbed[name] for name in made}
        clone.run(TARGET)
        assert tables(clone) == undisturbed
