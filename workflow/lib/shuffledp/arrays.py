"""The two kinds of arrays that the package passes around, and how a float rounds."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
UNIT = 2.0**-53  # relative error of rounding to the nearest float
