"""Batches, and what decoding them returns."""

from __future__ import annotations

import pytest

from streameval.v1 import ingest_pb2 as pb
from streameval_server import Limits
from streameval_server._batch.decode import decode
from streameval_server._model.errors import Refused, RefusedError
from streameval_server._model.stream_settings import DEFAULTS, StreamSettings

LIMITS = Limits(max_batch_rows=8, max_batch_bytes=1000)
NOW = 1_800_000_000_000_000
SETTINGS = StreamSettings(segment_keys=("country",))


def case_batch(scores=(0.9, 0.1, 0.1), positives=(True, False, False), **columns):
    cases = pb.Cases(scores=scores, positives=positives, **columns)
    return pb.Batch(sequence=1, stream="fraud/v3", cases=cases)


def column(key="country", values=("US",), codes=(0,)):
    return pb.SegmentColumn(key=key, values=values, codes=codes)


def decoded(batch, nbytes=100, settings=DEFAULTS):
    return decode(batch, nbytes, NOW, LIMITS, settings)


def refusal(batch, nbytes=100, settings=DEFAULTS) -> Refused:
    with pytest.raises(RefusedError) as caught:
        decoded(batch, nbytes, settings)
    return caught.value.refused
