"""The accountant: the privacy curve of the identical rounds of a setting, or of a schedule.

Results are for the replacement of one user's record in each round, against an analyst who sees all
reports or the output of a mechanism; some bounds are for other adversaries. Only upper ends may be
promised to users (docs/accounting.md). The public functions are in `shuffledp.queries`.
"""

from __future__ import annotations  # so that help() shows ArrayLike, not its definition

from collections.abc import Sequence
from dataclasses import replace

from shuffledp.accounting.bound_registry import get_bound
from shuffledp.accounting.composition import compose, compose_rounds
from shuffledp.accounting.curve import Curve, UpperCurve
from shuffledp.accounting.krr import krr_curve
from shuffledp.accounting.participation import with_participation
from shuffledp.accounting.setting import LARGEST_ROUNDS, Setting
from shuffledp.errors import InputError

CERTIFIED = "certified"
# Largest number of distinct rounds in a schedule. Each of them needs an FFT for each eps.
MAX_DISTINCT_ROUNDS = 1_000
# One setting, whose rounds are identical, or a schedule: a list of settings that are composed.
SettingOrSchedule = Setting | Sequence[Setting]


def curve(setting: SettingOrSchedule, bound: str = CERTIFIED) -> Curve:
    """Return the joint curve of all rounds of a setting or of a schedule.

    Parameters
    ----------
    setting
        A setting, whose rounds are identical, or a schedule: a list of settings that compose.
    bound
        ``"certified"``, or the name of a bound on k-RR (``shuffledp list``), whose curve has only
        one end.

    Raises
    ------
    InputError
        If the bound does not apply to the setting, or is neither an upper nor a lower one.
    """
    if bound == CERTIFIED:
        return certified_curve(setting)
    if isinstance(setting, Setting):
        return _curve_of_bound(setting, bound)
    raise InputError(
        f"a schedule has a certified curve only, got bound={bound}: use bound={CERTIFIED}"
    )


def certified_curve(setting: SettingOrSchedule) -> UpperCurve:
    """Return the certified curve of all rounds of a setting or of a schedule."""
    if not isinstance(setting, Setting):
        return _schedule_curve(setting)
    if setting.count is not None:
        raise InputError(
            f"the {CERTIFIED} bound does not depend on count: leave it out, or use bound=single-bin"
        )
    if setting.mechanism is not None:
        once = replace(setting, rounds=1)
        return compose(with_participation(setting.mechanism.curve, once), setting.rounds)
    return krr_curve(setting)


def distinct_rounds(rounds: Sequence[Setting]) -> dict[Setting, int]:
    """Return the distinct one-round settings of a schedule, with the number of rounds of each."""
    if isinstance(rounds, str) or not isinstance(rounds, Sequence):
        raise InputError(
            f"setting must be a Setting or a list of them (a schedule), got {rounds!r}"
        )
    counts = dict[Setting, int]()
    for setting in rounds:
        if not isinstance(setting, Setting):
            raise InputError(f"a schedule must be a list of settings, got an item {setting!r}")
        once = replace(setting, rounds=1)
        counts[once] = counts.get(once, 0) + setting.rounds
    total = sum(counts.values())
    if not 1 <= total <= LARGEST_ROUNDS:
        raise InputError(f"a schedule must have from 1 to {LARGEST_ROUNDS:,} rounds, got {total:,}")
    if len(counts) > MAX_DISTINCT_ROUNDS:
        raise InputError(
            f"a schedule may have at most {MAX_DISTINCT_ROUNDS:,} distinct rounds, got "
            f"{len(counts):,}: give similar rounds equal settings, for example their smallest n, "
            "which is safe"
        )
    return counts


def _schedule_curve(rounds: Sequence[Setting]) -> UpperCurve:
    counts = distinct_rounds(rounds)
    if len(counts) == 1:
        ((once, count),) = counts.items()
        return certified_curve(replace(once, rounds=count))
    for once in counts:
        replace(once, rounds=2)  # raises InputError if the setting is valid for one round only
    return compose_rounds([(certified_curve(once), count) for once, count in counts.items()])


def _curve_of_bound(setting: Setting, name: str) -> Curve:
    bound = get_bound(name)
    if not (bound.guarantee or bound.kind == "lower"):
        raise InputError(
            f"{name} is neither an upper nor a lower bound; 'shuffledp bounds' shows its eps"
        )
    if setting.count is not None and not bound.uses_count:
        raise InputError(f"{name} does not depend on count: leave it out, or use bound=single-bin")
    return bound.curve(setting)
