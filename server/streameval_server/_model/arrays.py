"""The types of the server's columns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
CodeArray = npt.NDArray[np.uint16]
"""Codes of segments, and groups of clusters."""
WideCodes = npt.NDArray[np.uint32]
"""Codes of the values of a batch, which may be more."""
ClusterChecksums = npt.NDArray[np.uint32]
EventTimes = int | IntArray | None
"""In microseconds since 1970: one for all rows, one for each, or none."""
