"""A short run, the files that it makes, and the moment at which tests stop it."""

import re

TARGET = "results/privacy/town.shape.parquet"
RUN = ["--cores", "2", TARGET]
# Logs and benchmarks differ between runs, results do not.
NOTES = ("results/logs/", "results/benchmarks/")


def tables(clone):
    """Return the bytes of every result by its path, including files that a job left behind."""
    results = clone.outputs(".")
    return {path: content for path, content in results.items() if not path.startswith(NOTES)}


def first_named(clone):
    """Return a pattern of the event with which the first job finally renames its table."""
    source = clone.config["sources"]["tiny"]["path"]
    (first,) = [path for path, inputs in clone.plan(TARGET).items() if source in inputs]
    return f"job os.rename {re.escape(first)}$"


def has_our_traceback(printed):
    """Return whether a traceback goes through the package; files listed as inputs do not count."""
    return re.search(r'File "[^"]*shuffledp/', printed) is not None
