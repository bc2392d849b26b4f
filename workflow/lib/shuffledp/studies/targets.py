"""Mechanisms that each calibrate themselves to a target (eps, delta), and how far they are off."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
from tqdm import tqdm

from shuffledp.accounting.incomplete import EVERYBODY, Crowd
from shuffledp.arrays import Integers
from shuffledp.errors import InputError
from shuffledp.mechanisms.offers import Offer, offer, parameter_words, predicted
from shuffledp.mechanisms.protocol import Calibration, Mechanism, P
from shuffledp.mechanisms.registry import MECHANISMS, get_mechanisms
from shuffledp.studies.releases import Release, releases
from shuffledp.tables import TARGET_ESTIMATES

_log = logging.getLogger(__name__)

# Of a mechanism at a target and n, the same for all its releases there.
_OFFERED: Final = ["parameters", "local_eps0", "messages", "reason"]
_SERIES: Final = ["n", "eps", "delta", "mechanism", "estimator"]
# Of a whole run.
_CROWD: Final = ["colluding", "response_rate"]
# Names that every mechanism has: the unbiased estimate, and that on the simplex.
UNBIASED: Final = "raw"
DISTRIBUTION: Final = "projected"
_PREDICTED: Final = ["expected_tv_distance", "expected_cell_error"]

COLUMNS = (
    "region", "unit", *_SERIES, *_CROWD, "tv_distance", "p10", "p90", "expected_tv_distance",
    "cell_error", "cell_error_p10", "cell_error_p90", "expected_cell_error", *_OFFERED, "trust",
)  # fmt: skip


def target_utility(
    samples: Mapping[int, Integers],
    eps: Sequence[float],
    delta: float,
    repetitions: int,
    mechanism: str,
    crowd: Crowd = EVERYBODY,
    *,
    seed: int,
    region: str,
    grid: str,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Release every sample at every target, and measure the errors beside the predicted ones.

    Parameters
    ----------
    samples
        Users per cell by sample size, shape ``(k,)`` each.
    eps, delta
        The targets: each eps with this delta.
    repetitions
        Independent releases of each.
    mechanism
        Name in the registry.
    crowd
        Who colludes or drops out. Colluders report as they should; errors are about all users.
    seed, region, grid
        Name the random streams, with n, the mechanism and the target.

    Returns
    -------
    utility
        Columns of `shuffledp.tables.TARGETS`, a row for each release and each estimator that is
        compared. ``cell_error`` is the root mean square over the cells of the error in users. What
        is expected is so of the unbiased estimate alone. Where the mechanism cannot meet a target
        there is one row without errors, and ``reason`` says why.
    estimates
        Columns of `shuffledp.tables.TARGET_ESTIMATES`: the unbiased shares of the first release at
        each target, with the standard errors that whoever holds the release alone can tell.

    Raises
    ------
    InputError
        If there is no such mechanism.
    """
    (chosen,) = get_mechanisms([mechanism])
    log_delta = float(np.log(delta))
    parts, maps = [], []
    for n, counts in tqdm(samples.items(), desc="n", disable=None):
        for one in eps:
            target = {
                "n": n,
                "eps": one,
                "delta": delta,
                "colluding": crowd.colluding,
                "response_rate": crowd.response,
                "mechanism": mechanism,
            }
            try:
                found = offer(chosen, one, log_delta, n, counts / n, crowd)
            except InputError as error:
                _log.warning("n=%d, eps=%g, %s: %s", n, one, mechanism, error)
                none = {"estimator": UNBIASED, "repetition": 0, "reason": str(error)}
                parts.append(pd.DataFrame([target | none]))
                continue
            calibration = Calibration(
                "target", one, log_delta, f"eps={one:g}, delta={delta:g}", found.parameters
            )
            made = releases(
                chosen, counts, [calibration], repetitions,
                seed=seed, labels=("target", region, grid, n), response=crowd.response,
            )  # fmt: skip
            for release in made:
                if chosen.estimator(release.estimator).like is None:
                    continue
                expected = found if release.estimator == UNBIASED else None
                part = _measured(release, counts, expected)
                parts.append(part.assign(**target, **_offered(found)))
                if release.estimator == UNBIASED:
                    first = _first(chosen, release, n, crowd.response)
                    maps.append(first.assign(**target))
    estimates = (
        pd.concat(maps, ignore_index=True) if maps else TARGET_ESTIMATES.empty_table().to_pandas()
    )
    return pd.concat(parts, ignore_index=True), estimates


def _first(mechanism: Mechanism[P], release: Release, n: int, response: float) -> pd.DataFrame:
    shares = release.estimates[0]
    plausible = shares.clip(0.0, 1.0)
    variance, _ = predicted(mechanism, plausible, n, release.calibration.parameters, response)
    return pd.DataFrame(
        {"cell": np.arange(shares.size), "estimate": shares, "standard_error": np.sqrt(variance)}
    )


