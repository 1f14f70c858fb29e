"""Summaries that one server leaves to the next: believed only where nothing can be different."""

from __future__ import annotations

import logging
import math
import threading
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from streameval.v1 import overview_pb2, types_pb2, verdict_pb2
from streameval_server._log.acked_revision import AckedRevision
from streameval_server._queries import stream_summaries, summary_file
from streameval_server._queries.query_engine import QueryEngine
from streameval_server._queries.stream_summaries import WARM_SPAN, StreamSummaries
from streameval_server._queries.summary_file import KeptSummary, SummaryFile

from .conftest import HOUR, NOW, View
from .summaries import Server, stream

DAY = timedelta(days=1)
END = AckedRevision(7, 0xDEADBEEF)
SEED = 31


def named(name: str, seed: int = SEED) -> View:
    """Return a stream with cases; another seed has others."""
    return stream(np.random.default_rng(seed), name)


def server_with(file: SummaryFile, *views: View) -> Server:
    """Return a server that has computed nothing, and the file of its data directory."""
    server = Server(*views)
    server.summaries = StreamSummaries(
        QueryEngine(server.view, lambda: server.clock_us),
        server.revisions,
        visible=lambda: server.revision,
        clock_us=lambda: server.clock_us,
        file=file,
    )
    return server


@pytest.fixture
def file(tmp_path: Path) -> SummaryFile:
    """Return the file of an empty data directory."""
    return SummaryFile(tmp_path / "streameval.db", WARM_SPAN.span_us)


def first_list(server: Server) -> overview_pb2.ListStreamSummariesResponse:
    """Return the list of a server that has just read the file, without computing."""
    server.summaries.restore(END)
    server.read.clear()
    table = server.summaries.table(WARM_SPAN)
    table.scan()
    found = overview_pb2.ListStreamSummariesResponse(
        num_pending=table.num_pending, num_outdated=table.num_outdated
    )
    found.summaries.extend(entry.message() for entry in table.entries)
    return found


def stopped(file: SummaryFile, *views: View) -> Server:
    """Return a server that listed streams and stopped."""
    server = server_with(file, *views)
    server.list(window=DAY, order_by="name")
    server.summaries.keep(END)
    return server


def test_a_list_is_complete_at_once_after_a_stop(file: SummaryFile) -> None:
    """The same summaries, orders and evidence, and no stream is read."""
    views = [named(f"m{number}", number) for number in range(6)]
    before = stopped(file, *views)
    after = server_with(file, *views)
    after.summaries.restore(END)
    after.read.clear()
    for by in ("alarms", "name", "auc_roc", "volume", "newest", "change"):
        found = after.list(window=DAY, order_by=by, is_complete=False)
        assert (found.num_pending, found.num_outdated) == (0, 0)
        assert found == before.list(window=DAY, order_by=by)
    assert after.read == []


def test_a_server_that_knows_nothing_leaves_the_file_as_it_is(file: SummaryFile) -> None:
    """One that could not start, as its port was in use, or that was stopped at once."""
    stopped(file, named("a"))
    server_with(file, named("a")).summaries.keep(END)
    assert first_list(server_with(file, named("a"))).num_pending == 0
    late = server_with(file, named("a"))
    late.summaries.stop()
    late.summaries.restore(END)
    assert late.summaries.table(WARM_SPAN).entries == []


def test_a_server_without_streams_leaves_nothing_of_those_that_it_had(
    file: SummaryFile, tmp_path: Path
) -> None:
    """The figures of deleted streams do not stay on the disk."""
    stopped(file, named("deleted"))
    left = next(tmp_path.iterdir())
    assert b"deleted" in left.read_bytes()
    stopped(file)
    assert b"deleted" not in left.read_bytes()


