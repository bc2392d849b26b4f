#!/bin/bash
# opendp 0.16.0 and pandas 3.1.1: OpenDP's vector measurements take a NumPy array, and the values of
# a Series are one. But since pandas 3 they are a read-only view (copy on write), which OpenDP
# refuses; a writable copy of the same numbers is accepted.
# Seen: "values of a Series: readonly arrays unsupported", "a writable copy: 3 noisy counts".
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv v && v/bin/pip -q install opendp==0.16.0 pandas==3.1.1 numpy==2.4.6
v/bin/python - <<'PY'
import opendp.prelude as dp
import pandas as pd

dp.enable_features("contrib")
noise = dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64"), scale=1.0)
counts = pd.Series([3, 0, 7])
try:
    noise(counts.values)
except TypeError as error:
    refused = str(error)
else:
    refused = ""
copied = noise(counts.to_numpy(copy=True))
print("values of a Series:", refused or "accepted")
print(f"a writable copy: {len(copied)} noisy counts")
assert "readonly" in refused, refused
assert not counts.values.flags.writeable
assert len(copied) == 3, "the behaviour has changed"
PY
