"""Markers for tests that need data which the project does not contain."""

from pathlib import Path

import pytest
from needs import needs

_DATA = Path(__file__).parents[2] / "shared" / "data"
GOWALLA = _DATA / "gowalla"
needs_gowalla = pytest.mark.skipif(
    not GOWALLA.is_dir(), reason=needs("data", "the real check-ins are not beside the repository")
)
