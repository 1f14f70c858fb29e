"""The list of streams: figures, order, states, groups, pages; what is computed and when."""

from __future__ import annotations

import math
from datetime import timedelta
from types import SimpleNamespace

import numpy as np
import pytest

from streameval.statistics import BY_NAME
from streameval.v1 import alarm_pb2, overview_pb2, verdict_pb2
from streameval_server._model.errors import Code, RequestError
from streameval_server._queries import summary_table
from streameval_server._queries.selection import Last
from streameval_server._queries.stream_list_request import MAX_OPEN_GROUPS, parse_list_request
from streameval_server._queries.summary_order import ORDERS
from streameval_server._state.views import AlarmsView

from .conftest import HOUR, MINUTE, NOW, Event, View, invalid_field
from .summaries import (
    WINDOW,
    Server,
    expected_snapshot,
    stream,
    verdict,
)

SEED = 20_061


@pytest.fixture(scope="module")
def server() -> Server:
    """Return a server with forty streams in five groups, and some that are special."""
    rng = np.random.default_rng(SEED)
    views = [
        stream(rng, f"group-{number % 5}/m{number}", threshold=None if number % 3 else 0.5)
        for number in range(40)
    ]
    views += [
        View([], stream="empty"),
        View([Event(True, 0.5, NOW)] * 3, stream="one/class"),
        View([Event(i % 2 == 0, i / 20, NOW - 9 * HOUR) for i in range(20)], stream="group-1/old"),
    ]
    server = Server(*views)
    qualities = ["worse", "better", "recovered", "steady", "unsure", "immature"]
    for number, name in enumerate(sorted(server.views)):
        difference = rng.normal(scale=0.1) if number % 7 else None
        flow = rng.choice(["ok", "silent", "no_labels", "late"])
        given = verdict(qualities[number % 6], difference, str(flow))
        server.answers.verdicts.given[name] = given
    return server


def test_figures_are_those_of_other_queries(server: Server) -> None:
    """The same values, intervals, reasons and counts as GetSnapshot, and the verdict."""
    found = server.list()
    assert found.num_streams == len(found.summaries) == len(server.views) == found.num_covered
    assert (found.num_pending, found.num_outdated) == (0, 0)
    for each in found.summaries:
        known = expected_snapshot(server, each.stream)
        metrics = {metric.name: metric for metric in known.metrics}
        for metric in each.snapshot.metrics:
            expected = metrics[metric.name]
            assert metric.HasField("value") == expected.HasField("value")
            assert metric.value == expected.value
            assert metric.undefined_reason == expected.undefined_reason
            if metric.HasField("interval"):
                assert metric.interval.lower == expected.interval.lower
                assert metric.interval.upper == expected.interval.upper
        for name in ("num_positive_ref", "num_negative_ref", "num_cases", "num_scored", "window"):
            assert getattr(each.snapshot, name) == getattr(known, name)
        assert each.snapshot.operating_point == known.operating_point
        assert each.verdict == server.answers.verdicts.given[each.stream]


STATES = ("alarms", "worse", "silent", "labels")


def states(each: overview_pb2.StreamSummary) -> set[str]:
    """Return the states of a stream, from its message alone."""
    quality = verdict_pb2.VerdictQuality.Name(each.verdict.quality)
    flow = verdict_pb2.VerdictFlow.Name(each.verdict.flow)
    found = {"alarms"} if each.snapshot.open_alarms else set()
    found |= {"worse"} if quality == "VERDICT_QUALITY_WORSE" else set()
    found |= {"silent"} if flow == "VERDICT_FLOW_SILENT" else set()
    is_short = quality == "VERDICT_QUALITY_IMMATURE"
    is_short |= flow in {"VERDICT_FLOW_NO_LABELS", "VERDICT_FLOW_LATE"}
    return found | ({"labels"} if is_short else set())


