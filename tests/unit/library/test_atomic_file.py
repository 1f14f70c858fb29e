"""Files that are written atomically."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streameval.checks import write_atomically

if TYPE_CHECKING:
    from pathlib import Path


class _BrokenOffError(BaseException):
    pass


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    """With `replace`: an error leaves the old content, and what was left beside does not stand."""
    target = tmp_path / "a"
    target.write_text("old")
    (tmp_path / "a.partial").write_text("left")

    def fail() -> None:
        with write_atomically(target, replace=True) as partial:
            partial.write_text("half")
            raise _BrokenOffError

    with pytest.raises(_BrokenOffError):
        fail()
    assert target.read_text() == "old"
    with write_atomically(target, replace=True) as partial:
        partial.write_text("new")
    assert target.read_text() == "new"
    assert [each.name for each in tmp_path.iterdir()] == ["a"]