def _offered(found: Offer[Any]) -> dict[str, Any]:
    return {
        "parameters": parameter_words(found.parameters),
        "local_eps0": found.local_eps0,
        "messages": found.messages,
        "reason": None,
    }


def _measured(release: Release, counts: Integers, expected: Offer[Any] | None) -> pd.DataFrame:
    n = int(counts.sum())
    errors = release.estimates - counts / n
    return pd.DataFrame(
        {
            "estimator": release.estimator,
            "repetition": np.arange(len(errors)),
            "tv_distance": 0.5 * np.abs(errors).sum(axis=1),
            "cell_error": n * np.sqrt((errors**2).mean(axis=1)),
            "expected_tv_distance": expected.tv_distance if expected else np.nan,
            "expected_cell_error": expected.cell_sd if expected else np.nan,
        }
    )


def target_summary(utility: pd.DataFrame, region: str, unit: str) -> pd.DataFrame:
    """Describe the errors of each series over the repetitions, with what the mechanism asks for.

    Parameters
    ----------
    utility
        Columns of `shuffledp.tables.TARGETS`.
    region, unit
        Title of the region, and what delta protects there in words: ``one check-in``.

    Returns
    -------
    Columns `COLUMNS`. Means over the repetitions, with their 10 and 90 % quantiles; ``trust`` is
    who must be trusted with what. An infinite ``local_eps0``: a user's messages reveal all.
    """
    groups = utility.groupby(_SERIES, sort=False)
    parts: list[pd.DataFrame | pd.Series[float]] = [
        groups[[*_PREDICTED, *_OFFERED, *_CROWD]].first()
    ]
    for column, prefix in [("tv_distance", ""), ("cell_error", "cell_error_")]:
        parts.append(groups[column].mean())
        for name, share in [("p10", 0.1), ("p90", 0.9)]:
            parts.append(groups[column].quantile(share).rename(prefix + name))
    table = pd.concat(parts, axis="columns").reset_index()
    trust = [MECHANISMS[name].trust for name in table["mechanism"]]
    return table.assign(region=region, unit=unit, trust=trust)[list(COLUMNS)]


def target_findings(summary: pd.DataFrame, *, brief: bool = False) -> str:
    """Write the errors at the largest n as a table, the most accurate mechanism first.

    Parameters
    ----------
    summary
        Rows of `target_summary`, of one region.
    brief
        Name who must be trusted without saying with what.

    Returns
    -------
    A line that says what is counted, and one for each mechanism: of its unbiased estimate the mean
    total variation distance (and error of a cell in users) for each eps, messages per user at the
    largest eps and the local eps0 of these (none: they reveal all), and who must be trusted. A
    dash: it cannot meet the target.
    """
    n, most = summary["n"].max(), summary["eps"].max()
    shown = summary[(summary["n"] == n) & (summary["estimator"] == UNBIASED)]
    met = shown["reason"].isna()
    errors = [
        f"{distance:.5f} ({error:.2f})" if possible else "-"
        for distance, error, possible in zip(
            shown["tv_distance"], shown["cell_error"], met, strict=True
        )
    ]
    columns = [f"eps = {eps:g}" for eps in sorted(shown["eps"].unique())]
    table = shown.assign(errors=errors, column="eps = " + shown["eps"].map("{:g}".format)).pivot(
        index="mechanism", columns="column", values="errors"
    )[columns]
    last = shown[shown["eps"] == most].sort_values("tv_distance").set_index("mechanism")
    table = table.loc[last.index]
    table["messages"] = last["messages"].map("{:.2f}".format, na_action="ignore").fillna("-")
    own = last["local_eps0"].map("{:.2f}".format).where(np.isfinite(last["local_eps0"]), "none")
    table["local eps0"] = own.where(last["reason"].isna(), "-")
    table["trusted"] = last["trust"].str.partition(",")[0] if brief else last["trust"]
    table.index = pd.Index([MECHANISMS[name].label for name in table.index])
    table.columns.name = None
    region, delta = shown["region"].iloc[0], shown["delta"].iloc[0]
    crowd = Crowd(*shown[_CROWD].iloc[0])
    padded = table.apply(lambda column: column.str.ljust(column.str.len().max()))
    with pd.option_context("display.max_colwidth", None):
        text = padded.to_string(justify="left")
    unit = shown["unit"].iloc[0].removeprefix("one ")
    return (
        f"{region}, n = {n:,}{crowd}, delta = {delta:g}: total variation distance (error of a "
        f"cell, {unit}s)\n" + "\n".join(line.rstrip() for line in text.splitlines())
    )
