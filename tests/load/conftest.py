"""Servers of a known capacity, and helpers that read what they hold."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import grpc
import numpy as np
import psutil
import pytest
from google.rpc import error_details_pb2, status_pb2

from streameval.v1 import ingest_pb2, query_pb2, query_pb2_grpc, types_pb2

from ..crash.conftest import Process, disk, start_python

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Process", "disk", "start_python"]

ROWS = 1_000


@pytest.fixture
def start(start_python: Callable[..., Process]) -> Callable[..., Process]:
    """Return a function that starts ``python``."""
    return start_python


def batch(stream: str, number: int, *, rows: int = ROWS) -> ingest_pb2.Batch:
    """Return a batch of cases, columns as bytes: 8 KB for 1,000 rows."""
    rng = np.random.default_rng(number)
    labels = rng.random(rows) < 0.2
    cases = ingest_pb2.Cases(
        scores_f64le=np.round(rng.normal(labels.astype(float)), 3).astype("<f8").tobytes(),
        positives_bits=np.packbits(labels, bitorder="little").tobytes(),
    )
    return ingest_pb2.Batch(stream=stream, cases=cases)


def counted(address: str, stream: str, min_revision: int = 0) -> int:
    """Return how many cases a stream has."""
    with grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        chosen = types_pb2.Selection(stream=stream, min_revision=min_revision)
        request = query_pb2.GetSnapshotRequest(selection=chosen)
        stub = query_pb2_grpc.QueryServiceStub(channel)
        snapshot = stub.GetSnapshot(request, timeout=30).snapshot
    return snapshot.num_positive_ref + snapshot.num_negative_ref


def retry_delay_s(trailing: grpc.aio.Metadata) -> float | None:
    """Return RetryInfo's delay from a call's trailing metadata."""
    status = status_pb2.Status.FromString(trailing["grpc-status-details-bin"])
    for box in status.details:
        found = error_details_pb2.RetryInfo()
        if box.Unpack(found):
            return found.retry_delay.ToTimedelta().total_seconds()
    return None


def until(holds: Callable[[], bool], *, seconds: float = 30) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


async def resident_while(pid: int, work: asyncio.Future[None]) -> list[int]:
    """Return a process's memory ten times a second until some work is done."""
    process = psutil.Process(pid)
    found: list[int] = []
    while not work.done():
        found.append(process.memory_info().rss)
        await asyncio.wait((work,), timeout=0.1)
    await work
    return found
