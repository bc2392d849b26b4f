"""Collect the data of the page: the regions, the planner's choices and the run's provenance."""

import os
import platform
import re
from collections.abc import Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import yaml

from shuffledp.accounting.registry import get_bound
from shuffledp.data.embedded import PEOPLE
from shuffledp.data.grid import read_cells
from shuffledp.figures.basemap import backdrop
from shuffledp.figures.bounds import KIND_LABELS, LINE_STYLES, bound_colour
from shuffledp.figures.style import plural, series_look
from shuffledp.mechanisms.catalogue import CATALOGUE, UNBIASED, Entry, get_entries, get_estimator
from shuffledp.mechanisms.recommendation import recommended, trust_kind
from shuffledp.page.maps import map_data
from shuffledp.page.sentences import (
    TRUST_GROUPS,
    accuracy,
    describe_data,
    is_noise,
    occupied_cells,
    plain,
    protection,
    single_report,
    strength,
    trust,
    unbroken,
    verdict,
)
from shuffledp.pipeline.selection import STANDARD_ERRORS, at_target, at_targets, calibrated
from shuffledp.pipeline.tables import read_tables
from shuffledp.pipeline.units import has_bound, replaced
from shuffledp.studies.samples import read_contributions, read_samples
from shuffledp.version import find_version

_DIGITS: Final = 6  # significant digits of numbers that are drawn
_EXACT_DIGITS: Final = 17  # significant digits of guarantees, which the page rounds up
EMBEDDED_RECORDS: Final = "posted in the app Gowalla in 2009 or 2010"
# Symbols of d3 for the markers of matplotlib.
_SYMBOLS: Final = {
    "o": "circle", "s": "square", "D": "diamond", "^": "triangle", "v": "triangle2", "*": "star",
    "P": "plus", "X": "times", "d": "diamond2", "p": "hexagon", "h": "hexagon", "<": "wye",
    ">": "asterisk",
}  # fmt: skip
_QUARTILES: Final = {"low": 0.25, "median": 0.5, "high": 0.75}

# Mechanisms of the planner, with the smallest errors for each kind of trust (docs/choosing.md).
PLANNED: Final = (
    "gaussian",
    "discrete-laplace",
    "krr",
    "user-dummies",
    "shuffler-dummies",
    "two-servers",
)
# Relative amount by which the planner's errors may exceed those of `shuffledp compare`.
PLANNER_LOSS: Final = 0.001

_LIBRARIES: Final = ("snakemake", "numpy", "scipy", "pandas", "geopandas", "pyarrow", "diffprivlib")


# --- Regions -----------------------------------------------------------------------------


def columns(table: pd.DataFrame, digits: int = _DIGITS) -> dict[str, list[Any]]:
    """Return columns as lists; floats have `digits` digits, or are None if they are not finite."""
    return {str(name): [_round(value, digits) for value in table[name].tolist()] for name in table}


def _round(value: Any, digits: int) -> Any:
    if not isinstance(value, float):
        return value
    return float(f"{value:.{digits}g}") if np.isfinite(value) else None


def region_data(
    files: Mapping[str, Path],
    *,
    name: str,
    title: str,
    unit: str,
    recorded: bool,
    target_delta: float,
) -> dict[str, Any]:
    """Return the data that the page shows about one region, for JSON.

    `files` are paths by name: ``checkins``, ``cells``, ``samples``, ``curves``, ``privacy``,
    ``sizes``, ``promises``, ``utility``, its ``summary``, and ``releases_{part}`` for each part of
    the releases; ``basemap`` and ``outline`` if there are any. `name` is the region's key in the
    configuration. `recorded` says whether the check-ins have users and times; those made from
    embedded counts have none. `target_delta` is the delta of the releases at equal privacy.

    In the result, ``promises`` are the guarantees to choose from, ``start`` is the initial choice,
    ``plans`` state errors and trust of each mechanism by n and promise, ``tables`` compare them.
    With several records per user, ``replaced`` states what neighbours differ in.
    """
    samples = read_samples(files["samples"])
    releases = _first_releases(files, target_delta)
    summary = at_targets(pd.read_csv(files["summary"]))
    # The page speaks of the local budget of one record's messages.
    summary["local_eps0"] /= read_contributions(files["samples"]).records_per_user
    utility = read_tables([files["utility"]])
    n, k = max(samples), int(samples[max(samples)].size)
    people, when = records_of(files["checkins"]) if recorded else (PEOPLE[name], EMBEDDED_RECORDS)
    data: dict[str, Any] = {
        "title": title,
        "unit": unit,
        "plural": plural(unit),
        "n": sorted(samples),
        "k": k,
        "about": describe_data(people, when, n, unit, title),
        "protection": protection(unit),
        "promises": releases[["promise", "eps"]]
        .drop_duplicates()
        .assign(delta=summary["delta"].iloc[0] if len(summary) else target_delta)
        .to_dict("records"),
        "start": {"n": n, "promise": releases["promise"].iloc[-1], "mechanism": None},
        "plans": [],
        "tables": [],
        "map": map_data(
            partial(read_cells, files["cells"]),
            backdrop(files.get("basemap"), files.get("outline")),
            samples,
            releases,
        ),
        "targets": None,
        "privacy": _privacy(files, utility, target_delta),
        "sweep": _sweep(utility),
        "looks": {},
    }
    if has_bound(unit):
        data["replaced"] = replaced(unit)
    if len(summary):
        data |= _target_data(summary, releases, samples, read_tables([files["promises"]]))
    drawn = {*data["sweep"]["mechanism"], *(data["targets"] or {}).get("mechanism", [])}
    data["looks"] = {name: _look(name) for name in sorted(drawn)}
    return data | {
        name: unbroken(data[name]) for name in ("about", "protection", "plans", "tables")
    }


