"""The types of numpy arrays of counts, scores and metrics."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
Counts = IntArray | FloatArray
"""Numbers of cases, or sums of their weights."""
