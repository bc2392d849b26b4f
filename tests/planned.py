"""Predictions of the library that the page's planner must reproduce."""

from dataclasses import dataclass

import numpy as np
from shuffledp.accounting.setting import Setting
from shuffledp.mechanisms.registry import get_mechanisms
from shuffledp.mechanisms.target_calibration import calibrate_to_target
from shuffledp.page.data import PLANNED


@dataclass(frozen=True)
class Planned:
    """Hold predictions for a uniform histogram: `cell_error` in records, `messages` per user."""

    cell_error: float
    distance: float
    messages: float
    moved_by_one: float
    shape: str | None


# Mechanisms that the planner offers for several rounds.
REPEATED = ("gaussian", "discrete-laplace", "shuffler-dummies", "two-servers")


def planned(n: int, k: int, eps: float, delta: float, rounds: int = 1) -> dict[str, Planned]:
    """Return predictions by mechanism; before rounding, the page's may be `PLANNER_LOSS` larger."""
    shares, setting = np.full(k, 1.0 / k), Setting(n, k, rounds=rounds)
    calibrated = {
        each.name: calibrate_to_target(each, eps, float(np.log(delta)), setting, shares)
        for each in get_mechanisms(PLANNED if rounds == 1 else REPEATED)
    }
    return {
        name: Planned(
            released.cell_sd,
            released.tv_distance,
            released.per_user.messages,
            released.per_user.moved_by_one,
            released.shape,
        )
        for name, released in calibrated.items()
    }