def records_of(checkins: Path) -> tuple[int | None, str]:
    """Return the number of people, None if unknown, and when they checked in, in words."""
    table = read_tables([checkins], columns=["user", "time"])
    people = None if table["user"].isna().any() else table["user"].nunique()
    first, last = table["time"].min(), table["time"].max()
    if pd.isna(first):
        return people, "recorded"
    return people, f"recorded, between {first:%Y-%m-%d} and {last:%Y-%m-%d}"


def _look(mechanism: str) -> dict[str, str]:
    look = series_look(mechanism, UNBIASED)
    symbol = _SYMBOLS.get(look.marker, "circle")
    return {"label": CATALOGUE[mechanism].label, "colour": look.colour, "symbol": symbol}


def _first_releases(files: Mapping[str, Path], target_delta: float) -> pd.DataFrame:
    """Return unbiased estimates of the first repetition for each target or, without any, each eps0.

    The column ``promise`` states the guarantee; rows with equal n and promise have equal ``eps``.
    """
    parts = [path for name, path in files.items() if name.startswith("releases_")]
    rows = read_tables(parts, repetition=0, estimator=UNBIASED)
    targets = at_targets(rows)
    if len(targets):
        return targets.assign(promise="eps = " + targets["eps"].map("{:g}".format))
    swept = calibrated(rows, "matched", target_delta)
    # The other mechanisms are calibrated to the eps that is certified for k-RR with eps0.
    certified = swept.groupby(["n", "eps0"])["eps"].transform("first")
    promise = "eps0 = " + swept["eps0"].map("{:g}".format) + " for k-RR, same eps for all others"
    return swept.assign(promise=promise, eps=certified)


def _target_data(
    summary: pd.DataFrame,
    releases: pd.DataFrame,
    samples: Mapping[int, Any],
    curves: pd.DataFrame,
) -> dict[str, Any]:
    shown = ["n", "eps", "delta", "mechanism", "estimator", "tv_distance", "p10", "p90"]
    unbiased = summary[summary["estimator"] == UNBIASED]
    groups = list(unbiased.groupby(["n", "eps"], sort=True))
    best = recommended(groups[-1][1])
    return {
        "start": {
            "n": int(groups[-1][1]["n"].iloc[0]),
            "promise": f"eps = {groups[-1][1]['eps'].iloc[0]:g}",
            "mechanism": best,
        },
        "plans": [
            _plan(row, releases, samples, curves)
            for _, rows in groups
            for _, row in rows[rows["reason"].isna()].iterrows()
        ],
        "tables": [_table(rows) for _, rows in groups],
        "targets": columns(summary[summary["reason"].isna()][shown]),
    }


