"""Names for the arrays that formulas take and give."""

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

ArrayLike = float | FloatArray | IntArray
"""One number or many: what a formula takes. Narrower than numpy's, so that it can be multiplied as it stands."""

__all__ = ["ArrayLike", "BoolArray", "FloatArray", "IntArray"]
