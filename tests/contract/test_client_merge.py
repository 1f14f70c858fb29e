"""States of other evaluators, merged through the client: each epoch counts once."""

from __future__ import annotations

import contextlib
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pytest

from streameval import Evaluator, InvalidInputError, WindowedEvaluator
from streameval.client import Client, MergeState, UnavailableError
from streameval_server import Settings
from streameval_server.testing import running_server

if TYPE_CHECKING:
    from pathlib import Path

HOUR = timedelta(hours=1)


def test_merged_states_count_once(client: Client) -> None:
    """Evaluators, windows and states for slices; a repeated epoch changes nothing."""
    client.create_stream("mer/ged", segment_keys=["country"])
    stream = client.stream("mer/ged")
    edge = Evaluator()
    edge.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.8, 0.7, 0.6])
    now = datetime.now(UTC)
    revision = stream.merge(edge, source="edge-7", epoch=1)
    assert stream.snapshot().revision >= revision
    stream.merge(edge, source="edge-7", epoch=1)
    assert stream.snapshot().num_cases == 4
    stream.merge(edge, source="edge-7", epoch=2, at=now, segments={"country": "US"})
    assert stream.snapshot().num_cases == 8
    assert stream.snapshot(window=HOUR).num_cases == 4
    assert stream.snapshot(segment=("country", "US")).num_cases == 4
    windowed = WindowedEvaluator()
    for hours in range(5):
        windowed.add_case(True, float(hours), at=now - hours * HOUR)
    stream.merge(windowed, source="job", epoch=1)
    assert stream.snapshot(window=2.5 * HOUR).num_cases == 7
    stream.merge(
        [MergeState(edge, now, {"country": "DE"}), MergeState(edge, None)], source="job", epoch=2
    )
    assert stream.snapshot().num_cases == 21
    big = Evaluator()
    big.add_cases(labels=np.arange(200_000) % 2, scores=np.random.default_rng(1).random(200_000))
    stream.merge(big, source="big", epoch=1)
    assert stream.snapshot().num_cases == 200_021
    for wrong, text in (
        ({"states": [3]}, "states must be MergeStates, got int at index 0"),
        ({"states": 3}, "merge takes"),
        ({"states": edge, "epoch": 0}, "epoch must be"),
        ({"states": edge, "source": ""}, "source must not be empty"),
        ({"states": windowed, "at": now}, "only a single Evaluator"),
        ({"states": [], "segments": {"country": "US"}}, "states carry their own"),
    ):
        with pytest.raises(InvalidInputError, match=text):
            stream.merge(**({"source": "s", "epoch": 9} | wrong))


def test_a_merge_that_was_cut_off_is_repeated(free_address: str, tmp_path: Path) -> None:
    """A merge with an unknown outcome is repeated, and counts once."""
    edge = Evaluator()
    edge.add_cases(labels=np.arange(1000) % 2, scores=np.arange(1000.0))
    settings = Settings(listen=free_address, data=tmp_path)
    with Client(free_address) as client:
        stream = client.stream("mer/ged")
        with pytest.raises(UnavailableError):
            stream.merge(edge, source="edge", epoch=1, timeout_s=0.3)

        def serve() -> None:
            time.sleep(0.5)
            served.enter_context(running_server(settings))

        with contextlib.ExitStack() as served:
            starting = threading.Thread(target=serve)
            starting.start()
            stream.merge(edge, source="edge", epoch=1)
            starting.join()
            assert stream.snapshot().num_cases == 1000
        with running_server(settings):
            stream.merge(edge, source="edge", epoch=1)
            assert stream.snapshot().num_cases == 1000