@pytest.mark.parametrize("search", ["", "group-1/"])
@pytest.mark.parametrize("state", STATES)
def test_a_state_restricts_the_list_and_no_number_of_a_state(
    server: Server, state: str, search: str
) -> None:
    """The streams in it, in the list's order; the numbers are of all that match the search."""
    whole = server.list(search=search)
    found = server.list(search=search, state=state)
    expected = [each.stream for each in whole.summaries if state in states(each)]
    assert [each.stream for each in found.summaries] == expected
    assert found.num_streams == len(expected)
    assert bool(expected) == (state != "alarms")
    numbers = [sum(each in states(summary) for summary in whole.summaries) for each in STATES]
    for answer in (whole, found):
        assert numbers == [
            *(answer.num_alarms, answer.num_fallen),
            *(answer.num_silent, answer.num_short_of_labels),
        ]


def brute_force(server: Server, by: str, *, is_reversed: bool) -> list[str]:
    """Return the names in an order, from the summaries' messages alone."""
    found = server.list(order_by="name").summaries
    sign = -1 if is_reversed else 1

    def value(each: overview_pb2.StreamSummary) -> float | None:
        if by in BY_NAME:
            values = {m.name: m.value for m in each.snapshot.metrics if m.HasField("value")}
            better = BY_NAME[by].better
            return None if by not in values else values[by] * (-1 if better == "lower" else 1)
        if by == "volume":
            return -(each.snapshot.num_cases + each.snapshot.coverage.pending)
        if by == "newest":
            return (
                each.newest_pane.end_time.ToMicroseconds() if each.HasField("newest_pane") else None
            )
        if by in ("change", "alarms"):
            figures = each.verdict.figures
            return figures[0].difference.estimate if figures else None
        return None

    def key(each: overview_pb2.StreamSummary) -> tuple:
        found = value(each)
        is_worse = "worse" in states(each)
        first = (sign * (not is_worse),) if by == "alarms" else ()
        is_last = found is None and not (is_worse and by == "alarms")
        key = (is_last, *first, sign * (found or 0.0))
        if by == "alarms":  # equal changes, and those without one
            metrics = {m.name: m.value for m in each.snapshot.metrics if m.HasField("value")}
            key += ("auc_pr" not in metrics, sign * metrics.get("auc_pr", 0.0))
        return (*key, each.stream)

    if by == "name":
        return sorted((each.stream for each in found), reverse=is_reversed)
    return [each.stream for each in sorted(found, key=key)]


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("by", ORDERS)
def test_every_order_is_that_of_the_messages(server: Server, by: str, is_reversed: bool) -> None:
    """Sorted by brute force; without a value last, whichever way round."""
    expected = brute_force(server, by, is_reversed=is_reversed)
    assert server.names(order_by=by, reverse=is_reversed) == expected


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("by", ["alarms", "name", "auc_pr", "volume"])
@pytest.mark.parametrize("size", [1, 7])
def test_pages_fit_together(server: Server, by: str, is_reversed: bool, size: int) -> None:
    """All pages are the list, without groups and with."""
    for grouped in (False, True):
        fields = {"order_by": by, "reverse": is_reversed, "grouped": grouped}
        if grouped:
            fields["open_groups"] = ["group-1", "group-3", "no-group"]
        whole = server.list(**fields)
        rows, token = [], ""
        while True:
            page = server.list(**fields, page_size=size, page_token=token)
            assert len(page.summaries) <= size
            assert page.num_streams == whole.num_streams
            rows += [each.stream for each in page.summaries]
            token = page.next_page_token
            if not token:
                break
        assert rows == [each.stream for each in whole.summaries]


