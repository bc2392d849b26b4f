"""A table of the faults that were tried, at the end of the test run; docs/faults.md has it."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HEAD = ["| fault | tried | survived | where |", "|---|---|---|---|"]


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


def _reports(reporter):
    return [report for reports in reporter.stats.values() for report in reports]


def _module(report):
    """`test_x.py` of a test's report; of a warning, which is not of a test, nothing."""
    return Path((getattr(report, "nodeid", None) or "").partition("::")[0]).name


def rows(reporter) -> list[str]:
    """What the tests recorded, added up: by their reports, which xdist hands on as well."""
    totals = defaultdict(lambda: [0, 0])
    for report in _reports(reporter):
        if getattr(report, "when", None) == "teardown":
            for name, value in report.user_properties:
                if name == "fault":
                    kind, tried, survived = value
                    totals[_module(report), kind][0] += tried
                    totals[_module(report), kind][1] += survived
    return [
        f"| {kind} | {tried} | {survived} | `{module}` |"
        for (module, kind), (tried, survived) in sorted(totals.items())
    ]


def differences(reporter, page: Path) -> list[str]:
    """Rows that are not on the page, and its rows of modules that ran whole, but not so."""
    printed = rows(reporter)
    written = [
        line for line in page.read_text(encoding="utf-8").splitlines() if line.endswith(".py` |")
    ]
    whole = {_module(report) for report in _reports(reporter)}
    whole -= {_module(report) for report in reporter.stats.get("skipped", [])}
    missing = [line for line in written if line not in printed and line.split("`")[1] in whole]
    return [f"not on the page: {line}" for line in printed if line not in written] + [
        f"not as tried: {line}" for line in missing
    ]


def pytest_addoption(parser):
    parser.addoption("--faults-page", type=Path, help="page that must have the table of faults")


def pytest_sessionfinish(session):
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    page = session.config.getoption("faults_page")
    if reporter and page and differences(reporter, page):
        session.exitstatus = 1


def pytest_terminal_summary(terminalreporter, config):
    found = rows(terminalreporter)
    if not found:
        return
    terminalreporter.section("faults")
    for line in [*HEAD, *found]:
        terminalreporter.write_line(line)
    if page := config.getoption("faults_page"):
        for line in differences(terminalreporter, page):
            terminalreporter.write_line(f"{page}: {line}", red=True)
