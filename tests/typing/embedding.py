"""How the library is used, for the type checker: never run, only checked."""

from __future__ import annotations

from typing import assert_type

import numpy as np
import numpy.typing as npt

import streameval
from streameval import Evaluator, Interval, RocHull, Snapshot, functional
from streameval.client import Client
from streameval.v1 import ingest_pb2


def embed(scores: npt.NDArray[np.float32], labels: list[int]) -> float:
    """Add columns of any type; metrics are floats."""
    evaluator = Evaluator(resolution=12, scale="probability", max_cells=16_384)
    evaluator.add_case(True, 0.93)
    evaluator.add_cases(labels=labels, scores=scores)
    both = evaluator + Evaluator.from_bytes(evaluator.to_bytes())
    assert_type(both, Evaluator)
    assert_type(both.roc_hull(), RocHull)
    assert_type(both.interval("auc_pr"), Interval)
    lower, upper = both.interval()
    assert_type((lower, upper), tuple[float, float])
    both.add_cases(labels, scores)  # type: ignore[call-arg, arg-type]
    streameval.Evalutor()  # type: ignore[attr-defined]
    assert_type(functional.auc_pr(labels=labels, scores=scores), float)
    assert_type(both.bounds("auc_roc")[0], float)
    snapshot = both.snapshot()
    assert_type(snapshot, Snapshot)
    return snapshot.auc_pr


def stream(address: str) -> Snapshot:
    """Query a stream: it returns the library's own objects."""
    with Client(address) as client:
        events = client.stream("fraud/v3")
        events.add_case(False, 0.1)
        events.add_cases(labels=np.array([True]), scores=[0.4])
        events.flush(timeout_s=5.0)
        assert_type(events.evaluator(), Evaluator)
        return events.snapshot()


def message() -> bytes:
    """Build a message: the generated code is typed."""
    cases = ingest_pb2.Cases(scores=[0.4], positives=[True])
    return ingest_pb2.Batch(sequence=1, stream="fraud/v3", cases=cases).SerializeToString()
