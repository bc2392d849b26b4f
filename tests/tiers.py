"""Hooks of pytest: list the tests that were left out, and fail if one was required."""

from collections import Counter

import pytest
from _pytest.terminal import TerminalReporter
from needs import refused, required

# The command that runs the tests of a marker.
TIERS = {"faults": "`make faults`", "slow": "`make test-slow`"}

_LEFT_OUT = pytest.StashKey[Counter[str]]()
_REFUSED = pytest.StashKey[list[str]]()


def _skipped(reporter: TerminalReporter) -> Counter[str]:
    reports = reporter.stats.get("skipped", [])
    return Counter(report.longrepr[2].removeprefix("Skipped: ") for report in reports)


def pytest_configure(config: pytest.Config) -> None:
    try:
        required()
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
    config.stash[_LEFT_OUT] = Counter()
    config.stash[_REFUSED] = []


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items:
        if tier := next(filter(item.get_closest_marker, TIERS), None):
            item.config.stash[_LEFT_OUT][tier] += 1


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    """Take the counts of any worker: each worker of xdist selects among all tests."""
    counts = getattr(node, "workeroutput", {}).get("left out")  # a worker that died has none
    node.config.stash[_LEFT_OUT] = Counter(counts)


def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    if hasattr(config, "workeroutput"):
        config.workeroutput["left out"] = dict(config.stash[_LEFT_OUT])
        return
    reasons = _skipped(config.pluginmanager.get_plugin("terminalreporter"))
    config.stash[_REFUSED] = refused(reasons, required())
    if config.stash[_REFUSED] and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    tiers = sorted(config.stash[_LEFT_OUT].items())
    lines = [f"{count:>5}  {tier}: {TIERS[tier]} runs them" for tier, count in tiers]
    lines += [f"{count:>5}  {why}" for why, count in sorted(_skipped(terminalreporter).items())]
    if lines:
        terminalreporter.section("tests left out, and why")
        terminalreporter.write_line("\n".join(lines))
    if config.stash[_REFUSED]:
        terminalreporter.section("FAILED: skipped for what should be here", red=True)
        terminalreporter.write_line("\n".join(config.stash[_REFUSED]))