def _plan(
    row: "pd.Series[Any]",
    releases: pd.DataFrame,
    samples: Mapping[int, Any],
    curves: pd.DataFrame,
) -> dict[str, Any]:
    """Return the error, trust and guarantee of a mechanism at a target."""
    entry, n, eps = CATALOGUE[row["mechanism"]], int(row["n"]), float(row["eps"])
    truth, k = samples[n], int(samples[n].size)
    mask = (releases["n"] == n) & (releases["eps"] == eps) & (releases["mechanism"] == entry.name)
    released = releases[mask].sort_values("cell")
    return {
        "n": n,
        "promise": f"eps = {eps:g}",
        "mechanism": entry.name,
        "label": entry.label,
        "verdict": verdict(row, k),
        "accuracy": accuracy(row, k),
        "noise": is_noise(row, k),
        "trust": trust(entry),
        "single": single_report(entry.name, row["local_eps0"], k),
        "shown": occupied_cells(
            released["estimate"], released["standard_error"], truth, STANDARD_ERRORS
        ),
        "parameters": row["parameters"],
        "curve": _certified_curve(curves, row),
    }


def _certified_curve(curves: pd.DataFrame, row: "pd.Series[Any]") -> list[list[Any]] | None:
    """Return points (eps, log10 of delta) of a mechanism's certified curve, with delta rounded up.

    The logarithm is None where delta is 0. The result is None if the run has no such curve.
    """
    masks = [(curves[name] == row[name]) for name in ("n", "mechanism", "parameters")]
    points = curves[np.logical_and.reduce(masks)].sort_values("eps")
    if points.empty:
        return None
    logs = (np.floor(points["log10_delta"] * 1e4) + 1.0) / 1e4
    return [
        [eps, log if np.isfinite(log) else None]
        for eps, log in zip(points["eps"].tolist(), logs.tolist(), strict=True)
    ]


def _table(rows: pd.DataFrame) -> dict[str, Any]:
    """Return the table of the mechanisms at one n and eps, by trust and then by expected error."""
    rows = rows.sort_values("expected_cell_error")  # mechanisms that miss the target come last
    first = rows.iloc[0]
    unit, n = plural(str(first["unit"])), int(first["n"])
    kinds = [trust_kind(CATALOGUE[name]) for name in rows["mechanism"]]
    return {
        "n": n,
        "promise": f"eps = {first['eps']:g}",
        "recommended": recommended(rows),
        "strength": strength(float(first["eps"]), float(first["delta"]), str(first["unit"])),
        "caption": (
            f"All mechanisms at the same certified privacy, eps = {first['eps']:g} and delta = "
            f"{plain(first['delta'])}, on the {n:,} {unit} of {first['region']}"
        ),
        "heads": [
            "Mechanism",
            f"Expected error per cell ({unit})",
            f"Measured error per cell ({unit})",
            "Share to be moved",
            "Messages per user",
            "Local budget of a record's messages, eps0",
        ],
        "groups": [
            {"trust": text, "rows": [_row(row) for _, row in group.iterrows()]}
            for kind, text in TRUST_GROUPS.items()
            if len(group := rows[np.array(kinds) == kind])
        ],
    }


def _row(row: "pd.Series[Any]") -> list[str]:
    label = _title(CATALOGUE[row["mechanism"]])
    if isinstance(row["reason"], str):
        return [label, "cannot meet the target", "", "", "", ""]
    moved, eps0 = row["tv_distance"], row["local_eps0"]
    return [
        label,
        f"{row['expected_cell_error']:.2f}",
        f"{row['cell_error']:.2f}",
        f"{100.0 * moved:.2f} %" if moved <= 1.0 else "all (only noise)",
        f"{row['messages']:.2f}",
        f"{eps0:.2f}" if np.isfinite(eps0) else "none: it reveals the record",
    ]


def _title(entry: Entry) -> str:
    """Return the label of a mechanism, and who is relied on to add dummies or noise."""
    trusted = entry.extra_trust.replace(",", "")
    return f"{entry.label} (relies on {trusted})" if trusted else entry.label


def _privacy(
    files: Mapping[str, Path], utility: pd.DataFrame, target_delta: float
) -> dict[str, Any]:
    """Return delta curves at the largest n, points at smaller n, and eps at the target delta."""
    shown = ["n", "eps0", "eps", "bound", "log10_delta"]
    curves = read_tables([files["curves"]])[shown]
    points = read_tables([files["privacy"]])[shown]
    points = points[points["n"] != curves["n"].iloc[0]]
    reached = at_target(utility, target_delta)[["n", "eps0", "eps"]].drop_duplicates()
    names = pd.unique(pd.concat([curves["bound"], points["bound"]]))
    return {
        "curves": columns(pd.concat([curves, points]), _EXACT_DIGITS),
        "sizes": columns(read_tables([files["sizes"]])[["n", "eps0", "eps", "bound"]]),
        "reached": columns(reached, _EXACT_DIGITS),
        "delta": target_delta,
        "bounds": {name: _bound(str(name)) for name in names},
    }


