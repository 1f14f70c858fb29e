"""The bytes of windows and joiners of every version stay readable, and are still written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from streameval import Evaluator, LabelJoiner, WindowedEvaluator
from streameval._joining import codec
from streameval.kernel import Joiner, JoinSettings

DATA = Path(__file__).parent / "data"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


def windowed() -> WindowedEvaluator:
    """Panes of every width, with misses and repeated scores."""
    ev = WindowedEvaluator(pane=5 * MINUTE, retention=20 * DAY, resolution=10, max_cells=64)
    ages = np.arange(300) ** 2 // 4
    ev.add_cases(
        labels=np.arange(300) % 5 == 0,
        scores=np.arange(300) * 7 % 100 / 64 - 0.5,
        at=[NOON - int(age) * MINUTE for age in ages],
    )
    ev.add_misses(3, at=NOON)
    ev.add_negative_misses(4, at=NOON - DAY)
    return ev


def joiner() -> Joiner:
    """Ids in every state, with segment codes and operations that had no effect."""
    made = Joiner(JoinSettings(7_200_000_000, 600_000_000, 40, "drop", "negative"), keys=2)
    ids = [b"id-%d" % number for number in range(30)]
    columns = {
        "scores": np.arange(30) / 8 - 1,
        "event_us": np.arange(30) * 1_000_000 + 10**15,
        "codes": np.arange(60, dtype=np.uint16).reshape(30, 2),
    }
    made.predict(ids, now_us=10**15 + 30_000_000, **columns)
    labelled = [*ids[:10], b"early", b"early", ids[0]]
    positives = np.arange(len(labelled)) % 3 == 0
    made.label(labelled, positives=positives, now_us=10**15 + 60_000_000)
    made.retract([ids[1], ids[20], b"unknown"], now_us=10**15 + 60_000_000)
    return made


def label_joiner() -> LabelJoiner:
    """Coverage by pane and score, with the panes themselves."""
    made = LabelJoiner(WindowedEvaluator(), ttl=DAY, max_pending=1000, orphans="miss")
    ids = [f"prediction {number}" for number in range(40)]
    times = [NOON + number * 9 * MINUTE for number in range(40)]
    made.log_cases(ids=ids, scores=np.arange(40) ** 2 / 64, at=times)
    made.label_cases(ids=ids[::2], labels=np.arange(20) > 12, at=times[-1])
    made.retract("prediction 4", at=times[-1])
    made.label("never predicted", True, at=times[-1])
    made.advance(times[-1] + 2 * DAY)
    return made


def plain_label_joiner() -> LabelJoiner:
    """Into an evaluator of all time."""
    made = LabelJoiner(Evaluator(), ttl=DAY)
    made.log_cases(ids=["a", b"b", "ü"], scores=[0.5, -1.5, 3], at=NOON)
    made.label("b", True, at=NOON)
    return made


def clustered_label_joiner() -> LabelJoiner:
    """Predictions that wait, were labelled and relabelled, each with the group of its cluster."""
    made = LabelJoiner(WindowedEvaluator(cluster_groups=8), ttl=DAY, relabel_ttl=DAY)
    ids = [f"prediction {number}" for number in range(30)]
    users = [f"user {number // 3}" for number in range(30)]
    made.log_cases(ids=ids, scores=np.arange(30) / 32, at=NOON, clusters=users)
    made.label_cases(ids=ids[::2], labels=np.arange(15) > 9, at=NOON + MINUTE)
    made.label(ids[0], True, at=NOON + MINUTE)
    made.label("early", True, at=NOON + MINUTE)
    return made


def weighted_windows() -> WindowedEvaluator:
    """Panes with weights beside panes without, misses, and a removal."""
    ev = windowed()
    weights = 1 + np.arange(120) % 7 / 64
    columns = {"labels": np.arange(120) % 4 == 0, "scores": np.arange(120) % 50 / 32 - 0.5}
    times = [NOON - int(age) * MINUTE for age in np.arange(120) * 11]
    ev.add_cases(**columns, weights=weights, at=times)
    ev.add_case(True, 0.75, label_probability=0.3, at=NOON - 30 * MINUTE)
    ev.remove_case(False, columns["scores"][1], weight=weights[1], at=times[1])
    return ev


def weighted_label_joiner() -> LabelJoiner:
    """Labels with weights: early, repeated, changed, retracted, expired; and one without."""
    made = LabelJoiner(WindowedEvaluator(), ttl=DAY, relabel_ttl=DAY, expired="negative")
    ids = [f"prediction {number}" for number in range(40)]
    times = [NOON + number * 9 * MINUTE for number in range(40)]
    weights = 1 + np.arange(20) % 9 / 16
    made.label("prediction 39", True, weight=0.5, at=NOON)
    made.label("never predicted", True, weight=7, at=times[-1])
    made.log_cases(ids=ids, scores=np.arange(40) ** 2 / 64, at=times)
    made.label_cases(ids=ids[::2], labels=np.arange(20) > 12, weights=weights, at=times[-1])
    made.label_cases(ids=ids[:3:2], labels=[1, 1], weights=weights[:2], at=times[-1])
    made.label("prediction 5", True, label_probability=0.3, at=times[-1])
    made.label("prediction 7", False, at=times[-1])
    made.retract("prediction 4", at=times[-1])
    made.advance(times[30] + DAY)
    return made


WINDOWS = WindowedEvaluator.to_bytes, WindowedEvaluator.from_bytes
LABEL_JOINER = LabelJoiner.to_bytes, LabelJoiner.from_bytes
FORMS = {
    "windowed-1": (windowed, *WINDOWS),
    "windowed-1-weights": (weighted_windows, *WINDOWS),
    "joiner-1": (joiner, codec.encode_joiner, partial(codec.decode_joiner, keys=2)),
    "label-joiner-1": (label_joiner, *LABEL_JOINER),
    "label-joiner-1-plain": (plain_label_joiner, *LABEL_JOINER),
    "label-joiner-1-clusters": (clustered_label_joiner, *LABEL_JOINER),
    "label-joiner-1-weights": (weighted_label_joiner, *LABEL_JOINER),
}


def write() -> None:
    """Write the golden files."""
    for name, (make, encode, _) in FORMS.items():
        (DATA / f"{name}.bin").write_bytes(encode(make()))


@pytest.mark.parametrize("name", FORMS)
def test_golden_states(name: str) -> None:
    """The bytes of format 1 are readable, equal to today's, and written again."""
    make, encode, decode = FORMS[name]
    data = (DATA / f"{name}.bin").read_bytes()
    assert data[4:6] == b"\1\0"
    assert encode(decode(data)) == data
    assert encode(make()) == data
