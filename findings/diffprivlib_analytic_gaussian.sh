#!/bin/bash
# diffprivlib 0.6.6 with scikit-learn 1.8.0: GaussianAnalytic finds the standard deviation for which
# the exact delta of the Gaussian mechanism is the one asked for, but computes delta as a difference
# of two numbers near 1. So it is too small for a tiny delta, and too large for a large eps.
# Seen: "eps 1, delta 1e-15: its noise has delta 1.041e-15", "eps 25, delta 1e-06: ... 4.269e-07".
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv v && v/bin/pip -q install diffprivlib==0.6.6 scikit-learn==1.8.0 mpmath==1.3.0
v/bin/python - <<'PY'
from diffprivlib.mechanisms import GaussianAnalytic
from mpmath import exp, mp, mpf, ncdf

mp.dps = 60


def exact(eps, sigma):
    """Return delta of noise on a number that one person changes by 1 (Balle and Wang 2018)."""
    half, far = 1 / (2 * sigma), eps * sigma
    return ncdf(half - far) - exp(eps) * ncdf(-half - far)


seen = []
for eps, delta in ((1, 1e-15), (25, 1e-6)):
    sigma = mpf(GaussianAnalytic(epsilon=eps, delta=delta, sensitivity=1)._scale)
    seen.append(float(exact(mpf(eps), sigma) / mpf(delta)))
    print(f"eps {eps}, delta {delta:g}: its noise has delta {seen[-1] * delta:.4g}")
assert seen[0] > 1.02 and seen[1] < 0.9, "the behaviour has changed"
PY
