#!/bin/bash
# PLD_accounting 2.0: the lower bound of eps of a mechanism's own privacy loss distribution is above
# the exact eps. It is below that of the distribution's grid, which the distribution was rounded up
# to, and the lower version of a distribution is refused. The upper bound is sound.
# Seen, for 10,000 rounds of Gaussian noise with sigma = 100 and delta = 1e-6, which have the eps of
# one with sigma = 1: "exact eps 4.8866, lower bound 5.3358, upper bound 5.3358".
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv v
v/bin/pip -q install PLD_accounting==2.0 dp-accounting==0.6.0 numpy==2.4.6 scipy==1.17.1
v/bin/python - <<'P'
from math import exp

from PLD_accounting import (
    AllocationSchemeConfig,
    BoundType,
    gaussian_distribution,
    general_allocation_epsilon,
)
from scipy.optimize import brentq
from scipy.stats import norm


def bound(noise, rounds, kind):
    return general_allocation_epsilon(
        delta=1e-6,
        num_steps=1,
        num_selected=1,
        num_epochs=rounds,
        remove_realization=noise,
        add_realization=noise,
        config=AllocationSchemeConfig(),
        bound_type=kind,
    )


exact = brentq(lambda e: norm.cdf(0.5 - e) - exp(e) * norm.cdf(-0.5 - e) - 1e-6, 0, 10)
noise = gaussian_distribution(scale=100.0)
lower, upper = (bound(noise, 10_000, k) for k in (BoundType.IS_DOMINATED, BoundType.DOMINATES))
print(f"exact eps {exact:.4f}, lower bound {lower:.4f}, upper bound {upper:.4f}")
assert lower > 1.05 * exact, "the behaviour has changed"

lower_noise = gaussian_distribution(scale=100.0, bound_type=BoundType.IS_DOMINATED)
try:
    bound(lower_noise, 1, BoundType.IS_DOMINATED)
except TypeError as refusal:
    print(refusal)
else:
    raise SystemExit("the behaviour has changed")
P
