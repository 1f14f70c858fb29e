"""Tensors as raw bytes: of the Open Inference Protocol in protobuf, and behind its JSON.

Both are little-endian and row by row. In JSON it is an extension, which Triton and KServe use
(https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_binary_data.md):
the body is the JSON, whose outputs say how many bytes each has, and then the bytes.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._common.values import shown

BINARY_SIZE = b'"binary_data_size"'
"""What the JSON of a body has where tensors follow it."""

MAX_VALUES = 1_000_000
"""Of a tensor: a value takes far more memory than its bytes."""

_TYPES: dict[str, str] = {
    "BOOL": "?",
    **{f"{sign}INT{8 * size}": f"<{code}{size}" for sign, code in (("", "i"), ("U", "u"))
       for size in (1, 2, 4, 8)},
    "FP16": "<f2",
    "BF16": "<u2",
    "FP32": "<f4",
    "FP64": "<f8",
}  # fmt: skip
"""NumPy's types of raw contents, by the protocol's names."""


def raw_values(name: str, datatype: str, raw: bytes) -> list[Any]:
    """Return a tensor's values, flat. O(bytes).

    Raises
    ------
    InvalidInputError
        When they are not of this datatype, or too many.

    Examples
    --------
    >>> raw_values("p", "FP32", bytes.fromhex("0000003f00000040"))
    [0.5, 2.0]
    """
    if datatype == "BYTES":
        return _texts(raw)
    code = _TYPES.get(datatype)
    size = 0 if code is None else np.dtype(code).itemsize
    if not size or len(raw) % size:
        problem = f"raw contents of {name}: {len(raw)} bytes of {datatype}"
        raise InvalidInputError(problem, field="body")
    if len(raw) > size * MAX_VALUES:
        problem = f"raw contents of {name}: more than {MAX_VALUES} values"
        raise InvalidInputError(problem, field="body")
    numbers = np.frombuffer(raw, np.dtype(code))
    if datatype == "BF16":  # the upper half of a float
        numbers = (numbers.astype(np.uint32) << 16).view(np.float32)
    values: list[Any] = numbers.tolist()
    return values


def _texts(raw: bytes) -> list[str]:
    """Return texts that are preceded by their lengths, four little-endian bytes each."""
    texts, at = [], 0
    while at < len(raw):
        end = at + 4 + int.from_bytes(raw[at : at + 4], "little")
        if end > len(raw) or at + 4 > len(raw):
            raise InvalidInputError("a text of raw contents ends after them", field="body")
        texts.append(raw[at + 4 : end].decode("utf-8", "replace"))
        at = end
    return texts


def read_binary_body(body: bytes) -> Any:
    """Return the JSON of a body with the tensors that follow it as their `data`. O(body).

    Raises
    ------
    InvalidInputError
        When the sizes in the JSON are not the bytes behind it.
    ValueError
        When the body does not begin with JSON.
    """
    # As latin-1 each byte is a character, and the brackets of UTF-8 are where they are.
    _, at = json.JSONDecoder().raw_decode(body.decode("latin-1"))
    value = json.loads(body[:at])
    outputs = value.get("outputs") if isinstance(value, dict) else None
    for output in outputs if isinstance(outputs, list) else ():
        parameters = output.get("parameters") if isinstance(output, dict) else None
        size = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
        if size is None:
            continue
        if type(size) is not int or not 0 <= size <= len(body) - at:
            message = f"binary_data_size is {shown(size)}, and {len(body) - at} bytes follow"
            raise InvalidInputError(message, field="body")
        name, datatype = str(output.get("name")), str(output.get("datatype"))
        output["data"] = raw_values(name, datatype, body[at : at + size])
        at += size
    if at != len(body):
        message = f"{len(body) - at} bytes follow the JSON and its tensors"
        raise InvalidInputError(message, field="body")
    return value
