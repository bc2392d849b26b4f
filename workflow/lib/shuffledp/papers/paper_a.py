"""Paper A's figures 1 and 2; figures 3 to 7 are the pipeline's own."""

from typing import Final

import numpy as np
import pandas as pd

from shuffledp.accounting.one_round import certified, single_bin
from shuffledp.accounting.setting import Setting
from shuffledp.mechanisms.estimators import total_variation
from shuffledp.mechanisms.gaussian import CentralGaussian
from shuffledp.mechanisms.krr import KRandomisedResponse
from shuffledp.mechanisms.target_calibration import calibrations
from shuffledp.numerics.arrays import Floats
from shuffledp.pipeline.streams import stream
from shuffledp.papers.delta_tables import CELLS, OWN_SHARE
from shuffledp.papers.random_tables import MATCHED_DELTA
from shuffledp.papers.synthetic import BINNING, synthetic_counts
from shuffledp.studies.releases import releases
from shuffledp.studies.sweeps import matched_budgets

# Table III's ranges; n, k and n_x0 of figure 1 are not stated: those of Table IV(a).
SURFACE_N: Final = 100
SURFACE_COUNT: Final = round(OWN_SHARE * SURFACE_N)
BUDGETS: Final = np.round(np.arange(0.1, 3.01, 0.1), 1)

DISTANCE_EPS0: Final = 4.0
SIZES: Final = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
_REPETITIONS: Final = 200
_COMPARED: Final = (CentralGaussian(), KRandomisedResponse())


def surface_table(budgets: Floats = BUDGETS) -> pd.DataFrame:
    """Delta over eps and eps0 (figure 1): as printed, and certified.

    Parameters
    ----------
    budgets
        Values of eps and of eps0.

    Returns
    -------
    Columns of `pipeline.tables.PRIVACY`; only eps < eps0, beyond which delta is 0.
    """
    eps, eps0 = (grid.ravel() for grid in np.meshgrid(budgets, budgets))
    pairs = [(e, e0) for e, e0 in zip(eps, eps0, strict=True) if e < e0]
    settings = [(e, Setting(SURFACE_N, CELLS, e0)) for e, e0 in pairs]
    logs = {
        "single-bin-as-printed": [
            single_bin.log_delta_as_printed(e, setting, SURFACE_COUNT) for e, setting in settings
        ],
        "upper": [certified.upper_log_delta(e, setting) for e, setting in settings],
    }
    parts = []
    for bound, values in logs.items():
        table = pd.DataFrame(pairs, columns=["eps", "eps0"])
        log_delta = np.array(values, dtype=np.float64)
        table = table.assign(n=SURFACE_N, k=CELLS, bound=bound, delta=np.exp(log_delta))
        parts.append(table.assign(log10_delta=log_delta / np.log(10.0)))
    return pd.concat(parts, ignore_index=True)


def distance_table(seed: int, repetitions: int = _REPETITIONS) -> pd.DataFrame:
    """Total variation distances on the synthetic data over n (figure 2), eps0 = 4.

    The Gaussian once as published, eps = eps0, and once at the certified privacy of the shuffle
    model at delta = 1e-6.

    Returns
    -------
    Columns of `pipeline.tables.DISTANCES`.
    """
    return pd.concat([_distances(n, seed, repetitions) for n in SIZES], ignore_index=True)


def _distances(n: int, seed: int, repetitions: int) -> pd.DataFrame:
    labels = ("paper A, figure 2", n)
    counts = synthetic_counts(n, BINNING, stream(seed, *labels))
    setting = Setting(n, counts.size, DISTANCE_EPS0)
    budgets = matched_budgets(setting, [], [MATCHED_DELTA])
    parts = [
        pd.DataFrame(
            {
                "n": n,
                "eps0": DISTANCE_EPS0,
                "eps": release.calibration.eps,
                "delta": np.exp(release.calibration.log_delta),
                "log10_delta": release.calibration.log_delta / np.log(10.0),
                "calibration": release.calibration.name,
                "mechanism": release.mechanism,
                "estimator": release.estimator,
                "repetition": np.arange(repetitions),
                "tv_distance": total_variation(release.estimates, counts / n),
            }
        )
        for mechanism in _COMPARED
        for release in releases(
            mechanism,
            counts,
            calibrations(mechanism, setting, budgets),
            repetitions,
            seed=seed,
            labels=labels,
        )
    ]
    return pd.concat(parts, ignore_index=True)
