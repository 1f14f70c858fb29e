"""Rows of payloads as batches."""

from __future__ import annotations

import pytest

from streameval.payloads import PayloadRow
from streameval_server._payloads.row_batches import PayloadKind, batch_of_rows

NOW = 1_800_000_000_000_000


@pytest.mark.parametrize(
    ("known", "times"), [((None, None), []), ((5, None), [5, NOW]), ((5, 6), [5, 6])]
)
def test_labels_have_times_of_their_own(
    known: tuple[int | None, int | None], times: list[int]
) -> None:
    """A label without one became known as it came, where another has one."""
    rows = [PayloadRow("s", "a", label=True, label_time_us=time) for time in known]
    batch = batch_of_rows("s", PayloadKind.LABELS, rows, NOW)
    assert batch.labels.label_times_us == times
    assert batch.source_time_us == 0
