"""Snapshots of many streams: how their names are checked."""

from __future__ import annotations

import pytest

from streameval._common import names as _names
from streameval.v1 import query_pb2
from streameval_server._queries.overview import MAX_STREAMS, parse_overview_request

from .conftest import invalid_field


class Pattern:
    """Stands in for the pattern of names and records the names that it checks."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._pattern = _names._STREAM

    def match(self, name: str) -> object:
        self.asked.append(name)
        return self._pattern.match(name)


def test_a_name_that_is_repeated_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only distinct names count for the limit, so there may be any number of them."""
    pattern = Pattern()
    monkeypatch.setattr(_names, "_STREAM", pattern)
    names = ["b", *["a"] * 10 * MAX_STREAMS, "b"]
    assert parse_overview_request(query_pb2.WatchSnapshotsRequest(streams=names)).streams == (
        "b",
        "a",
    )
    assert pattern.asked == ["b", "a"]


def test_a_bad_name_is_found_where_it_stands_first() -> None:
    """The error's index counts the names as they were sent."""
    request = query_pb2.BatchGetSnapshotsRequest(streams=["a", "a", "b//", "a", "b//"])
    assert invalid_field(lambda: parse_overview_request(request)) == (
        "streams[2]",
        "stream name must be [A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*, got 'b//'",
    )
