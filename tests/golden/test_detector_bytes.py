"""The bytes of a detector stay readable, and are still written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from streameval import DriftDetector, Evaluator

FILE = Path(__file__).parent / "data" / "detector-1.bin"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def rows(number: int, step: int) -> dict[str, list[object]]:
    """Return rows whose scores and labels go together less, the larger the step."""
    order = np.arange(number)
    labels = order % 3 == 0
    scores = (order * 7 % 32 + 20 * (labels & (order % step != 0))) / 64
    return {"labels": labels.tolist(), "scores": scores.tolist()}


def detector() -> DriftDetector:
    """Return one with alarms acknowledged and open, segments, clusters, panes that wait."""
    reference = Evaluator(resolution=12, scale="probability")
    reference.add_cases(**rows(960, 97))
    made = DriftDetector(
        reference,
        watch=("auc_roc", "flagged", "calibration"),
        tolerance={"auc_roc": 0.0, "flagged": 0.25, "calibration": 0.125},
        mean_time_to_false_alarm=timedelta(days=2),
        threshold=0.5,
        pane=10 * MINUTE,
        maturity=20 * MINUTE,
        clusters=True,
        segments={"country": {"DE": reference, "FR": reference}},
    )
    for hour in range(20):
        at = [NOON + timedelta(hours=hour) + minute * MINUTE for minute in range(60)]
        made.add_cases(
            **rows(60, 2),
            at=at,
            clusters=[row % 7 for row in range(60)],
            segments={"country": ["DE" if row % 2 else "FR" for row in range(60)]},
        )
        if hour == 10 and made.alarms:
            made.acknowledge(1, at=made.now)
    return made


def write() -> None:
    """Write the golden file."""
    FILE.write_bytes(detector().to_bytes())


def test_a_detector_of_format_1_is_read() -> None:
    data = FILE.read_bytes()
    found = DriftDetector.from_bytes(data)
    assert data[4:6] == b"\1\0"
    assert found.to_bytes() == data
    assert [(each.number, each.watch, each.is_open) for each in found.alarms] == [
        (1, "auc_roc", False),
        (2, "auc_roc", True),
    ]
    assert found.now == NOON + timedelta(hours=19, minutes=59)


def test_a_detector_is_still_written_so() -> None:
    data = FILE.read_bytes()
    made = detector()
    assert made.to_bytes() == data
    assert made.alarms == DriftDetector.from_bytes(data).alarms
