"""Tensors of the Open Inference Protocol (V2), of Triton's bytes, and of Seldon.

Numbers in JSON are nested, or flat with a `shape`: they are nested here, so that a selector finds
rows in both. Raw bytes are little-endian and row by row, in protobuf and, as an extension that
Triton and KServe use, behind the JSON of a body
(https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_binary_data.md):
its outputs say how many bytes each has.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NamedTuple

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._common.values import shown

BINARY_SIZE = b'"binary_data_size"'
"""What the JSON of a body has where tensors follow it."""

MAX_VALUES = 1_000_000
"""Values of a tensor: a value takes far more memory than its bytes."""

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

_SHAPE = r'"shape"\s*:\s*\['
"""The pattern begins with a text, which is found fast."""

_SHAPE_TEXT, _SHAPE_BYTES = re.compile(_SHAPE), re.compile(_SHAPE.encode())

_MAX_DIMENSIONS = 32
"""Dimensions of a tensor: to nest its numbers takes O(numbers) for each dimension."""

_CONTAINERS = frozenset({dict, list})
_NUMBERS = ("data", "values")
"""Where a tensor's numbers are: V2 outputs, and Seldon's `tensor`."""


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


def may_have_flat_tensors(body: bytes | str) -> bool:
    """Whether a body of JSON may have a tensor with a shape; False is certain. O(body).

    Looking for one in its value takes longer than reading it. A key that is written with an
    escape is not found, so a body with any escape may have one; so may one with a zero, of
    which UTF-16 and UTF-32 have many.
    """
    if isinstance(body, str):
        return "\\u" in body or _SHAPE_TEXT.search(body) is not None
    return b"\\u" in body or b"\0" in body or _SHAPE_BYTES.search(body) is not None


class ShapeProblem(NamedTuple):
    """Stands for the numbers of a tensor to which its shape cannot be applied.

    How many rows it has is then not known, so that none is read.

    Parameters
    ----------
    message : str
        What is wrong.
    """

    message: str


def nest_tensors(value: Any) -> None:
    """Nest every flat tensor in a value by its shape, in place. O(value).

    The numbers of a tensor that does not fit its shape become a `ShapeProblem`.
    """
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            # Numbers and texts, of which there are the most, have no tensor in them.
            waiting += [part for part in each if type(part) in _CONTAINERS]
        elif isinstance(each, dict):
            shape: Any = each.get("shape")
            for name, part in each.items():
                if type(part) not in _CONTAINERS:
                    continue
                if name not in _NUMBERS or type(part) is dict or not _is_shape(shape):
                    waiting.append(part)
                elif shape != [len(part)] or list in map(type, part):
                    each[name] = _nested(part, shape)


def _is_shape(value: Any) -> bool:
    """Whether a value is a list of numbers, or of texts of them as protobuf's JSON has."""
    return isinstance(value, list) and all(
        type(each) in (int, float)
        or (type(each) is str and len(each) < 20 and each.lstrip("-").isdecimal())
        for each in value
    )


def _nested(numbers: list[Any], shape: list[Any]) -> list[Any] | ShapeProblem:
    """Return numbers nested by their shape, which they may be already.

    The sender gives both, so no more is multiplied than there are numbers.
    """
    sizes = [each if type(each) is int else float(each) for each in shape[: _MAX_DIMENSIONS + 1]]
    if len(sizes) > _MAX_DIMENSIONS or not all(size >= 0 and size % 1 == 0 for size in sizes):
        return ShapeProblem(f"a tensor has the shape {shown(shape)}, which is not known sizes")
    if not numbers and 0 in sizes:
        return numbers
    if list in map(type, numbers):
        if _fits(numbers, [int(size) for size in sizes]):
            return numbers
        return ShapeProblem(f"a tensor is nested otherwise than its shape {shown(shape)} says")
    is_bounded = all(0 < size <= len(numbers) for size in sizes)
    known = [int(size) for size in sizes] if is_bounded else []
    if not is_bounded or math.prod(known) != len(numbers):
        return ShapeProblem(f"a tensor of the shape {shown(shape)} has {len(numbers)} values")
    for size in reversed(known[1:]):
        numbers = [numbers[at : at + size] for at in range(0, len(numbers), size)]
    return numbers


def _fits(numbers: list[Any], sizes: list[int]) -> bool:
    """Whether nested numbers have these sizes. O(numbers)."""
    level = [numbers]
    for size in sizes:
        if not all(isinstance(each, list) and len(each) == size for each in level):
            return False
        level = [part for each in level for part in each]
    return list not in map(type, level)
