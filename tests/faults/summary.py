"""A table of the faults that were tried, at the end of the test run."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager


class Tally:
    """Counts faults by kind; one is survived if its block ends without an exception."""

    def __init__(self) -> None:
        self.tried: dict[str, int] = defaultdict(int)
        self.survived: dict[str, int] = defaultdict(int)

    @contextmanager
    def __call__(self, kind: str) -> Iterator[None]:
        self.tried[kind] += 1
        yield
        self.survived[kind] += 1


def pytest_terminal_summary(terminalreporter):
    """Add up what the tests recorded; their reports carry it, so that xdist's workers may too."""
    totals = defaultdict(lambda: [0, 0])
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) != "teardown":
                continue
            for name, value in report.user_properties:
                if name == "fault":
                    kind, tried, survived = value
                    totals[kind][0] += tried
                    totals[kind][1] += survived
    if not totals:
        return
    width = max(map(len, totals))
    terminalreporter.section("faults")
    terminalreporter.write_line(f"{'fault':<{width}}  {'tried':>6}  {'survived':>8}")
    for kind, (tried, survived) in sorted(totals.items()):
        terminalreporter.write_line(f"{kind:<{width}}  {tried:>6}  {survived:>8}")
    tried, survived = (sum(column) for column in zip(*totals.values(), strict=True))
    terminalreporter.write_line(f"{'total':<{width}}  {tried:>6}  {survived:>8}")