def test_what_changed_is_computed_again_and_shows_its_former_figures(file: SummaryFile) -> None:
    """A stream that changed after the start is out of date; the others are not read."""
    views = [named("a"), named("b")]
    before = stopped(file, *views)
    after = server_with(file, *views)
    after.summaries.restore(END)
    after.put(named("b", 99))
    after.read.clear()
    table = after.summaries.table(WARM_SPAN)
    table.scan()
    assert (table.outdated, table.num_pending) == ({"b"}, 0)
    shown = {entry.name: entry.message().snapshot.metrics for entry in table.entries}
    known = before.list(window=DAY).summaries
    assert shown == {each.stream: each.snapshot.metrics for each in known}
    table.refresh(math.inf)
    assert after.read == ["b"]


def test_another_stream_of_the_same_name_is_not_taken_for_it(file: SummaryFile) -> None:
    """Deleted and made again, at a revision that the log had before: it has no figures yet."""
    stopped(file, named("a"), named("gone"))
    again = named("a", 5)
    again.info.create_revision = 2
    found = first_list(server_with(file, again))
    assert [each.stream for each in found.summaries] == ["a"]
    assert found.num_pending == 1


def test_time_makes_a_kept_summary_out_of_date(file: SummaryFile) -> None:
    """As it does in a server that goes on: with its former figures until it is computed."""
    before = stopped(file, named("a"))
    (entry,) = before.summaries.table(WARM_SPAN).entries
    for clock_us, outdated in ((entry.valid_until_us - 1, 0), (entry.valid_until_us, 1)):
        after = server_with(file, named("a"))
        after.clock_us = clock_us
        found = first_list(after)
        assert (found.num_pending, found.num_outdated) == (0, outdated)


def test_what_was_out_of_date_at_the_stop_stays_so(file: SummaryFile) -> None:
    """Its revision at the stop says nothing about its figures."""
    server = server_with(file, named("a"), named("b"))
    server.list(window=DAY)
    server.put(named("b", 6))
    server.summaries.keep(END)
    found = first_list(server_with(file, named("a"), named("b", 6)))
    assert (found.num_pending, found.num_outdated) == (0, 1)


def test_figures_that_could_not_be_computed_are_not_kept(file: SummaryFile) -> None:
    """Nor streams without a summary: both are computed after the start."""
    server = server_with(file, named("a"), named("bad"))
    del server.views["bad"].info.settings  # makes each computation fail
    server.list(window=DAY)
    server.put(named("new"))
    server.summaries.keep(END)
    found = first_list(server_with(file, named("a"), named("bad"), named("new")))
    assert {each.stream for each in found.summaries if each.snapshot.metrics} == {"a"}
    assert found.num_pending == 2


def test_a_projection_is_kept_and_made_again(file: SummaryFile) -> None:
    """It is shown at once, and the stream is as overdue as one that was never projected."""
    server = server_with(file, named("a"))
    server.list(window=DAY)
    (entry,) = server.summaries.table(WARM_SPAN).entries
    projected = types_pb2.Projection(metrics=[types_pb2.ProjectedMetric(projected=0.75)])
    entry.store_projection(projected, verdict_pb2.Verdict(), now_us=NOW, revision=7)
    server.summaries.keep(END)
    after = server_with(file, named("a"))
    (found,) = first_list(after).summaries
    assert found.snapshot.projection == projected
    (entry,) = after.summaries.table(WARM_SPAN).entries
    assert (entry.values["projected"], entry.projected_us) == (0.75, 0)


def test_a_summary_that_was_computed_meanwhile_stays(file: SummaryFile) -> None:
    """The file may be read after a list was asked for."""
    stopped(file, named("a"))
    after = server_with(file, named("a"))
    after.put(named("a", 12))
    newer = after.list(window=DAY)
    after.summaries.restore(END)
    assert after.list(window=DAY, is_complete=False) == newer


