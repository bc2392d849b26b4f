#!/bin/bash
# opendp 0.16.0: the privacy map of Laplace noise with a threshold takes three distances: of keys, of
# records, and of records in one key. For (4, 4, 4) it reports four times the delta of one key with
# four records, although four records fill one such key only.
# Seen: "delta 1.21e-07 reported, 3.03e-08 is the largest of all ways".
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv v && v/bin/pip -q install opendp==0.16.0
v/bin/python - <<'PY'
from math import exp, prod

import opendp.prelude as dp

dp.enable_features("contrib")
keys = dp.map_domain(dp.atom_domain(T=str), dp.atom_domain(T="i64"))
distance = dp.l01inf_distance(dp.absolute_distance(T="i64"))
threshold = 20
release = dp.m.make_laplace_threshold(keys, distance, scale=1.0, threshold=threshold)
_, reported = release.map((4, 4, 4))


def released(records):
    """Probability that discrete Laplace noise of scale 1 lifts a count above the threshold."""
    return exp(-(threshold + 1 - records)) / (1 + exp(-1))


ways = [(4,), (3, 1), (2, 2), (2, 1, 1), (1, 1, 1, 1)]
largest = max(1 - prod(1 - released(records) for records in way) for way in ways)
print(f"delta {reported:.3g} reported, {largest:.3g} is the largest of all ways")
assert 3.9 < reported / largest < 4.1, "the behaviour has changed"
PY
