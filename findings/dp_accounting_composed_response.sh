#!/bin/bash
# dp_accounting 0.6.0: PLDAccountant composes a RandomizedResponseDpEvent ten times when it is given
# the event and a count, but ignores the count, so that ten rounds have the eps of one. Composing
# the event one by one, or its privacy loss distribution, counts them.
# Seen: "count: 1.61 for one, 1.61 for ten", "one by one: 16.09 for ten" (delta = 1e-9).
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv v && v/bin/pip -q install dp-accounting==0.6.0
v/bin/python - <<'P'
import dp_accounting
from dp_accounting.pld import PLDAccountant

event = dp_accounting.dp_event.RandomizedResponseDpEvent(noise_parameter=0.5, num_buckets=4)


def accountant():
    return PLDAccountant(dp_accounting.NeighboringRelation.REPLACE_ONE)


one, ten = (accountant().compose(event, rounds).get_epsilon(1e-9) for rounds in (1, 10))
each = accountant()
for _ in range(10):
    each.compose(event)
singly = each.get_epsilon(1e-9)
print(f"count: {one:.2f} for one, {ten:.2f} for ten")
print(f"one by one: {singly:.2f} for ten")
assert abs(ten - one) < 1e-6 and singly > 4.0, "the behaviour has changed"
P
