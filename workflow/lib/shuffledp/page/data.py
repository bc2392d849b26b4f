"""Everything the page shows of a run, from the tables of the run."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from shuffledp.accounting.registry import get_bound
from shuffledp.figures.basemap import backdrop
from shuffledp.figures.bounds import LINES, WORTH, bound_colour
from shuffledp.figures.style import plural, series_look
from shuffledp.geography.embedded import PEOPLE
from shuffledp.geography.grid import read_cells
from shuffledp.mechanisms.catalogue import CATALOGUE, UNBIASED, get_estimator
from shuffledp.page.maps import map_data
from shuffledp.page.sentences import (
    about,
    accuracy,
    choices,
    is_noise,
    plain,
    protection,
    recommended,
    shown,
    single_report,
    strength,
    trust,
    verdict,
)
from shuffledp.pipeline.selection import STANDARD_ERRORS, at_target, at_targets, calibrated
from shuffledp.pipeline.tables import read_tables
from shuffledp.studies.samples import read_samples

_DIGITS: Final = 6  # of what curves are drawn from
_ALL_DIGITS: Final = 17  # of a guarantee: the page rounds it up, from no less than it is
_EMBEDDED: Final = "posted in the app Gowalla in 2009 or 2010"
# Matplotlib's markers by the names that d3 has for them.
_SYMBOLS: Final = {
    "o": "circle", "s": "square", "D": "diamond", "^": "triangle", "v": "triangle2", "*": "star",
    "P": "plus", "X": "times", "d": "diamond2", "p": "hexagon", "h": "hexagon", "<": "wye",
    ">": "asterisk",
}  # fmt: skip
_QUARTERS: Final = {"low": 0.25, "median": 0.5, "high": 0.75}


def columns(table: pd.DataFrame, digits: int = _DIGITS) -> dict[str, list[Any]]:
    """Columns of a table as lists, a missing number as None and others in so many digits."""
    return {str(name): [_plain(value, digits) for value in table[name].tolist()] for name in table}


def _plain(value: Any, digits: int) -> Any:
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
    """What the page shows of one region.

    Parameters
    ----------
    files
        ``checkins``, ``cells``, ``samples``, ``curves``, ``privacy``, ``sizes``, ``promises``,
        ``utility``, its ``summary`` and ``releases_{part}`` for each part;
        ``basemap`` and ``outline`` if there are any.
    name, title, unit
        Name of the region in the configuration and in words, and what delta protects there:
        ``one check-in`` or ``one user``.
    recorded
        Whether people and times of the check-ins were recorded; not in the embedded counts.
    target_delta
        Of the releases at equal privacy.

    Returns
    -------
    What JSON can hold. ``promises`` are those that the page can show, the ``start`` first chosen;
    ``plans`` what each mechanism costs there, by n, and ``tables`` all of them beside one another.
    """
    samples = read_samples(files["samples"])
    firsts = _first_releases(files, target_delta)
    summary = at_targets(pd.read_csv(files["summary"]))
    utility = read_tables([files["utility"]])
    n, k = max(samples), int(samples[max(samples)].size)
    people, told = _recorded(files["checkins"]) if recorded else (PEOPLE[name], _EMBEDDED)
    made: dict[str, Any] = {
        "title": title,
        "unit": unit,
        "plural": plural(unit),
        "n": sorted(samples),
        "k": k,
        "about": about(people, told, n, unit, title),
        "protection": protection(unit),
        "promises": firsts[["promise", "eps"]]
        .drop_duplicates()
        .assign(delta=summary["delta"].iloc[0] if len(summary) else target_delta)
        .to_dict("records"),
        "start": {"n": n, "promise": firsts["promise"].iloc[-1], "mechanism": None},
        "plans": [],
        "tables": [],
        "map": map_data(
            partial(read_cells, files["cells"]),
            backdrop(files.get("basemap"), files.get("outline")),
            samples,
            firsts,
        ),
        "targets": None,
        "privacy": _privacy(files, utility, target_delta),
        "sweep": _sweep(utility),
        "looks": {},
    }
    if len(summary):
        made |= _at_targets(summary, firsts, samples, read_tables([files["promises"]]))
    drawn = {*made["sweep"]["mechanism"], *(made["targets"] or {}).get("mechanism", [])}
    made["looks"] = {name: _look(name) for name in sorted(drawn)}
    return made


def _recorded(checkins: Path) -> tuple[int | None, str]:
    """Number of people, and how and when they told, as far as the file has them."""
    table = read_tables([checkins], columns=["user", "time"])
    people = None if table["user"].isna().any() else table["user"].nunique()
    first, last = table["time"].min(), table["time"].max()
    return people, "told" if pd.isna(first) else f"told, from {first:%Y-%m-%d} to {last:%Y-%m-%d}"


def _look(mechanism: str) -> dict[str, str]:
    look = series_look(mechanism, UNBIASED)
    symbol = _SYMBOLS.get(look.marker, "circle")
    return {"label": CATALOGUE[mechanism].label, "colour": look.colour, "symbol": symbol}


def _first_releases(files: Mapping[str, Path], target_delta: float) -> pd.DataFrame:
    """Unbiased estimates of the first release at each target; without targets, of the sweep.

    ``promise`` says what was kept, and ``eps`` is the same for all that kept it.
    """
    parts = [path for name, path in files.items() if name.startswith("releases_")]
    rows = read_tables(parts, repetition=0, estimator=UNBIASED)
    targets = at_targets(rows)
    if len(targets):
        return targets.assign(promise="eps = " + targets["eps"].map("{:g}".format))
    swept = calibrated(rows, "matched", target_delta)
    # The noise of k-RR follows from eps0: the eps that is certified for it is that of the others.
    certified = swept.groupby(["n", "eps0"])["eps"].transform("first")
    words = "eps0 = " + swept["eps0"].map("{:g}".format) + " of k-RR, all others the same eps"
    return swept.assign(promise=words, eps=certified)


def _at_targets(
    summary: pd.DataFrame,
    firsts: pd.DataFrame,
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
            _plan(row, firsts, samples, curves)
            for _, rows in groups
            for _, row in rows[rows["reason"].isna()].iterrows()
        ],
        "tables": [_table(rows, samples) for _, rows in groups],
        "targets": columns(summary[summary["reason"].isna()][shown]),
    }


def _plan(
    row: "pd.Series[Any]",
    firsts: pd.DataFrame,
    samples: Mapping[int, Any],
    curves: pd.DataFrame,
) -> dict[str, Any]:
    """What a mechanism costs at a target, and what it promises."""
    entry, n, eps = CATALOGUE[row["mechanism"]], int(row["n"]), float(row["eps"])
    truth, k = samples[n], int(samples[n].size)
    of_this = (firsts["n"] == n) & (firsts["eps"] == eps) & (firsts["mechanism"] == entry.name)
    released = firsts[of_this].sort_values("cell")
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
        "shown": shown(released["estimate"], released["standard_error"], truth, STANDARD_ERRORS),
        "parameters": row["parameters"],
        "curve": _own_curve(curves, row),
    }


def _own_curve(curves: pd.DataFrame, row: "pd.Series[Any]") -> list[list[Any]] | None:
    """Points of the certified curve of a mechanism: eps, and log10 of delta, rounded up.

    None where the run has none; a delta of 0 is None, too.
    """
    of_this = [(curves[name] == row[name]) for name in ("n", "mechanism", "parameters")]
    points = curves[np.logical_and.reduce(of_this)].sort_values("eps")
    if points.empty:
        return None
    logs = (np.floor(points["log10_delta"] * 1e4) + 1.0) / 1e4
    return [
        [eps, log if np.isfinite(log) else None]
        for eps, log in zip(points["eps"].tolist(), logs.tolist(), strict=True)
    ]


def _table(rows: pd.DataFrame, samples: Mapping[int, Any]) -> dict[str, Any]:
    """The mechanisms at one n and eps, the smallest error first, and what is said of them."""
    rows = rows.sort_values("cell_error")
    first = rows.iloc[0]
    unit, n = plural(str(first["unit"])), int(first["n"])
    return {
        "n": n,
        "promise": f"eps = {first['eps']:g}",
        "recommended": recommended(rows),
        "strength": strength(float(first["eps"]), float(first["delta"])),
        "choices": choices(rows, int(samples[n].size)),
        "caption": (
            f"Every mechanism at the same certified privacy, eps = {first['eps']:g} and delta = "
            f"{plain(first['delta'])}, errors measured on {first['region']}'s {n:,} {unit}"
        ),
        "heads": [
            "Mechanism",
            f"Error of a cell, {unit}",
            "Share to be moved",
            "Messages a user",
            "Budget of a message alone, eps0",
            "Who must be trusted",
        ],
        "rows": [_row(row) for _, row in rows.iterrows()],
    }


def _row(row: "pd.Series[Any]") -> list[str]:
    label = CATALOGUE[row["mechanism"]].label
    if isinstance(row["reason"], str):
        return [label, "cannot meet it", "", "", "", row["trust"]]
    own = f"{row['local_eps0']:.2f}" if np.isfinite(row["local_eps0"]) else "none: it reveals all"
    moved = row["tv_distance"]
    return [
        label,
        f"{row['cell_error']:.2f}",
        f"{100.0 * moved:.2f} %" if moved <= 1.0 else "all: noise",
        f"{row['messages']:.2f}",
        own,
        row["trust"],
    ]


def _privacy(
    files: Mapping[str, Path], utility: pd.DataFrame, target_delta: float
) -> dict[str, Any]:
    """Curves at the largest n, points at the others, and eps where delta is the target."""
    shown = ["n", "eps0", "eps", "bound", "log10_delta"]
    curves = read_tables([files["curves"]])[shown]
    points = read_tables([files["privacy"]])[shown]
    points = points[points["n"] != curves["n"].iloc[0]]
    reached = at_target(utility, target_delta)[["n", "eps0", "eps"]].drop_duplicates()
    names = pd.unique(pd.concat([curves["bound"], points["bound"]]))
    return {
        "curves": columns(pd.concat([curves, points]), _ALL_DIGITS),
        "sizes": columns(read_tables([files["sizes"]])[["n", "eps0", "eps", "bound"]]),
        "reached": columns(reached, _ALL_DIGITS),
        "delta": target_delta,
        "bounds": {name: _bound(str(name)) for name in names},
    }


def _bound(name: str) -> dict[str, Any]:
    bound = get_bound(name)
    return {
        "kind": bound.kind,
        "worth": WORTH[bound.kind],
        "guarantee": bound.guarantee,
        "line": LINES[bound.kind],
        "colour": bound_colour(name) or "#777777",
        "about": bound.source,
    }


def _sweep(utility: pd.DataFrame) -> dict[str, Any]:
    """Quartiles of the distance over the repetitions, at equal privacy."""
    rows = utility[utility["calibration"].isin(["matched", "none"])]
    series = rows[["mechanism", "estimator"]].drop_duplicates().itertuples(index=False, name=None)
    compared = [pair for pair in series if get_estimator(*pair).like is not None]
    keys = ["n", "eps0", "eps", "calibration", "mechanism", "estimator"]
    distances = rows.groupby(keys, sort=False, dropna=False)["tv_distance"]
    table = pd.DataFrame({name: distances.quantile(q) for name, q in _QUARTERS.items()})
    kept = table.reset_index()
    pairs = pd.MultiIndex.from_frame(kept[["mechanism", "estimator"]])
    return columns(kept[pairs.isin(compared)])
