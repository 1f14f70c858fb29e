"""Predictions wait for labels, and not for ever."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from streameval_server._core.id_room import WAIT_S, IdRoom
from streameval_server._model.errors import RequestError
from streameval_server._model.row_kinds import PredictionRows

MAX_IDS = 100_000


@pytest.mark.parametrize(("small", "is_let_in"), [(1, True), (MAX_IDS // 100, False)])
def test_few_labels_do_not_hold_large_batches_for_ever(
    monkeypatch: pytest.MonkeyPatch, small: int, is_let_in: bool
) -> None:
    """Small batches take the room that labels make; a large one waits while much is made."""
    monkeypatch.setattr(PredictionRows, "size", property(lambda rows: rows.scores))
    free = 0
    engine = SimpleNamespace(id_room=lambda _: (free, MAX_IDS))
    applier: Any = SimpleNamespace(engine=engine, applied_revision=0)
    room = IdRoom(applier)

    def check(size: int, now_s: float) -> None:
        rows: Any = object.__new__(PredictionRows)
        object.__setattr__(rows, "scores", np.int64(size))
        item: Any = SimpleNamespace(rows=rows, stream="s")
        room.check(item, now_s)

    def is_refused(now_s: float) -> bool:
        try:
            check(MAX_IDS // 10, now_s)
        except RequestError:
            return True
        return False

    refused = []
    for second in range(round(WAIT_S) + 2):
        free = small
        check(small, second)
        refused.append(is_refused(second))
    assert all(refused[: round(WAIT_S)])
    assert refused[-1] is not is_let_in
