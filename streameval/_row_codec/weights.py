"""Columns of weights and label probabilities as messages and back, as integer units of 2**-16.

Rows keep the quotient of the two, so this library writes weights only. A weight in units is
below 2**47, which a float64 holds exactly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._counts.weight_columns import check_units
from streameval._counts.weights import WEIGHT_UNITS

if TYPE_CHECKING:
    from streameval._common.arrays import IntArray
    from streameval.v1 import ingest_pb2

MAX_WEIGHT_BYTES = 8
"""Bytes of a weight."""


def encode_units(units: IntArray | None) -> list[float] | None:
    """Return weights as a repeated field. O(rows)."""
    if units is None:
        return None
    weights: list[float] = (units / WEIGHT_UNITS).tolist()
    return weights


def decode_units(
    rows: ingest_pb2.Cases | ingest_pb2.Labels, size: int, counts: IntArray | None, *, like: str
) -> IntArray | None:
    """Return the weights in units, divided by the label probabilities; None without both.

    O(rows). `like` is the column that has `size` rows. Raises InvalidInputError.
    """
    weights, shares = rows.weights, rows.label_probabilities
    if not weights and not shares:
        return None
    try:
        return check_units(
            np.array(weights, dtype=np.float64) if weights else None,
            None if not shares else shares[0] if len(shares) == 1 else np.array(shares),
            size=size,
            counts=counts,
            like=like,
        )
    except InvalidInputError as error:
        field = "label_probabilities" if error.field == "label_probability" else "weights"
        raise InvalidInputError(str(error), field=field, index=error.index) from None