def _bound(name: str) -> dict[str, Any]:
    bound = get_bound(name)
    return {
        "kind": bound.kind,
        "worth": KIND_LABELS[bound.kind],
        "guarantee": bound.guarantee,
        "line": LINE_STYLES[bound.kind],
        "colour": bound_colour(name) or "#777777",
        "about": bound.source,
    }


def _sweep(utility: pd.DataFrame) -> dict[str, Any]:
    """Return quartiles over the repetitions of the distances to the truth, at equal privacy."""
    rows = utility[utility["calibration"].isin(["matched", "none"])]
    series = rows[["mechanism", "estimator"]].drop_duplicates().itertuples(index=False, name=None)
    compared = [pair for pair in series if get_estimator(*pair).counterpart is not None]
    keys = ["n", "eps0", "eps", "calibration", "mechanism", "estimator"]
    distances = rows.groupby(keys, sort=False, dropna=False)["tv_distance"]
    table = pd.DataFrame({name: distances.quantile(q) for name, q in _QUARTILES.items()})
    kept = table.reset_index()
    pairs = pd.MultiIndex.from_frame(kept[["mechanism", "estimator"]])
    return columns(kept[pairs.isin(compared)])


# --- Planner and provenance --------------------------------------------------------------


def planner_data() -> dict[str, Any]:
    """Return the choices and ranges of the planner, whose numbers ``scripts/planner.js`` computes.

    ``mechanisms`` have name, label, label with extra trust, and `trust_kind`; ``groups`` describes
    the kinds. ``eps`` and ``delta`` are the targets to choose from, ``n``, ``k`` and ``rounds`` the
    accepted ranges, ``start`` is the initial choice, and ``loss`` is `PLANNER_LOSS`.
    """
    return {
        "mechanisms": [
            {"mechanism": e.name, "label": e.label, "title": _title(e), "kind": trust_kind(e)}
            for e in get_entries(PLANNED)
        ],
        "groups": TRUST_GROUPS,
        "eps": [0.05, 0.1, 0.25, 0.5, 1, 2, 4],
        "delta": [1e-4, 1e-5, 1e-6, 1e-8, 1e-10],
        "n": {"min": 100, "max": 1_000_000_000},
        # For two or three cells the accountant has a tighter bound than the page.
        "k": {"min": 4, "max": 100_000},
        "rounds": {"min": 1, "max": 365},
        "start": {"n": 100_000, "k": 408, "rounds": 1, "eps": 1, "delta": 1e-6},
        "loss": PLANNER_LOSS,
    }


def revision(root: Path) -> str:
    """Return the git commit of a folder, and whether files differ from it, in words.

    Without a repository, the commit is the folder's name if that looks like one. The program git is
    needed only to compare files. If it is missing, or refuses to read another owner's clone, the
    result says that files may differ.
    """
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")  # otherwise the import requires git
    from git import Repo
    from git.exc import GitError, InvalidGitRepositoryError, NoSuchPathError
    from git.refs import SymbolicReference

    try:
        repository = Repo(root)
        commit = SymbolicReference.dereference_recursive(repository, "HEAD")
    except (InvalidGitRepositoryError, NoSuchPathError, ValueError):
        return root.name if re.fullmatch("[0-9a-f]{40}", root.name) else "not under git"
    try:
        return f"{commit}{' with uncommitted changes' * repository.is_dirty()}"
    except GitError:
        return f"{commit}, perhaps with changes: git is missing or refuses to compare files"


def provenance(
    root: Path, config: Mapping[str, Any], checksums: Mapping[str, str]
) -> dict[str, str]:
    """Return versions, seed, sources and revision of a run.

    `root` is the folder of the workflow, `config` the complete configuration. `checksums` are the
    SHA-256 of the sources of the check-ins, by title of the region.
    """
    sources = {f"SHA-256 of the source of {title}": s for title, s in checksums.items()}
    return {
        "Run": config["run"] or "default",
        "Seed of the simulated noise": str(config["seed"]),
        **sources,
        "shuffledp": find_version(),
        "Revision": revision(root),
        "Python": platform.python_version(),
        "Libraries": ", ".join(f"{name} {version(name)}" for name in _LIBRARIES),
    }


def configuration_text(config: Mapping[str, Any]) -> str:
    """Return the configuration as YAML."""
    return yaml.safe_dump(_plain(config), sort_keys=False, allow_unicode=True)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    return [_plain(entry) for entry in value] if isinstance(value, list | tuple) else value
