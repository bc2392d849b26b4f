"""Everything the page shows of a run, from the tables of the run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from shuffledp.accounting.registry import get_bound
from shuffledp.figures.basemap import backdrop
from shuffledp.figures.bounds import LINES, WORTH, bound_colour
from shuffledp.figures.style import plural, series_look
from shuffledp.geography.grid import read_cells
from shuffledp.mechanisms.catalogue import CATALOGUE, UNBIASED, get_estimator
from shuffledp.page.maps import map_data
from shuffledp.page.words import choices, plain, protection, strength
from shuffledp.pipeline.selection import STANDARD_ERRORS, TARGET, at_target, at_targets, calibrated
from shuffledp.pipeline.tables import read_tables
from shuffledp.studies.samples import read_samples

_DIGITS: Final = 6  # of what curves are drawn from
_ALL_DIGITS: Final = 17  # of a guarantee: the page rounds it up, from no less than it is
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
    files: Mapping[str, Path], *, title: str, unit: str, target_delta: float
) -> dict[str, Any]:
    """What the page shows of one region.

    Parameters
    ----------
    files
        ``cells``, ``samples``, ``curves``, ``privacy``, ``sizes``, ``utility``, its ``summary`` and
        ``releases_{part}`` for each part; ``basemap`` and ``outline`` if there are any.
    title, unit
        Name of the region, and what delta protects there: ``one check-in`` or ``one user``.
    target_delta
        Of the releases at equal privacy.
    """
    samples = read_samples(files["samples"])
    firsts = _first_releases(files, target_delta)
    summary = at_targets(pd.read_csv(files["summary"]))
    utility = read_tables([files["utility"]])
    made: dict[str, Any] = {
        "title": title,
        "unit": unit,
        "plural": plural(unit),
        "n": sorted(samples),
        "k": int(samples[max(samples)].size),
        "protection": protection(unit),
        "strength": None,
        "accuracy": None,
        "choices": [],
        "table": None,
        "map": _map(files, samples, firsts),
        "targets": None,
        "privacy": _privacy(files, utility, target_delta),
        "sweep": _sweep(utility),
        "looks": {},
    }
    if len(summary):
        made |= _at_targets(summary, firsts, samples)
    drawn = {*made["sweep"]["mechanism"], *(made["targets"] or {}).get("mechanism", [])}
    made["looks"] = {name: _look(name) for name in sorted(drawn)}
    return made


def _look(mechanism: str) -> dict[str, str]:
    look = series_look(mechanism, UNBIASED)
    symbol = _SYMBOLS.get(look.marker, "circle")
    return {"label": CATALOGUE[mechanism].label, "colour": look.colour, "symbol": symbol}


def _first_releases(files: Mapping[str, Path], target_delta: float) -> pd.DataFrame:
    """Unbiased estimates of the first release at each target, and at each eps0's privacy."""
    parts = [path for name, path in files.items() if name.startswith("releases_")]
    rows = read_tables(parts, repetition=0, estimator=UNBIASED)
    swept = calibrated(rows, "matched", target_delta)
    return pd.concat([at_targets(rows), swept], ignore_index=True)


def _at_targets(
    summary: pd.DataFrame, firsts: pd.DataFrame, samples: Mapping[int, Any]
) -> dict[str, Any]:
    last = summary[(summary["n"] == summary["n"].max()) & (summary["eps"] == summary["eps"].max())]
    eps, delta = float(last["eps"].iloc[0]), float(last["delta"].iloc[0])
    shown = ["n", "eps", "delta", "mechanism", "estimator", "tv_distance", "p10", "p90"]
    return {
        "strength": strength(eps, delta),
        "accuracy": _accuracy(last, at_targets(firsts), samples),
        "choices": choices(summary),
        "table": _table(last),
        "targets": columns(summary[summary["reason"].isna()][shown]),
    }


def _map(
    files: Mapping[str, Path], samples: Mapping[int, Any], firsts: pd.DataFrame
) -> dict[str, Any] | None:
    """Releases at the targets, and those of the sweep of eps0 at equal privacy."""
    layers = backdrop(files.get("basemap"), files.get("outline"))
    # The noise of k-RR follows from eps0: the eps that is certified for it is that of the others.
    certified = firsts.groupby(["n", "eps0"])["eps"].transform("first")
    of_target = "eps = " + firsts["eps"].map("{:g}".format)
    of_sweep = "eps0 = " + firsts["eps0"].map("{:g}".format) + " of k-RR, all others the same eps"
    target = firsts["calibration"] == TARGET
    estimates = firsts.assign(
        promise=of_target.where(target, of_sweep), eps=firsts["eps"].where(target, certified)
    )
    return map_data(read_cells(files["cells"]), layers, samples, estimates)


def _accuracy(
    last: pd.DataFrame, estimates: pd.DataFrame, samples: Mapping[int, Any]
) -> str | None:
    """Say of how many cells the recommended release shows that somebody is there."""
    met = last[(last["estimator"] == UNBIASED) & np.isfinite(last["local_eps0"])]
    met = met[met["reason"].isna()].sort_values("cell_error")
    if met.empty:
        return None
    best = met.iloc[0]
    n, unit = int(best["n"]), plural(str(best["unit"]))
    rows = estimates[
        (estimates["n"] == n)
        & (estimates["eps"] == best["eps"])
        & (estimates["mechanism"] == best["mechanism"])
    ]
    known = int((rows["estimate"] > STANDARD_ERRORS * rows["standard_error"]).sum())
    occupied = int(np.count_nonzero(samples[n]))
    return (
        f"If nobody may see a record in the clear ({CATALOGUE[best['mechanism']].label}): of n = "
        f"{n:,} {unit}, {100.0 * best['tv_distance']:.2g} % would have to move for the published "
        f"map to become the true one. Of {len(rows):,} cells {occupied:,} are in use; one release "
        f"shows it of {known:,}, by an estimate above two standard errors. What it does not show "
        "is not known to be empty."
    )


def _table(last: pd.DataFrame) -> dict[str, Any]:
    """The mechanisms at the largest n and eps, the smallest error first."""
    rows = last[last["estimator"] == UNBIASED].sort_values("cell_error")
    first = rows.iloc[0]
    unit = plural(str(first["unit"]))
    return {
        "caption": (
            f"Every mechanism at the same certified privacy, eps = {first['eps']:g} and delta = "
            f"{plain(first['delta'])}, for {first['region']}'s {first['n']:,} {unit}"
        ),
        "heads": [
            "Mechanism",
            "Total variation distance",
            f"Error of a cell, {unit}",
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
    return [
        label,
        f"{row['tv_distance']:.5f}",
        f"{row['cell_error']:.2f}",
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