def test_a_stream_that_stays_is_listed_once_while_others_move() -> None:
    """Between two pages streams change, appear and go."""
    rng = np.random.default_rng(SEED + 1)
    server = Server(*(stream(rng, f"s{number:02}", 60) for number in range(30)))
    token, seen = "", []
    moved = set()
    while True:
        page = server.list(order_by="auc_pr", page_size=4, page_token=token)
        seen += [each.stream for each in page.summaries]
        token = page.next_page_token
        if not token:
            break
        changed, gone = rng.choice(sorted(server.views), 2, replace=False)
        moved |= {changed, gone}
        server.put(stream(rng, changed, 60))
        server.put(stream(rng, f"new-{len(seen)}", 60))
        del server.views[gone]
        server.revision += 1
    for name in {f"s{number:02}" for number in range(30)} - moved:
        assert seen.count(name) == 1, name


def test_groups_are_of_the_first_part(server: Server) -> None:
    """Counts of streams and of falls, ends of AUC-PR; in the order of their first streams."""
    everything = server.list()
    by_group: dict[str, list[overview_pb2.StreamSummary]] = {}
    for each in everything.summaries:
        assert each.group == each.stream.split("/")[0]
        by_group.setdefault(each.group, []).append(each)
    found = server.list(grouped=True, open_groups=["group-2"])
    assert [group.name for group in found.groups] == list(by_group)
    assert found.num_groups == len(by_group)
    for group in found.groups:
        mine = by_group[group.name]
        assert group.num_streams == len(mine)
        assert group.num_fallen == sum("worse" in states(each) for each in mine)
        known = [m.value for each in mine for m in each.snapshot.metrics[:1] if m.HasField("value")]
        assert group.HasField("lowest") == group.HasField("highest") == bool(known)
        assert not known or (group.lowest, group.highest) == (min(known), max(known))
        assert group.open == (group.name == "group-2")
    assert [each.stream for each in found.summaries] == [
        each.stream for each in by_group["group-2"]
    ]


def test_search_and_prefix(server: Server) -> None:
    """Parts of names in any case; prefixes as they are; numbers are of what matches."""
    found = server.list(search="GROUP-1/M")
    assert {each.stream for each in found.summaries} == {
        name for name in server.views if "group-1/m" in name
    }
    assert found.num_streams == len(found.summaries) < found.num_covered
    assert set(server.names(prefix="group-2/")) == {
        name for name in server.views if name.startswith("group-2/")
    }
    assert server.names(search="nothing") == []


def test_only_streams_that_are_covered_are_listed_and_counted(server: Server) -> None:
    """Rows, numbers and groups."""

    def covers(name: str) -> bool:
        return name.startswith("group-1/")

    found = server.list(covers=covers, streams=("group-1",), grouped=True, open_groups=["group-1"])
    mine = {name for name in server.views if covers(name)}
    assert {each.stream for each in found.summaries} == mine
    assert (found.num_streams, found.num_covered, found.num_groups) == (len(mine), len(mine), 1)


def test_only_what_changed_is_read_again() -> None:
    """An unchanged stream is not looked at; a changed, a new and a deleted one are."""
    rng = np.random.default_rng(SEED + 2)
    server = Server(*(stream(rng, f"s{number}", 40) for number in range(10)))
    server.list()
    assert sorted(server.read) == sorted(server.views)
    server.read.clear()
    assert len(server.names()) == 10
    server.revision += 1  # an entry that changes no stream
    server.names()
    assert server.read == []
    server.put(stream(rng, "s3", 40))
    server.put(stream(rng, "new", 40))
    del server.views["s4"]
    server.revision += 1
    names = server.names()
    assert sorted(server.read) == ["new", "s3"]
    assert "new" in names
    assert "s4" not in names


