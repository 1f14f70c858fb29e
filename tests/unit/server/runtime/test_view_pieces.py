"""What counts many rows does so in pieces: queries and the applier take turns in between."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest

from streameval.wire import SegmentCodes
from streameval_server import Limits
from streameval_server._core.applier import Applier
from streameval_server._core.engine import Engine
from streameval_server._core.entries import Entry
from streameval_server._log.rows import Kind
from streameval_server._model.row_kinds import CaseRows
from streameval_server._model.stream_settings import StreamSettings
from streameval_server._runtime.runtime import take_view
from streameval_server._state.stream_state import StreamState

NOW = 1_767_225_600_000_000
HOUR_US = 3_600_000_000
VALUES = ("a", "b", "c")


def batch(revision: int, rows: int, hours: float, stream: str = "s") -> Entry:
    rng = np.random.default_rng(revision)
    times = NOW - (rng.random(rows) * hours * HOUR_US).astype(np.int64)
    codes = rng.integers(0, 3, rows).astype(np.uint16)
    cases = CaseRows(
        rng.random(rows) < 0.2, rng.normal(size=rows), None, rows, rows, times,
        (SegmentCodes("key", VALUES, codes),),
    )  # fmt: skip
    return Entry(revision, NOW, Kind.BATCH, stream, "", 0, 0, cases)


class AppliersTurn:
    """The engine's lock, with an applier that waits for it: it applies a batch after each turn."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.settled: list[int] = []

    def waiting(self) -> int:
        state: StreamState = self.engine._streams["s"]
        return sum(pane.content.deferred.size > 0 for pane in state.counts.store.panes)

    def __enter__(self) -> None:
        self.before = self.waiting()

    def __exit__(self, *_error: object) -> None:
        self.settled.append(self.before - self.waiting())
        self.engine.apply([batch(self.engine.revision + 1, 5, 0.01)])


@pytest.mark.parametrize("rows", [5_000, 20_000])
def test_the_applier_has_its_turn_between_pieces(rows):
    """60 panes that wait are counted 4 at a time; the view has what was applied meanwhile."""
    engine = Engine(Limits())
    settings = StreamSettings(segment_keys=("key",))
    engine.apply([Entry(1, NOW, Kind.CREATE_STREAM, "s", "", 0, 0, None, change=settings)])
    engine.apply([batch(2, rows, 1.0)])
    lock = AppliersTurn(engine)
    panes = lock.waiting()
    assert panes == (0 if rows < 8_192 else 60)
    view = take_view(engine, lock, "s")
    first, *pieces = lock.settled[:-1]
    assert max(pieces) <= 4
    # The first turn counts collected rows into panes, and those of 4 panes.
    assert (first, sum(pieces)) == ((4, 56) if panes else (-56, 56))
    assert lock.settled[-1] <= 4
    assert view is not None
    assert view.evaluator._view().total == rows + 5 * (len(pieces) + 1)
    parts = [view.slice(("key", value)) for value in VALUES]
    assert sum(part.all_time._view().total for part in parts) == rows + 5 * (len(pieces) + 1)


def test_queries_are_answered_while_a_checkpoint_counts():
    """A checkpoint counts deferred rows in steps, and has no row that arrives in between."""
    engine, at_once = Engine(Limits()), Engine(Limits())
    settings = StreamSettings(segment_keys=("key",))
    for each in (engine, at_once):
        for revision, name in enumerate("st", 1):
            made = Entry(revision, NOW, Kind.CREATE_STREAM, name, "", 0, 0, None, change=settings)
            each.apply([made])
        each.apply([batch(3, 20_000, 1.0), batch(4, 100, 0.01, "t")])
    waiting = AppliersTurn(engine).waiting
    assert waiting() == 60
    applier = Applier(engine, Limits())
    applier.request_checkpoint()
    settled = []
    while applier.copied_checkpoint is None:
        before = waiting()
        assert applier.step()
        settled.append(before - waiting())
        applier.finish_step()
        if waiting():
            applier.push([batch(4 + len(settled), 5, 0.01)], 1)
            view = take_view(engine, nullcontext(), "t")
            assert view is not None
            assert view.evaluator.num_cases == 100
    assert sum(settled) == 60
    assert max(settled) <= 8
    checkpoint = applier.take_checkpoint()
    assert checkpoint is not None
    assert checkpoint.revision == 4
    assert dict(checkpoint.changed) == dict(at_once.checkpoint(0).changed)
    applier.finish()
    assert engine.revision > 4
