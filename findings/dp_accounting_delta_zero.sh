#!/bin/bash
# dp_accounting 0.6.0: Laplace noise of scale b on a count has eps = 1 / b without any delta. Asked
# for the eps at delta = 0, it answers so for some scales, and "infinite" for others, because what
# the probabilities lack to a sum of 1, which is 6e-17 by rounding, counts as an infinite loss.
# Seen: "scale 0.5: inf", "scale 1: 1", "scale 2: inf", "scale 3: 0.3334", "scale 10: inf".
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv v && v/bin/pip -q install dp-accounting==0.6.0 numpy==2.4.6 scipy==1.17.1
v/bin/python - <<'PY'
from math import inf

from dp_accounting.pld.privacy_loss_distribution import from_laplace_mechanism

answers = {}
for scale in (0.5, 1, 2, 3, 10):
    noise = from_laplace_mechanism(scale)
    answers[scale] = noise.get_epsilon_for_delta(0.0)
    print(f"scale {scale:g}: {answers[scale]:.4g}; at delta 1e-12: {noise.get_epsilon_for_delta(1e-12):.4g}")
assert answers[0.5] == answers[2] == answers[10] == inf, "the behaviour has changed"
assert answers[1] < 1.001 and answers[3] < 0.334, "the behaviour has changed"
PY
