"""Profiles of hypothesis, tests that share a worker, and the option --update-docs."""

import os
import sys

import pytest
from absl import logging as absl_logging
from chromium import browser  # noqa: F401 - a fixture of several folders
from hypothesis import settings
from needs import requirement
from workflow.conftest import clone, finished, whole  # noqa: F401 - likewise
from xdist.scheduler import LoadScopeScheduling

# absl, which dp_accounting loads, keeps the stderr that it finds, here one of pytest's, and closes
# it when somebody else configures logging.
absl_logging.get_absl_handler().python_handler.setStream(sys.__stderr__)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-docs",
        action="store_true",
        help="write into the pages what the commands of their code blocks print",
    )


# Light tests use the same examples in every run; slow ones explore, except under CI, which uses the
# same ones and fewer.
settings.register_profile(
    "light", max_examples=20, derandomize=True, deadline=None, print_blob=True
)
settings.register_profile(
    "slow",
    max_examples=25 if "CI" in os.environ else 50,
    derandomize="CI" in os.environ,
    deadline=None,
    print_blob=True,
)
settings.load_profile("light")

# Folders and files whose tests run in one worker: they share one Slurm or a long run.
TOGETHER = (
    "tests/browser/",
    "tests/hpc/",
    "tests/unit/test_docs.py",
    "tests/unit/test_paper_a.py",
    "tests/workflow/test_wheel.py",
)


class _Together(LoadScopeScheduling):
    """Distribute tests one by one, except those of `TOGETHER`.

    The scheduler `loadgroup` of xdist renames tests, which pytest 9.2 no longer allows: it then
    silently groups nothing.
    """

    def _split_scope(self, nodeid: str) -> str:
        return next((place for place in TOGETHER if nodeid.startswith(place)), nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> _Together:
    return _Together(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start whole runs first: at the end they would keep a single worker busy."""
    items.sort(key=lambda item: item.get_closest_marker("workflow") is None)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run in which a test was skipped for something that should be here."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter else []
    if any(requirement(report.longrepr[2]) for report in skipped):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
