"""Markers for tests that need data which the project does not contain."""

from pathlib import Path

import pytest
from needs import needs

_DATA = Path(__file__).parents[2] / "shared" / "data"
GOWALLA = _DATA / "gowalla"
MNIST = _DATA / "mnist"
needs_gowalla = pytest.mark.skipif(
    not GOWALLA.is_dir(), reason=needs("data", "the real check-ins are not beside the repository")
)
needs_mnist = pytest.mark.skipif(
    not MNIST.is_dir(), reason=needs("data", "MNIST's test images are not beside the repository")
)