def test_a_change_while_a_summary_is_computed_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where another list has seen it before the summary of the time before is stored."""
    server = Server(View([], stream="s"))
    compute = summary_table.summary

    def compute_slowly(*arguments: object) -> object:
        found = compute(*arguments)
        if server.revision == 7:
            server.put(View([Event(i % 2 == 0, i / 20, NOW - HOUR) for i in range(20)], stream="s"))
            server.summaries.table(Last(WINDOW // timedelta(microseconds=1))).scan()
        return found

    monkeypatch.setattr(summary_table, "summary", compute_slowly)
    first = server.list()
    assert (server.revision, first.revision) == (8, 8)
    (found,) = server.list().summaries
    figures = found.snapshot
    assert (figures.revision, figures.num_cases, found.outdated) == (8, 20, False)


def test_a_stream_that_was_made_again_is_another() -> None:
    """What was known of the one before is not shown."""
    rng = np.random.default_rng(SEED + 3)
    server = Server(stream(rng, "s", 40))
    before = server.list().summaries[0]
    again = View([], stream="s")
    again.info.create_revision = 8
    server.put(again)
    after = server.list().summaries[0]
    assert before.snapshot.num_cases
    assert not after.snapshot.num_cases


@pytest.mark.parametrize("seed", range(6))
def test_a_summary_holds_until_time_moves_its_window(seed: int) -> None:
    """While the clock goes on, an unchanged stream has the figures of a new computation."""
    rng = np.random.default_rng(SEED + 10 + seed)
    ages = rng.uniform(-2, 14, 30)  # some are dated ahead of the clock
    events = [
        Event(bool(rng.random() < 0.5), float(rng.random()), NOW - int(age * HOUR)) for age in ages
    ]
    server = Server(View(events, stream="s"))
    reads = 0
    for _ in range(120):
        server.read.clear()
        shown = server.list().summaries[0]
        reads += len(server.read)
        fresh = Server(server.views["s"])
        fresh.clock_us = server.clock_us
        known = fresh.list().summaries[0]
        assert shown.snapshot.metrics == known.snapshot.metrics
        assert shown.snapshot.num_cases == known.snapshot.num_cases
        server.clock_us += int(rng.integers(1, 20)) * MINUTE
    assert 2 < reads < 90


def test_what_does_not_fit_the_time_comes_last_and_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Streams without figures are listed by name behind the others until they are computed."""
    rng = np.random.default_rng(SEED + 4)
    server = Server(*(stream(rng, f"s{number}", 40) for number in range(6)))
    monkeypatch.setattr("streameval_server._queries.stream_list.MAX_REFRESH_S", 0.0)
    found = server.list(is_complete=False)
    assert found.num_pending == found.num_streams == 6
    assert all(each.outdated and not each.snapshot.revision for each in found.summaries)
    assert [each.stream for each in found.summaries] == sorted(server.views)
    assert server.list(is_complete=False, state="worse").num_pending == 6  # any of them could be
    for _ in range(6):
        server.summaries.step()
    found = server.list(is_complete=False)
    assert (found.num_pending, found.num_outdated) == (0, 0)
    server.put(stream(rng, "s1", 40))
    found = server.list(is_complete=False)
    assert (found.num_pending, found.num_outdated) == (0, 1)
    assert [each.stream for each in found.summaries if each.outdated] == ["s1"]


