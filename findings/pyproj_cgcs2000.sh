#!/bin/bash
# pyproj 3.7.2: CGCS2000 (EPSG:4490, all public data of China) and NAD83 / Puerto Rico (EPSG:32161)
# have no conversion to WGS 84 of known accuracy. With allow_ballpark=False, which protects from old
# datums that are hundreds of metres off, both are refused, although they are within two metres.
# Seen: "EPSG:4490 refused", "EPSG:32161 refused", "EPSG:2154 converted".
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv v && v/bin/pip -q install pyproj==3.7.2
v/bin/python - <<'P'
from pyproj import Transformer
from pyproj.exceptions import ProjError
words = []
for code in (4490, 32161, 2154):
    try:
        Transformer.from_crs(code, 4326, allow_ballpark=False)
        words.append("converted")
    except ProjError:
        words.append("refused")
    print(f"EPSG:{code}", words[-1])
assert words == ["refused", "refused", "converted"], "the behaviour has changed"
P
