"""Tensors as bytes behind the JSON of a response, as Triton and KServe write them.

Met in kserve#2672 (the logger shows riddles) and #3685, triton-inference-server#633, #1822, #4244
and #4722, openvino's model_server#1529 and #1762.
"""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

pytest.importorskip("jmespath", reason="needs the extra payloads")
from streameval import InvalidInputError
from streameval.payloads import PayloadMapping, read_event, read_rows


def body(*outputs: tuple[str, list[int], bytes], name: str = "p", rest: bytes = b"") -> bytes:
    """Return a response whose outputs have these datatypes, shapes and bytes."""
    tables = [
        {
            "name": name,
            "datatype": datatype,
            "shape": shape,
            "parameters": {"binary_data_size": len(raw)},
        }
        for datatype, shape, raw in outputs
    ]
    head = json.dumps({"id": "a", "outputs": tables}, ensure_ascii=False).encode()
    return head + b"".join(raw for _, _, raw in outputs) + rest


HEADERS = {"content-type": "application/octet-stream", "inference-header-content-length": "1"}


@pytest.mark.parametrize(
    ("datatype", "raw", "found"),
    [
        ("FP32", struct.pack("<2f", 0.5, 2.0), [0.5, 2.0]),
        ("FP64", struct.pack("<2d", 0.1, 0.9), [0.1, 0.9]),
        ("FP16", struct.pack("<2e", 0.5, 2.0), [0.5, 2.0]),
        ("BF16", bytes.fromhex("003f0040"), [0.5, 2.0]),
        ("INT64", struct.pack("<2q", -1, 2), [-1, 2]),
        ("BOOL", b"\1\0", [True, False]),
        ("UINT8", b'{"', [123, 34]),
        ("BYTES", struct.pack("<I2sI0s", 2, b"ab", 0, b""), ["ab", ""]),
    ],
)
def test_values_behind_the_json(datatype: str, raw: bytes, found: list[Any]) -> None:
    """Whatever the bytes look like, and with a name that is not ASCII."""
    for name in ("p", "Betrug\u00fc\u6771"):
        event = read_event(HEADERS, body((datatype, [2], raw), name=name))
        assert event.body["outputs"][0]["data"] == found
        assert event.body["outputs"][0]["name"] == name


def test_rows_of_the_second_output() -> None:
    """Tensors follow one another; each is nested by its shape."""
    classes, scores = struct.pack("<2q", 1, 0), struct.pack("<4f", 0.25, 0.75, 0.5, 0.5)
    mapping = PayloadMapping.of(
        {
            "preset": "kserve-v2",
            "stream": "s",
            "types": [],
            "score": "body.outputs[1].data",
            "class": 1,
        }
    )
    event = read_event(HEADERS, body(("INT64", [2], classes), ("FP32", [2, 2], scores)))
    assert [(row.id, row.score) for row in read_rows(mapping, event).rows] == [
        ("a/0", 0.75),
        ("a/1", 0.5),
    ]


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (body(("FP32", [2], b"12345678"))[:-1], "binary_data_size is 8, and 7 bytes follow"),
        (body(("FP32", [2], b"12345678"), rest=b"!"), "1 bytes follow the JSON and its tensors"),
        (body(("FP32", [2], b"1234567")), "raw contents of p: 7 bytes of FP32"),
        (body(("FP99", [2], b"12345678")), "raw contents of p: 8 bytes of FP99"),
        (body(("BYTES", [1], b"\xff\0\0\0")), "a text of raw contents ends after them"),
        (body(("UINT8", [1_000_001], b"1" * 1_000_001)), "more than 1000000 values"),
        (b'{"binary_data_size": ', "the body is not JSON"),
        (b'"binary_data_size" 7', "bytes follow the JSON"),
    ],
)
def test_bytes_that_do_not_fit_are_refused(sent: bytes, message: str) -> None:
    """The event as a whole: which bytes are whose is not known."""
    with pytest.raises(InvalidInputError, match=message):
        read_event(HEADERS, sent)