def test_the_page_is_computed_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many that changed, those of the page that is asked for."""
    monkeypatch.setattr("streameval_server._queries.stream_list.MAX_REFRESH_S", 60.0)
    rng = np.random.default_rng(SEED + 5)
    server = Server(*(stream(rng, f"s{number}", 40) for number in range(9)))
    server.list()
    for name in list(server.views):
        server.put(stream(rng, name, 40))
    server.read.clear()
    server.list(is_complete=False, order_by="name", reverse=True, page_size=3)
    assert server.read[:3] == ["s8", "s7", "s6"]


def test_what_may_have_another_verdict_is_computed_before_what_has_rows() -> None:
    """It is recorded and told from there, whether or not a list is asked for."""
    rng = np.random.default_rng(SEED + 6)
    server = Server(*(stream(rng, f"s{number}", 40) for number in range(9)))
    table = server.summaries.table(Last(WINDOW // timedelta(microseconds=1)))
    table.scan()
    table.refresh(60.0)
    for name in list(server.views):
        server.put(stream(rng, name, 40))
    for name in ("s5", "s7"):
        server.decided[name] = server.revision
    server.decided["s6"] = 7  # the summary has it
    server.read.clear()
    table.scan()
    table.refresh(60.0, ["s2"], until=lambda: len(server.read) == 4)
    assert server.read == ["s2", "s5", "s7", "s0"]
    table.refresh(60.0)
    assert sorted(server.read) == sorted(server.views)


def broken(name: str, error: Exception) -> View:
    """Return a stream whose counts cannot be read."""
    view = View([Event(i % 2 == 0, i / 20, NOW - HOUR) for i in range(20)], stream=name)

    class Broken(View):
        @property
        def whole(self) -> object:
            raise error

    view.__class__ = Broken
    return view


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (
            ZeroDivisionError("secret"),
            "the server failed with ZeroDivisionError; its log has more about it",
        ),
        (
            RequestError(Code.FAILED_PRECONDITION, "too many cells", reason="CELLS"),
            "too many cells",
        ),
    ],
)
def test_a_stream_that_cannot_be_computed_says_why_and_the_others_are_listed(
    error: Exception, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its row has the reason and its alarms, the log the traceback; it is tried again."""
    rng = np.random.default_rng(SEED + 8)
    views = [stream(rng, f"s{number}", 60) for number in range(8)]
    bad = broken("bad", error)
    alarm = SimpleNamespace(is_open=True, watch="ranking", number=1)
    bad.alarms = AlarmsView("", (0, 1), NOW - HOUR, {}, (alarm,), frozenset(), 0)
    server, without = Server(bad, *views), Server(*views)
    found, expected = server.list(), without.list()
    assert (found.num_streams, found.num_failed, found.num_pending) == (9, 1, 0)
    first, *others = found.summaries
    assert (first.stream, first.problem, first.snapshot.open_alarms) == ("bad", problem, 1)
    assert not first.snapshot.metrics
    assert not first.HasField("verdict")
    assert not first.outdated
    assert others == list(expected.summaries)
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "bad" in caplog.text
    assert type(error).__name__ in caplog.text
    # In the background it does not hold up the others either.
    server.put(stream(rng, "s3", 60))
    server.put(bad)
    table = server.summaries.table(Last(WINDOW // timedelta(microseconds=1)))
    for _ in range(100):
        server.summaries.step()
        if not table.num_outdated:
            break
    assert table.num_outdated == 0
    logged = len(caplog.records)
    # Not read again until it changes, or a minute has passed; not logged again.
    server.read.clear()
    server.list()
    assert "bad" not in server.read
    server.clock_us += MINUTE
    server.list()
    assert "bad" in server.read
    assert len(caplog.records) == logged
    # Without anything wrong it has its figures, and the reason is gone.
    bad.__class__ = View
    server.put(bad)
    known = {each.stream: each for each in server.list().summaries}
    assert known["bad"].problem == ""
    assert known["bad"].snapshot.num_cases == 20


@pytest.mark.parametrize("by", ORDERS)
def test_a_stream_that_cannot_be_computed_comes_last(by: str) -> None:
    """As the other streams without a value, if it has no open alarm."""
    rng = np.random.default_rng(SEED + 9)
    views = [stream(rng, f"m{n}", 60) for n in range(5)]
    server = Server(broken("z", ValueError("x")), View([], stream="n"), *views)
    assert server.names(order_by=by)[-1] == "z"


def test_a_stream_that_cannot_be_projected_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged and left without a projection; the next one is projected."""
    rng = np.random.default_rng(SEED + 9)
    server = Server(stream(rng, "a", 60), stream(rng, "b", 60))
    table = server.summaries.table(Last(WINDOW // timedelta(microseconds=1)))
    table.scan()
    table.refresh(math.inf)
    for entry in table.entries:
        entry.is_waiting = True
    asked = []

    def project(_engine: object, view: View, _span: object) -> None:
        asked.append(view.info.name)
        raise ZeroDivisionError("secret")

    monkeypatch.setattr("streameval_server._queries.summary_table.projection", project)
    assert table.project()
    assert table.project()
    assert not table.project()
    assert sorted(asked) == ["a", "b"]
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]


def test_a_detector_has_its_state() -> None:
    """It watches, or says what it waits for."""
    view = stream(np.random.default_rng(SEED + 6), "s", 300)
    reference_us = (NOW - 12 * HOUR, NOW - 3 * HOUR)
    view.alarms = AlarmsView("", reference_us, NOW - HOUR, {}, (), frozenset(), 0)
    server = Server(view)
    (found,) = server.list().summaries
    assert found.alarm.state == alarm_pb2.ALARM_STATE_WATCHING
    view.alarms = AlarmsView("its end", reference_us, None, {}, (), frozenset(), 0)
    server.put(view)
    (found,) = server.list().summaries
    assert found.alarm.state == alarm_pb2.ALARM_STATE_WAITING
    assert found.alarm.waits_for == "its end"


def test_the_verdict_is_the_same_whatever_the_window(server: Server) -> None:
    """So is the order by it; figures are those of the window."""
    of_a_day, whole = server.list(order_by="change"), server.list(order_by="change", window=None)
    told = [[(each.stream, each.verdict) for each in one.summaries] for one in (of_a_day, whole)]
    assert told[0] == told[1]
    assert {each.snapshot.num_cases for each in whole.summaries} >= {0, 3, 20, 150}


@pytest.mark.parametrize(
    ("fields", "field", "problem"),
    [
        ({"order_by": "best"}, "order_by", "order_by must be one of alarms, change, name, "),
        (
            {"state": "bad"},
            "state",
            "state must be one of alarms, worse, silent, labels, got 'bad'",
        ),
        ({"page_size": -1}, "page_size", "page_size must not be negative, got -1"),
        ({"search": "a" * 257}, "search", "search has at most 256 characters, got 257"),
        ({"open_groups": ["a"]}, "open_groups", "open_groups needs grouped"),
        (
            {"grouped": True, "open_groups": [str(i) for i in range(MAX_OPEN_GROUPS + 1)]},
            "open_groups",
            "open at most 100 groups, got 101",
        ),
        ({"page_token": "?"}, "page_token", "page_token must be the next_page_token of a page"),
        ({"page_token": "W10="}, "page_token", "page_token must be the next_page_token of a page"),
    ],
)
def test_wrong_requests_are_refused(fields: dict, field: str, problem: str) -> None:
    """The field at fault, and what is wrong."""
    request = overview_pb2.ListStreamSummariesRequest(**fields)
    found = invalid_field(lambda: parse_list_request(request))
    assert found[0] == field
    assert found[1].startswith(problem)


def test_tokens_of_another_order_are_refused(server: Server) -> None:
    """Also one whose key has other types than the rows."""
    token = server.list(order_by="auc_pr", page_size=2).next_page_token
    for fields in (
        {"order_by": "name"},
        {"order_by": "auc_pr", "reverse": True},
        {"order_by": "auc_pr", "grouped": True},
    ):
        field, _ = invalid_field(lambda fields=fields: server.list(**fields, page_token=token))
        assert field == "page_token"
    # Of a key with other types.
    forged = "WyJhdWNfcHIiLCBmYWxzZSwgZmFsc2UsIFt7fSwgW11dXQ=="
    field, _ = invalid_field(lambda: server.list(order_by="auc_pr", page_token=forged))
    assert field == "page_token"


def test_a_bare_call_is_of_all_time_and_fifty() -> None:
    """The defaults of a request."""
    asked = parse_list_request(overview_pb2.ListStreamSummariesRequest())
    assert (asked.size, asked.order.by, asked.order.is_reversed) == (50, "alarms", False)
