"""Recommend a mechanism that meets a target in one round, by the trust it needs and its error."""

import pandas as pd

from shuffledp.mechanisms.catalogue import CATALOGUE, RECORDS, Entry


def trust_kind(entry: Entry) -> str:
    """Return the kind of trust that a mechanism needs, by the parties that learn more than the map.

    ``curator``: one party holds all records. ``shuffler``: the shuffler learns the exact map.
    ``apart``: shuffler and analyst together see all records. ``local``: even together they see
    only noisy reports.
    """
    if entry.central:
        return "curator"
    if "shuffler" in entry.disclosed:
        return "shuffler"
    return "apart" if entry.disclosed["both"] == RECORDS else "local"


def recommended(rows: pd.DataFrame) -> str | None:
    """Return the recommended mechanism, or None if no mechanism meets the target.

    It is the best mechanism of the first kind of trust that has one, in the order ``apart``,
    ``local``, ``shuffler``, ``curator``. The rows are those of
    `shuffledp.pipeline.selection.at_targets` with unbiased estimates, for one n and eps. They are
    for one round: over several, another mechanism may have the smaller error (docs/choosing.md).
    """
    best = best_by_trust(rows)
    by_preference = ("apart", "local", "shuffler", "curator")
    return next((best[kind] for kind in by_preference if kind in best), None)


def best_by_trust(rows: pd.DataFrame) -> dict[str, str]:
    """Return the best mechanism that meets the target, by kind of trust; omit kinds without one.

    Mechanisms that do not ask all users to add dummies are better than those that do; otherwise the
    best has the smallest expected error.
    """
    met = rows[rows["reason"].isna()].sort_values("expected_cell_error", kind="stable")
    entries = [CATALOGUE[name] for name in met["mechanism"]]
    entries.sort(key=lambda entry: entry.extra_trust.startswith("all users"))
    best: dict[str, str] = {}
    for entry in entries:
        best.setdefault(trust_kind(entry), entry.name)
    return best
