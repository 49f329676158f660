"""Names for the arrays that formulas take and give."""

from collections.abc import Iterable
from functools import reduce
from operator import add

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

ArrayLike = float | FloatArray | IntArray
"""One number or many: what a formula takes. Narrower than numpy's, so that it can be multiplied as it stands."""


def total(parts: Iterable[FloatArray]) -> FloatArray:
    """Sum of arrays, at least one, without stacking them first.

    >>> total([np.array([1.0, 2.0]), np.array([3.0, 4.0])]).tolist()
    [4.0, 6.0]
    """
    return reduce(add, parts)


def largest(parts: Iterable[FloatArray]) -> FloatArray:
    """Largest of arrays, at least one, element by element; of ``table.T`` the largest of each row of a table.

    A row of a few numbers is what :func:`numpy.max` is slow at, and this is exactly the same.

    >>> largest(np.array([[1.0, 2.0], [4.0, 3.0]]).T).tolist()
    [2.0, 4.0]
    """
    return reduce(np.maximum, parts)


def as_float(value: ArrayLike) -> FloatArray:
    """The value as an array of floats."""
    return np.asarray(value, dtype=float)


def floats(*values: ArrayLike) -> list[FloatArray]:
    """Each argument as an array of floats."""
    return [as_float(value) for value in values]