def test_a_stop_is_clean_whatever_is_wrong_with_summaries(
    file: SummaryFile, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged, and there is no file."""
    server = server_with(file, named("a"))
    server.list(window=DAY)

    def failed(*_arguments: object) -> None:
        raise MemoryError

    monkeypatch.setattr(SummaryFile, "write", failed)
    server.summaries.keep(END)
    assert "could not be kept for the next server" in caplog.text
    assert not file.path.exists()


KEPT = [
    KeptSummary(overview_pb2.StreamSummary(stream=name).SerializeToString(), 3, NOW + HOUR, True)
    for name in ("a", "b")
]


def test_a_file_gives_what_was_written(file: SummaryFile) -> None:
    """Every field; only its owner may read it."""
    file.write(END, NOW, KEPT)
    assert file.read(END, NOW) == KEPT
    assert file.path.name == "streameval.db-summaries"
    assert file.path.stat().st_mode & 0o077 == 0
    file.write(END, NOW, [])
    assert file.read(END, NOW) == []


@pytest.mark.parametrize(
    "end", [AckedRevision(8, END.crc32), AckedRevision(6, END.crc32), AckedRevision(7, 1)]
)
def test_a_file_of_another_log_is_not_used(file: SummaryFile, end: AckedRevision) -> None:
    """A log that went on, one that was restored from a backup, and one with other rows."""
    file.write(END, NOW, KEPT)
    assert file.read(end, NOW) == []


def test_a_file_of_another_release_window_or_clock_is_not_used(
    file: SummaryFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor one that was written later than it is now: its windows would be in the future."""
    file.write(END, NOW, KEPT)
    assert file.read(END, NOW - 1) == []
    database = file.path.with_name("streameval.db")
    assert SummaryFile(database, WARM_SPAN.span_us + 1).read(END, NOW) == []
    monkeypatch.setattr(summary_file, "WRITER", b"another release")
    assert file.read(END, NOW) == []


def test_a_damaged_file_is_not_used(file: SummaryFile, caplog: pytest.LogCaptureFixture) -> None:
    """Each byte changed, and each length: a line in the log, and an empty list."""
    file.write(END, NOW, KEPT)
    data = file.path.read_bytes()
    damaged = [data[:size] for size in range(len(data))]
    damaged += [
        data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :] for at in range(len(data))
    ]
    for each in (*damaged, data + b"x"):
        file.path.write_bytes(each)
        caplog.clear()
        assert file.read(END, NOW) == []
        assert caplog.records[0].levelno == logging.WARNING
    file.path.unlink()
    caplog.clear()
    assert file.read(END, NOW) == []
    assert not caplog.records


def test_a_file_is_bounded(file: SummaryFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not fit is left out, and a larger file is not read."""
    monkeypatch.setattr(summary_file, "MAX_BYTES", 4_096)
    message = overview_pb2.StreamSummary(stream="a", problem="x" * 1_000).SerializeToString()
    kept = [KeptSummary(message, 1, NOW, True)] * 9
    file.write(END, NOW, kept)
    assert file.path.stat().st_size <= 4_096
    assert file.read(END, NOW) == kept[:2]
    monkeypatch.setattr(summary_file, "MAX_BYTES", 2_000)
    assert file.read(END, NOW) == []


def test_a_file_that_cannot_be_written_is_said_and_costs_nothing_else(
    file: SummaryFile, caplog: pytest.LogCaptureFixture
) -> None:
    """A directory in its place stands for a disk that takes no writes."""
    file.path.mkdir()
    file.write(END, NOW, KEPT)
    assert "the next server computes them" in caplog.text
    assert [each.name for each in file.path.parent.iterdir()] == [file.path.name]
    caplog.clear()
    assert file.read(END, NOW) == []
    assert "not used" in caplog.text


def test_a_thread_of_its_own_computes_until_it_is_stopped(
    file: SummaryFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what was not kept; and a step that fails is not the last one."""
    stopped(file, named("a"))
    server = server_with(file, named("a"), named("b"))
    step, fails, done = server.summaries.step, [True], threading.Event()

    def stepping() -> float:
        if fails:
            raise OSError(fails.pop())
        pause_s = step()
        done.set()
        return pause_s

    monkeypatch.setattr(server.summaries, "step", stepping)
    monkeypatch.setattr(stream_summaries, "_RETRY_S", 0.0)
    before = set(threading.enumerate())  # other tests' servers have theirs
    server.summaries.start(END)
    assert done.wait(20)
    server.summaries.stop()
    assert server.read == ["b"]
    assert "summaries" not in {each.name for each in set(threading.enumerate()) - before}
