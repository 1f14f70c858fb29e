"""Early expiry is told at once, by stream, and at most once a minute."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from streameval_server._runtime.early_expiry import EarlyExpiry

if TYPE_CHECKING:
    import pytest

    from streameval_server._core.engine import Engine


def test_each_line_has_what_the_last_did_not(caplog: pytest.LogCaptureFixture) -> None:
    """What had expired before the start is not told, what expired between two lines is not lost."""
    engine = SimpleNamespace(expired_early={"old": 7})
    told = EarlyExpiry(cast("Engine", engine))
    told.tell(100.0)
    assert caplog.messages == told.warnings() == []
    engine.expired_early |= {"fraud/v3": 1_200, "old": 8}
    told.tell(101.0)
    assert [each.partition(" predictions")[0] for each in caplog.messages] == [
        "stream fraud/v3: 1,200",
        "stream old: 1",
    ]
    assert "streameval streams update fraud/v3 --max-pending" in caplog.messages[0]
    engine.expired_early["old"] = 9
    told.tell(160.0)
    assert len(caplog.messages) == 2
    told.tell(161.0)
    assert caplog.messages[2].startswith("stream old: 1 predictions")
    assert told.warnings()[1].startswith("stream old: 2 predictions")


def test_few_streams_are_named(caplog: pytest.LogCaptureFixture) -> None:
    engine = SimpleNamespace(expired_early={})
    told = EarlyExpiry(cast("Engine", engine))
    engine.expired_early = {f"s{number}": number for number in range(1, 9)}
    told.tell(1.0)
    assert len(caplog.messages) == 6
    assert caplog.messages[0].startswith("stream s8: 8 predictions")
    assert caplog.messages[5].startswith("3 more streams: 6 predictions")
