"""Certificates of upper and lower ends, which `shuffledp.verification` checks independently.

For one round of k-RR a certificate holds a data set that attains the lower end and the argument by
which the upper end holds (docs/accounting.md). For dummies, or noise added by servers, it needs
neither, because delta is the same for all data sets. For several rounds it holds a loss
distribution that dominates one round, on a grid. The checker recomputes everything in ball
arithmetic, with its own truncation windows and tail bounds.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from shuffledp.accounting import pairs
from shuffledp.accounting.curve import UpperCurve
from shuffledp.accounting.krr import (
    attaining_data_set,
    hides_one_user,
    upper_log_delta,
    weak_adversary_log_delta,
)
from shuffledp.accounting.one_round import two_rr
from shuffledp.accounting.one_round.dummies import chance_of_dummy
from shuffledp.accounting.rounds.outcome_bundles import MAX_DEPTH
from shuffledp.accounting.rounds.privacy_loss import LossDistribution
from shuffledp.accounting.rounds.profile import dominating_law
from shuffledp.accounting.rounds.sums import finite_log_hockey_stick, log_hockey_stick
from shuffledp.accounting.setting import LARGEST_EPS0, LARGEST_N, Setting
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import UNIT
from shuffledp.version import find_version

# Points per standard deviation of a round's loss; the checker needs a few milliseconds for each.
POINTS_PER_DEVIATION = 2.0
# Relative increase of the probabilities in the grid of a round. It exceeds the error of the round's
# deltas, so that the check does not depend on their last digits.
RELATIVE_MARGIN = 1e-8
# Log of the largest share of delta that losses beyond the grid may contribute.
LOG_LEFT_OUT_SHARE = -9.0
# Smallest depth that is tried. The grid ends where delta of a round is below exp(-depth).
MIN_DEPTH = 10.0
# Mechanisms for which the checker recomputes delta of a view.
MECHANISMS_WITH_VIEW_CERTIFICATES = ("shuffler-dummies", "two-servers")


def _finite(log_delta: float) -> float | None:
    return log_delta if np.isfinite(log_delta) else None


def _proof(eps: float, setting: Setting) -> dict[str, Any]:
    """Return the name of the proof of the upper end, and its blocks of counts if it uses any.

    The proofs are the privacy blanket, one hidden user (k = 3) and blocks of counts (k = 2).
    """
    if eps >= setting.eps0 or not (setting.k == 2 or hides_one_user(setting)):
        return {"argument": "blanket"}
    if setting.k == 3:
        return {"argument": "hidden"}
    worst = two_rr.worst_count(eps, setting)
    return {
        "argument": "counts",
        "blocks": np.stack([worst.first_counts, worst.last_counts], axis=1).tolist(),
    }


def _head(kind: int, eps: float) -> dict[str, Any]:
    """Check eps, and return the first entries of a certificate: kind, version and neighbours.

    ``kind`` says what is certified: one round of k-RR (1), true records among users' dummies (2),
    several rounds of k-RR (3) or a view of a mechanism (4).
    """
    if not 0.0 <= eps < np.inf:
        raise InputError(f"eps must be at least 0 and finite, got eps={eps}")
    return {
        "certificate": kind,
        "shuffledp": find_version(),
        "neighbours": "replacement of one record",
    }


def certificate(eps: float, setting: Setting) -> dict[str, Any]:
    """Return a certificate for k-RR at ``eps`` as JSON data.

    Logs of delta are natural, and None for a delta of 0. For one round the certificate has both
    ends. For several rounds it has only the upper end, for the weak adversary, on a coarse grid:
    the eps that it proves at a given delta is a few per cent larger than `shuffledp.epsilon`'s, or
    much larger for k = 2. Raises `InputError` if eps is out of range, or the setting cannot be
    certified.
    """
    everybody_reports = setting.participation_rate == 1.0 and not setting.colluding
    if not everybody_reports or setting.dummies or setting.mechanism:
        raise InputError(
            "this certificate is for k-RR without dummies, with honest users who all report, got "
            f"{setting}"
        )
    if setting.rounds > 1:
        return _rounds_certificate(eps, setting)
    head = _head(1, eps)
    data_set = attaining_data_set(eps, setting)
    return {
        **head,
        "n": setting.n,
        "k": setting.k,
        "eps0": float(setting.eps0),
        "eps": float(eps),
        "lower": {
            "log_delta": _finite(data_set.log_delta),
            "others": {"x0": data_set.x0, "x1": data_set.x1, "x2": data_set.x2},
        },
        "upper": {
            "log_delta": _finite(float(upper_log_delta(eps, setting))),
            **_proof(eps, setting),
        },
    }


def dummies_certificate(eps: float, n: int, k: int, dummies: float, chances: int) -> dict[str, Any]:
    """Return a certificate of both ends for users who send their true cell and add dummies.

    Delta is the same for all data sets. ``dummies`` is the mean number of a user's uniform dummies,
    which must be positive, and ``chances`` the largest possible number. Raises `InputError` if an
    argument is out of range.
    """
    head = _head(2, eps)
    Setting(n, k)  # raises InputError if n or k is out of range
    rate = chance_of_dummy(dummies, chances)
    if not dummies or eps > LARGEST_EPS0 or n * chances >= LARGEST_N:
        raise InputError(
            f"dummies must be positive, eps at most {LARGEST_EPS0:g} and n * chances below "
            f"{LARGEST_N:,}, got dummies={dummies}, eps={eps}, n={n}, chances={chances}"
        )
    ends = pairs.hockey_stick(
        pairs.dummies(n * chances, k, rate, (chances - dummies) / chances), eps
    )
    return {
        **head,
        "n": n,
        "k": k,
        "dummies": float(dummies),
        "chances": chances,
        "eps": float(eps),
        "lower": {"log_delta": _finite(min(ends.low, 0.0))},
        "upper": {"log_delta": min(ends.high, 0.0)},
    }


def view_certificate(
    eps: float,
    sizes: tuple[int, int],
    mechanism: str,
    parameters: Mapping[str, float | int],
    view: str,
    log_delta: float,
) -> dict[str, Any]:
    """Return a certificate of the upper end for one view of a mechanism.

    Raises `InputError` if eps is out of range, or the checker does not cover the mechanism.

    Parameters
    ----------
    eps
        Central budget, from 0 to 300.
    sizes
        Numbers of users and cells.
    mechanism, parameters
        Name of the mechanism, and its parameters; infinite ones become None in the certificate.
    view, log_delta
        Name of the view, and the upper bound on the natural log of its delta.
    """
    head = _head(4, eps)
    if mechanism not in MECHANISMS_WITH_VIEW_CERTIFICATES or eps > LARGEST_EPS0:
        raise InputError(
            f"mechanism must be one of {', '.join(MECHANISMS_WITH_VIEW_CERTIFICATES)}, and eps at "
            f"most {LARGEST_EPS0:g}, got mechanism={mechanism}, eps={eps}"
        )
    return {
        **head,
        "n": sizes[0],
        "k": sizes[1],
        "mechanism": mechanism,
        "parameters": {
            name: value if np.isfinite(value) else None for name, value in parameters.items()
        },
        "view": view,
        "eps": float(eps),
        "lower": {"log_delta": None},
        "upper": {"log_delta": _finite(log_delta)},
    }


def _rounds_certificate(eps: float, setting: Setting) -> dict[str, Any]:
    head, rounds, once = _head(3, eps), setting.rounds, replace(setting, rounds=1)
    if eps >= setting.budget:
        raise InputError(
            f"eps must be below rounds * eps0 = {setting.budget:g}, where delta is 0, got eps={eps}"
        )

    def upper(eps: float) -> float:
        return float(weak_adversary_log_delta(eps, once))

    curve, depth = UpperCurve(setting.eps0, upper=upper), MIN_DEPTH
    while True:
        law = _with_margin(dominating_law(curve, depth, POINTS_PER_DEVIATION))
        high = log_hockey_stick([(law, rounds)], eps).high
        inside = finite_log_hockey_stick([(law, rounds)], eps).high
        if depth >= MAX_DEPTH or not high > inside + np.exp(LOG_LEFT_OUT_SHARE):
            break
        depth = min(1.5 * depth, MAX_DEPTH)
    above = law.mass[1 - law.start :]
    return {
        **head,
        "n": setting.n,
        "k": setting.k,
        "eps0": float(setting.eps0),
        "rounds": rounds,
        "eps": float(eps),
        "lower": {"log_delta": None},
        "upper": {
            "log_delta": min(high, 0.0),
            "step": law.step,
            "masses": [[i, mass] for i, mass in enumerate(above.tolist(), 1) if mass > 0.0],
            "infinite": law.infinite,
        },
    }


def _with_margin(law: LossDistribution) -> LossDistribution:
    """Return a distribution whose divergence at each eps >= 0 is larger by `RELATIVE_MARGIN`.

    Loss -l has exp(-l) times the probability of loss l > 0; the remaining mass has loss 0.
    """
    above = law.mass[1 - law.start :] * (1.0 + RELATIVE_MARGIN)
    infinite = law.infinite * (1.0 + RELATIVE_MARGIN)
    if not above.any():
        raise InputError(
            "several rounds cannot be certified: the privacy loss of a round is too small for the "
            "grid of losses; certify one round, or a larger eps0"
        )
    last = int(np.flatnonzero(above)[-1]) + 1
    above = above[:last]
    below = above * np.exp(-law.step * np.arange(1.0, last + 1.0))
    rest = 1.0 - infinite - float(above.sum()) - float(below.sum())
    error = UNIT * (last + 8.0) * 4.0
    if rest < error:
        raise InputError("several rounds cannot be certified: eps0 is too large for this n")
    mass = np.concatenate([below[::-1], [rest], above])
    largest_loss = law.step * last
    error = error / min(rest, 1.0) + 4.0 * UNIT * (1.0 + largest_loss)
    return LossDistribution(law.step, -last, mass, infinite, error)
