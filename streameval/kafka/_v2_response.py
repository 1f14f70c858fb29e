"""Responses of the Open Inference Protocol (V2) as protobuf, which Seldon Core 2 writes.

The schema is built here from the protocol's field numbers
(https://github.com/kserve/open-inference-protocol, read in 2026), so that no generated module
of another package is needed, of which a process may load only one.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from streameval._common.errors import InvalidInputError
from streameval.payloads import check_fields
from streameval.payloads._tensors import MAX_VALUES, raw_values

_PACKAGE = "streameval.kafka.v2"
_STRING, _BYTES, _BOOL, _FLOAT, _DOUBLE = 9, 12, 8, 2, 1
_INT32, _INT64, _UINT32, _UINT64, _MESSAGE = 5, 3, 13, 4, 11
_OPTIONAL, _REPEATED = 1, 3

_CONTENTS = (
    ("bool_contents", 1, _BOOL),
    ("int_contents", 2, _INT32),
    ("int64_contents", 3, _INT64),
    ("uint_contents", 4, _UINT32),
    ("uint64_contents", 5, _UINT64),
    ("fp32_contents", 6, _FLOAT),
    ("fp64_contents", 7, _DOUBLE),
    ("bytes_contents", 8, _BYTES),
)
_HOLDERS: dict[int, Any] = {5: {5: {}}}
"""The fields that hold messages, for `check_fields`: outputs, and contents in them."""

_MAX_OUTPUTS = 1_000
"""An empty output has two bytes in the message, and takes some 400 as a value."""

_MAX_DIMENSIONS = 64
"""Dimensions of a shape that are handed on: more than a tensor may have, so that its reader
still refuses a longer shape."""


def read_v2_response(data: bytes) -> dict[str, Any]:
    """Return a response as its JSON form has it: flat `data` and a `shape`. O(data).

    Raises
    ------
    InvalidInputError
        When it is no such message.
    """
    check_fields(data, _HOLDERS)
    message = _response_class()()
    try:
        message.ParseFromString(data)
    except DecodeError:
        problem = "the body is no response of the Open Inference Protocol in protobuf"
        raise InvalidInputError(problem, field="body") from None
    if len(message.outputs) > _MAX_OUTPUTS:
        problem = f"a response has more than {_MAX_OUTPUTS} outputs"
        raise InvalidInputError(problem, field="body")
    raw = list(message.raw_output_contents)
    if raw and len(raw) != len(message.outputs):
        problem = f"{len(raw)} raw contents for {len(message.outputs)} outputs"
        raise InvalidInputError(problem, field="body")
    outputs = []
    for place, output in enumerate(message.outputs):
        values = _values(output, raw[place] if raw else None)
        outputs.append(
            {
                "name": output.name,
                "datatype": output.datatype,
                "shape": list(output.shape[:_MAX_DIMENSIONS]),
                "data": values,
            }
        )
    return {
        "model_name": message.model_name,
        "model_version": message.model_version,
        "id": message.id,
        "outputs": outputs,
    }


def _values(output: Any, raw: bytes | None) -> list[Any]:
    if raw is None:
        for name, _, kind in _CONTENTS:
            contents = getattr(output.contents, name)
            if len(contents) > MAX_VALUES:
                problem = f"the contents of {output.name}: more than {MAX_VALUES} values"
                raise InvalidInputError(problem, field="body")
            values = list(contents)
            if values:
                return [_text(each) for each in values] if kind == _BYTES else values
        return []
    return raw_values(output.name, output.datatype, raw)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


@cache
def _response_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(
        name="streameval/kafka/v2.proto", package=_PACKAGE, syntax="proto3"
    )
    contents = file.message_type.add(name="Contents")
    for name, number, kind in _CONTENTS:
        contents.field.add(name=name, number=number, type=kind, label=_REPEATED)
    output = file.message_type.add(name="Output")
    output.field.add(name="name", number=1, type=_STRING, label=_OPTIONAL)
    output.field.add(name="datatype", number=2, type=_STRING, label=_OPTIONAL)
    output.field.add(name="shape", number=3, type=_INT64, label=_REPEATED)
    output.field.add(
        name="contents", number=5, type=_MESSAGE, label=_OPTIONAL, type_name=f".{_PACKAGE}.Contents"
    )
    response = file.message_type.add(name="Response")
    for number, name in enumerate(("model_name", "model_version", "id"), start=1):
        response.field.add(name=name, number=number, type=_STRING, label=_OPTIONAL)
    response.field.add(
        name="outputs", number=5, type=_MESSAGE, label=_REPEATED, type_name=f".{_PACKAGE}.Output"
    )
    response.field.add(name="raw_output_contents", number=6, type=_BYTES, label=_REPEATED)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.Response"))
