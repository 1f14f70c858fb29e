"""The checks of a log: everything that a core reports of its streams and producers."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pytest
from google.protobuf.json_format import MessageToDict

from streameval_server._core.recovery import open_core
from streameval_server._log.entries import LogRow
from streameval_server._log.sqlite import SqliteStorage
from streameval_server._model.limits import Limits
from streameval_server._model.request_ids import PRODUCER_PREFIX
from streameval_server._state.pair_state import compare_counts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from streameval import Evaluator
    from streameval._uncertainty import PairCounts
    from streameval_server._core.recovery import ServerCore
    from streameval_server._state.coverage import PaneCoverage
    from streameval_server._state.views import SliceView, StreamView

LIMITS = Limits(max_cells=100, max_segment_values=3)
PRODUCERS = ("edge ü", "unary")
REQUESTS = ("create-held", "update-held", "delete-replaced")
"""The request ids of the log of version 3."""
METRICS = ("auc_roc", "auc_pr", "average_precision")

_FLOATING = {"state_bytes"}
"""Fields about memory, which a log does not determine."""


def copied(data: Path, directory: Path) -> Path:
    """Copy a log, so that it stays as it was written; return the copy."""
    for end in ("", "-acked"):
        shutil.copy(data / f"log.db{end}", directory / f"log.db{end}")
    return directory / "log.db"


def rows_and_parts(log: Path) -> tuple[list[LogRow], dict[str, bytes]]:
    """Return the rows of a log, and the parts of its checkpoint by name."""
    with closing(sqlite3.connect(log)) as connection:
        rows = [LogRow._make(row) for row in connection.execute("SELECT * FROM log")]
        parts = dict(connection.execute("SELECT part, data FROM part WHERE revision > 0"))
    return rows, parts


def expected(data: Path) -> dict[str, Any]:
    """Return what the version that wrote a log computed from it."""
    found: dict[str, Any] = json.loads((data / "expected.json").read_text(encoding="utf-8"))
    return found


def check_replay(
    log: Path,
    data: Path,
    state_hash: str,
    *,
    checkpoint: bool,
    **more: Callable[[ServerCore], dict[str, Any]],
) -> None:
    """Replay a log, from its checkpoint or from its first row: it gives what was computed then.

    Parameters
    ----------
    more
        What is compared beside `facts`, by its name in the file of what was computed.
    """
    if not checkpoint:
        with closing(sqlite3.connect(log)) as connection:
            connection.execute("DELETE FROM manifest")
            connection.commit()
    core = open_core(SqliteStorage(log), LIMITS)
    assert core.recovery.checkpoint_error is None
    assert (core.recovery.checkpoint_revision > 0) is checkpoint
    found = facts(core) | {name: read(core) for name, read in more.items()}
    same(json.loads(json.dumps(found)), expected(data))
    assert core.engine.state_hash() == state_hash
    core.storage.close()


def facts(core: ServerCore) -> dict[str, Any]:
    """Return what the core has, by stream, and the positions of its producers."""
    streams = {}
    for info in core.engine.streams():
        view = core.engine.view(info.name)
        assert view is not None
        streams[info.name] = _stream(view) | {"sources": _sources(core, info.name)}
    marks = {}
    for name in PRODUCERS:
        mark = core.committer.marks.get(name)
        assert mark is not None
        marks[name] = list(mark[:3])
    return {"revision": core.engine.revision, "streams": streams, "marks": marks}


def mark_facts(core: ServerCore) -> dict[str, Any]:
    """Return every annotation that the core has, as plain values."""
    views = {info.name: core.engine.view(info.name) for info in core.engine.streams()}
    return {
        name: [[each.number, each.time_us, each.text, each.create_us] for each in view.marks]
        for name, view in views.items()
        if view is not None
    }


def alarm_facts(core: ServerCore) -> dict[str, Any]:
    """Return every detector that the core has, as plain values."""
    return {
        info.name: {
            "waits_for": view.waits_for,
            "reference_us": list(view.reference_us),
            "since_us": view.since_us,
            "evidence": dict(view.evidence),
            "alarms": [each.to_dict() for each in view.alarms],
            "delivered": sorted(view.delivered),
            "left_out": view.left_out,
        }
        for info, view in core.engine.alarms()
    }


def pair_facts(core: ServerCore) -> dict[str, Any]:
    """Return every pair that the core has, with its figures, as plain values."""
    found = {}
    for info in core.engine.pairs.page(stream="", after="", limit=100):
        view = core.engine.pair_view(info.a, info.b)
        assert view is not None
        counts = view.counts()
        counters = MessageToDict(view.counters)
        counters.pop("stateBytes")
        found[info.key] = {
            "settings": json.loads(json.dumps(info.settings.to_fields())),
            "counters": counters,
            "evidence": sorted([name, *each] for name, each in view.evidence.items()),
            "seen": {str(number): list(each) for number, each in counts.total_seen.items()},
            "total": _pair(counts.totals[0]),
            "panes": {str(p.start_us): _pair(p.content.counts.get(0)) for p in counts.panes},
            "slices": {str(n): _pair(each) for n, each in counts.totals.items() if n},
        }
    return found


def _pair(counts: PairCounts | None) -> dict[str, Any] | None:
    if counts is None:
        return None
    grid = counts.grid
    return {
        "positives": counts.num_positives,
        "negatives": counts.num_negatives,
        "entries": [len(grid.negatives), len(grid.positives)],
        "is_cut": grid.cuts is not None,
    } | {name: repr(_difference(counts, name)) for name in METRICS}


def _difference(counts: PairCounts, metric: str) -> float:
    return compare_counts(counts, metric, None).comparison(0.95, anytime=False).difference


def delivery_facts(core: ServerCore) -> dict[str, Any]:
    """Return what the core remembers of the producers and requests of the log of version 3."""
    found = {}
    for name in (*PRODUCERS, "opened only", *(PRODUCER_PREFIX + each for each in REQUESTS)):
        mark = core.committer.marks.get(name)
        assert mark is not None, name
        found[name] = {
            "mark": list(mark[:3]),
            "refusals": [
                [each.sequence, each.revision, each.refused.message] for each in mark.refusals
            ],
            "checksums": mark.checksums.hex(),
        }
    return found


def _sources(core: ServerCore, name: str) -> dict[str, int]:
    return dict(core.committer.catalog[name].sources)


def _stream(view: StreamView) -> dict[str, Any]:
    settings = view.info.settings.to_fields()
    settings["segment_keys"] = list(settings["segment_keys"])
    slices = {"": _slice(view.whole)}
    for key in view.info.settings.segment_keys:
        for value in view.segments(key):
            found = view.slice((key, value))
            assert found is not None
            slices[f"{key}={value}"] = _slice(found)
    counters = {name: n for name, n in asdict(view.counters).items() if name not in _FLOATING}
    return {
        "create_us": view.info.create_us,
        "create_revision": view.info.create_revision,
        "settings": settings,
        "counters": counters,
        "slices": slices,
    }


def _slice(part: SliceView) -> dict[str, Any]:
    return {
        "all_time": _counts(part.all_time) | _coverage(part.coverage),
        "panes": [
            {"start_us": pane.start_us, "end_us": pane.end_us}
            | _counts(pane.evaluator)
            | _coverage(pane.coverage)
            for pane in part.panes
        ],
    }


def _counts(evaluator: Evaluator) -> dict[str, Any]:
    return {
        # The golden files' name for it, from before it was `num_scored`.
        "num_cases": evaluator.num_scored,
        "num_positive_ref": evaluator.num_positive_ref,
        "num_negative_ref": evaluator.num_negative_ref,
        "resolution": evaluator.resolution,
    } | {name: repr(getattr(evaluator, name)()) for name in METRICS}


def _coverage(coverage: PaneCoverage) -> dict[str, Any]:
    # The golden files' quantiles, from before a quantile was rounded up: of these ranks.
    size = len(coverage.delays)
    ranks = [int(quantile * (size - 1)) + 1 for quantile in (0.5, 0.99)]
    quantiles = coverage.delays.quantiles_us([rank / size for rank in ranks] if size else [])
    quantiles = quantiles or [None, None]
    return {"coverage": asdict(coverage.counts), "delays": list(map(repr, quantiles))}


def same(found: object, wanted: object, where: str = "") -> None:
    """Compare JSON values: floats within rounding, everything else exactly."""
    if isinstance(wanted, Mapping):
        assert isinstance(found, Mapping)
        assert set(found) == set(wanted), where
        for name, value in wanted.items():
            if name in METRICS:
                close = pytest.approx(float(value), rel=1e-12, nan_ok=True)
                assert float(found[name]) == close, f"{where}/{name}"
            else:
                same(found[name], value, f"{where}/{name}")
    elif isinstance(wanted, list):
        assert len(found) == len(wanted), where
        for at, (one, other) in enumerate(zip(found, wanted, strict=True)):
            same(one, other, f"{where}[{at}]")
    else:
        assert found == wanted, where
