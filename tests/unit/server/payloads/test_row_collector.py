"""Rows of concurrent requests in one batch: each request has its own outcome."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("jmespath", reason="needs the extra payloads")
from streameval.payloads import PayloadRow
from streameval_server._model.errors import BATCH_REFUSED, Code, RequestError
from streameval_server._payloads import row_collector as module
from streameval_server._payloads.row_batches import PayloadKind
from streameval_server._payloads.row_collector import RowCollector

if TYPE_CHECKING:
    from collections.abc import Sequence

KIND = PayloadKind.PREDICTIONS


class Store:
    """Stores batches: refuses those with a row whose id is bad, or of more than some rows."""

    def __init__(self, max_rows: int = 1 << 30) -> None:
        self.max_rows = max_rows
        self.calls = 0
        self.stored: list[str] = []
        self.fails = False

    async def __call__(self, stream: str, kind: PayloadKind, rows: Sequence[PayloadRow]) -> int:
        assert (stream, kind) == ("s", KIND)
        self.calls += 1
        await asyncio.sleep(0)
        if self.fails:
            raise RequestError(
                Code.UNAVAILABLE, "the disk", reason="STORAGE_FAILED", retry_after_s=1
            )
        if any(row.id.startswith("bad") for row in rows):
            raise RequestError(Code.INVALID_ARGUMENT, "a bad row", reason=BATCH_REFUSED)
        if len(rows) > self.max_rows:
            raise RequestError(Code.RESOURCE_EXHAUSTED, "too many", reason=BATCH_REFUSED)
        self.stored += [row.id for row in rows]
        return len(self.stored)


def rows(*ids: str) -> list[PayloadRow]:
    return [PayloadRow("s", each, 0.5) for each in ids]


async def outcomes(collector: RowCollector, *requests: list[PayloadRow]) -> list[list[object]]:
    """Return what requests that come at once get: revisions, or messages."""
    found = await asyncio.gather(*(collector.add("s", KIND, each) for each in requests))
    return [[str(x) if isinstance(x, RequestError) else "ok" for x in each] for each in found]


def test_a_bad_row_is_told_to_its_sender_only() -> None:
    """Each row is stored once; what is bad stands alone."""
    store = Store()

    async def run() -> None:
        requests = [rows(f"{number}-a", f"{number}-b") for number in range(40)]
        requests[7] = rows("7-a", "bad")
        requests[23] = rows("bad1", "bad2")
        found = await outcomes(RowCollector(store), *requests)
        expected = [["ok", "ok"]] * 40
        expected[7] = ["ok", "a bad row"]
        expected[23] = ["a bad row"] * 2
        assert found == expected

    asyncio.run(run())
    assert sorted(store.stored) == sorted(
        {f"{number}-{x}" for number in range(40) for x in "ab"} - {"7-b", "23-a", "23-b"}
    )


def test_a_batch_that_is_too_long_is_halved() -> None:
    """Rows with long segments exceed a batch's bytes before its rows."""
    store = Store(max_rows=3)
    ids = [str(number) for number in range(17)]
    (found,) = asyncio.run(outcomes(RowCollector(store), rows(*ids)))
    assert found == ["ok"] * 17
    assert store.stored == ids


def test_a_failing_disk_is_everybodys_answer_and_is_not_tried_by_halves() -> None:
    """One attempt for the rows that waited; afterwards rows are stored again."""
    store = Store()
    store.fails = True

    async def run() -> None:
        collector = RowCollector(store)
        assert await outcomes(collector, rows("a", "b"), rows("c")) == [
            ["the disk"] * 2,
            ["the disk"],
        ]
        assert store.calls <= 2
        store.fails = False
        assert await outcomes(collector, rows("a")) == [["ok"]]

    asyncio.run(run())


def test_batches_are_of_limited_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Further rows are in the next batch, in order."""
    monkeypatch.setattr(module, "MAX_COLLECTED_ROWS", 4)
    store = Store(max_rows=4)
    requests = [rows(str(number)) for number in range(30)]
    found = asyncio.run(outcomes(RowCollector(store), *requests))
    assert found == [["ok"]] * 30
    assert store.stored == [str(number) for number in range(30)]
    assert store.calls <= 10


def test_a_sender_that_goes_away_keeps_nobody_waiting() -> None:
    """Its rows are stored all the same."""
    store = Store()

    async def run() -> None:
        collector = RowCollector(store)
        first = asyncio.create_task(collector.add("s", KIND, rows("a")))
        second = asyncio.create_task(collector.add("s", KIND, rows("b")))
        await asyncio.sleep(0)
        first.cancel()
        assert await second != []
        with pytest.raises(asyncio.CancelledError):
            await first

    asyncio.run(run())
    assert store.stored == ["a", "b"]
