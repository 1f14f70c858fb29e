"""The list of streams of a running server: order, pages, tokens, watching, restarts."""

from __future__ import annotations

import asyncio
import json
import logging
import time
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import numpy as np
import pytest
from google.protobuf.duration_pb2 import Duration

from streameval import InvalidInputError
from streameval.client import AsyncClient, Client, InvalidRequestError
from streameval.v1 import overview_pb2
from streameval_server import Settings, create_token
from streameval_server._queries import stream_summary, summary_table
from streameval_server.testing import running_server, running_service

from .conftest import Wire, failure
from .security import Certificates, bearer, secure_channel, secured

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streameval_server._queries.query_engine import QueryEngine
    from streameval_server._queries.selection import AllTime, Last
    from streameval_server._queries.stream_summary import ComputedSummary
    from streameval_server._state.views import StreamView

DAY = timedelta(days=1)
WAIT_S = 60.0
Request = overview_pb2.ListStreamSummariesRequest
Watch = overview_pb2.WatchStreamSummariesRequest


def fill(client: Client, names: list[str], seed: int = 20_062) -> None:
    """Send two days of cases; the first stream is worse on the second."""
    rng, now = np.random.default_rng(seed), datetime.now(UTC)
    for index, name in enumerate(names):
        client.create_stream(name, threshold=0.5, scale="probability")
        ages = np.linspace(47, 0.1, 400)
        labels = rng.random(400) < 0.3
        distance = np.where((ages < 20) & (index == 0), -1.0, 2.0)
        scores = 1 / (1 + np.exp(1 - rng.normal(size=400) - distance * labels))
        at = [now - timedelta(hours=float(age)) for age in ages]
        client.stream(name).add_cases(labels=labels, scores=scores, at=at)
    client.flush()


def complete(client: Client, **arguments: object):
    """Return the list once it is up to date."""
    ends = time.monotonic() + WAIT_S
    while time.monotonic() < ends:
        found = client.list_summaries(**arguments)
        if not any(each.outdated for each in found):
            return found
    raise AssertionError("the list is still not up to date")


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Return a client of a server with five streams."""
    settings = Settings(listen="127.0.0.1:0", memory=True)
    with running_server(settings) as address, Client(address) as client:
        fill(client, ["fraud/v3", "fraud/v2", "churn/v1", "ads/v9", "ads/v8"])
        yield client


def test_figures_and_verdicts_are_those_of_other_queries(client: Client) -> None:
    """Without a base no stream is called worse, and the least AUC-PR comes first."""
    found = complete(client)
    assert len(found) == 5
    assert (found[0].stream, found[0].group) == ("fraud/v3", "fraud")
    figures = [each.snapshot.auc_pr for each in found]
    assert figures == sorted(figures)
    for each in found:
        told = client.stream(each.stream).verdict()
        assert each.verdict is not None
        assert (each.verdict.quality, each.verdict.happened) == ("immature", told.happened)
        assert each.to_dict()["verdict"]["happened"] == told.happened != ""
        known = client.stream(each.stream).snapshot(window=DAY)
        assert each.snapshot.auc_pr == known.auc_pr
        assert each.snapshot.auc_roc == known.auc_roc
        assert each.snapshot.figures["precision"] == known.figures["precision"]
        assert each.snapshot.operating_point.threshold == 0.5
        assert each.snapshot.num_scored == known.num_scored == each.snapshot.num_cases
        assert each.newest is not None
    by_name = client.list_summaries("name", limit=2, window=None)
    assert [each.stream for each in by_name] == ["ads/v8", "ads/v9"]
    assert [each.stream for each in client.list_summaries("name", search="V9")] == ["ads/v9"]
    assert len(client.list_summaries(prefix="fraud/", reverse=True)) == 2


def test_the_asynchronous_client_has_it_too(client: Client) -> None:
    """The same streams in the same order."""
    known = [each.stream for each in complete(client)]

    async def ask() -> list[str]:
        async with AsyncClient(client.addresses[0]) as other:
            return [each.stream for each in await other.list_summaries()]

    assert asyncio.run(ask()) == known


def test_wrong_arguments(client: Client) -> None:
    """What the client and the server refuse, in words."""
    with pytest.raises(InvalidInputError, match="limit must be a positive number of streams"):
        client.list_summaries(limit=0)
    with pytest.raises(InvalidRequestError, match="order_by must be one of alarms, change, name"):
        client.list_summaries("best")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Return certificates of a test authority."""
    return Certificates.made(tmp_path_factory.mktemp("tls"))


def test_a_token_sees_and_counts_only_its_streams(
    certificates: Certificates, tmp_path: Path
) -> None:
    """Rows, numbers, groups and evidence, in lists and in watches."""
    path = tmp_path / "tokens.toml"
    everything = create_token(path, "all", ["admin", "ingest", "query"])
    fraud = create_token(path, "fraud", ["query"], ["fraud"])
    ingest = create_token(path, "ingest", ["ingest"])
    with (
        secured(certificates, path) as address,
        secure_channel(certificates, address) as channel,
    ):
        names = ["fraud/v1", "fraud/v2", "fraudulent/v1", "spam/v1"]
        with Client(address, token=everything, root_certificates=certificates.root) as client:
            fill(client, names)
            complete(client)
        wire, last = Wire(channel), Duration(seconds=86_400)
        listed = wire.query.ListStreamSummaries(
            Request(last=last, grouped=True, open_groups=["fraud", "spam"]),
            metadata=bearer(fraud),
            timeout=20,
        )
        assert {each.stream for each in listed.summaries} == {"fraud/v1", "fraud/v2"}
        assert [(each.name, each.num_streams) for each in listed.groups] == [("fraud", 2)]
        assert (listed.num_streams, listed.num_covered, listed.num_groups) == (2, 2, 1)
        searched = wire.query.ListStreamSummaries(
            Request(search="spam"), metadata=bearer(fraud), timeout=20
        )
        assert (searched.num_streams, searched.num_covered) == (0, 2)
        watch = wire.query.WatchStreamSummaries(
            Watch(list=Request(last=last)), metadata=bearer(fraud), timeout=20
        )
        first = next(watch)
        watch.cancel()
        assert set(first.streams) == {"fraud/v1", "fraud/v2"}
        assert first.list.num_covered == 2
        for method in (wire.query.ListStreamSummaries,):
            refused = failure(
                lambda method=method: method(Request(), metadata=bearer(ingest), timeout=20)
            )
            assert refused.code == grpc.StatusCode.PERMISSION_DENIED


def test_a_watch_sends_what_changed(client: Client) -> None:
    """All at once, then rows that changed, in their order; deleted streams go."""
    complete(client)
    watched = client.create_stream("watched/v1").name
    ago = datetime.now(UTC) - timedelta(hours=1)
    client.stream(watched).add_cases(labels=[1, 0] * 20, scores=np.arange(40) / 40, at=[ago] * 40)
    client.flush()
    with grpc.insecure_channel(client.addresses[0]) as channel:
        wire = Wire(channel)
        asked = Request(last=Duration(seconds=86_400), search="v1", order_by="name")
        watch = wire.query.WatchStreamSummaries(Watch(list=asked), timeout=WAIT_S)
        shown: dict[str, overview_pb2.StreamSummary] = {}

        def until(condition) -> overview_pb2.WatchStreamSummariesResponse:
            for answer in watch:
                shown.update({each.stream: each for each in answer.list.summaries})
                for name in set(shown) - set(answer.streams):
                    del shown[name]
                assert set(shown) == set(answer.streams)
                assert answer.revision == answer.list.revision
                if condition(answer):
                    return answer
            raise AssertionError("the watch ended")

        # What is known at first can be of the time when the stream was empty, or not there.
        both = until(lambda _: watched in shown and shown[watched].snapshot.num_cases == 40)
        assert list(both.streams) == ["churn/v1", watched]
        client.stream(watched).add_case(True, 0.9)
        client.flush()
        changed = until(lambda _: shown[watched].snapshot.num_cases == 41)
        assert [each.stream for each in changed.list.summaries] == [watched]
        client.delete_stream(watched)
        gone = until(lambda answer: len(answer.streams) == 1)
        assert (gone.list.num_streams, list(gone.list.summaries)) == (1, [])
        watch.cancel()
        refused = failure(
            lambda: next(
                wire.query.WatchStreamSummaries(Watch(list=Request(page_token="WA==")), timeout=20)
            )
        )
        assert refused.code == grpc.StatusCode.INVALID_ARGUMENT
        assert "a watch begins with the first stream" in refused.message


def test_after_a_restart_the_list_is_the_same(tmp_path: Path) -> None:
    """Also a server that is stopped while it computes summaries stops cleanly."""
    settings = Settings(listen="127.0.0.1:0", data=tmp_path / "data")
    names = [f"group-{number % 3}/v{number}" for number in range(12)]
    with running_service(settings) as addresses, Client(addresses.grpc) as client:
        fill(client, names)
        before = complete(client, window=None)
    with running_service(settings) as addresses, Client(addresses.grpc) as client:
        client.list_summaries(limit=1)
    with running_service(settings) as addresses, Client(addresses.grpc) as client:
        after = complete(client, window=None)
    assert [each.stream for each in after] == [each.stream for each in before]
    for old, new in zip(before, after, strict=True):
        assert new.snapshot.auc_pr == old.snapshot.auc_pr


def fill_hours_apart(client: Client, names: list[str]) -> None:
    """Send cases of which none leaves its window in the next hours."""
    rng, now = np.random.default_rng(4), datetime.now(UTC)
    for name in names:
        labels = rng.random(200) < 0.3
        ages = np.where(rng.random(200) < 0.5, 1.0, 30.0) + rng.random(200)
        at = [now - timedelta(hours=float(age)) for age in ages]
        scores = rng.normal(size=200) + labels
        client.stream(name).add_cases(labels=labels, scores=scores, at=at)
    client.flush()


def test_after_a_clean_stop_the_list_is_complete_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No summary is computed but that of a stream that changes; after a crash all are."""
    computed: list[str] = []

    def summary(engine: QueryEngine, view: StreamView, span: AllTime | Last) -> ComputedSummary:
        computed.append(view.info.name)
        return stream_summary.summary(engine, view, span)

    def restored() -> bool:
        return "restored summaries of streams" in caplog.messages

    monkeypatch.setattr(summary_table, "summary", summary)
    caplog.set_level(logging.DEBUG, "streameval_server._queries.stream_summaries")
    names, data = ["a/1", "a/2", "b/1"], tmp_path / "data"
    file = data / "streameval.db-summaries"
    settings = Settings(listen="127.0.0.1:0", data=data)
    with running_service(settings) as addresses, Client(addresses.grpc) as client:
        fill_hours_apart(client, names)
        before = complete(client)
    assert set(computed) == set(names)
    computed.clear()
    with running_service(settings) as addresses, Client(addresses.grpc) as client:
        ends = time.monotonic() + WAIT_S
        while not restored():
            assert time.monotonic() < ends
            time.sleep(0.01)
        assert complete(client) == before
        assert computed == []
        client.stream("a/2").add_case(True, 2.5)
        client.flush()
        complete(client)
        assert set(computed) == {"a/2"}
        stale = file.read_bytes()
    file.write_bytes(stale)  # a crash leaves the file of the stop before
    computed.clear()
    caplog.clear()
    with running_service(settings) as addresses, Client(addresses.grpc) as client:
        assert [each.stream for each in complete(client, order_by="name")] == names
    assert set(computed) == set(names)
    assert not restored()


def test_one_stream_that_fails_is_listed_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """In lists and watches of a running server; the others have their figures."""

    def summary(engine: QueryEngine, view: StreamView, span: AllTime | Last) -> ComputedSummary:
        if view.info.name == "bad/v1":
            raise ZeroDivisionError("secret")
        return stream_summary.summary(engine, view, span)

    monkeypatch.setattr(summary_table, "summary", summary)
    problem = "the server failed with ZeroDivisionError; its log has more about it"
    settings = Settings(listen="127.0.0.1:0", http="127.0.0.1:0", memory=True)
    with running_service(settings) as addresses, Client(addresses.grpc) as client:
        fill(client, ["good/v1", "bad/v1", "good/v2"])
        found = complete(client)
        assert [each.stream for each in found][-1] == "bad/v1"
        assert [each.problem for each in found] == ["", "", problem]
        assert [each.to_dict()["problem"] for each in found] == ["", "", problem]
        assert np.isfinite([each.snapshot.auc_pr for each in found[:2]]).all()
        assert found[2].snapshot.figures == {}
        with urllib.request.urlopen(
            f"{addresses.http}/v1/streams:summaries?last=86400s", timeout=WAIT_S
        ) as response:
            listed = json.load(response)
        assert (listed["numStreams"], listed["numFailed"]) == (3, 1)
        with grpc.insecure_channel(addresses.grpc) as channel:
            last = Duration(seconds=86_400)
            watch = Wire(channel).query.WatchStreamSummaries(
                Watch(list=Request(last=last)), timeout=WAIT_S
            )
            rows = {}
            for answer in watch:
                rows |= {each.stream: each for each in answer.list.summaries}
                if all(each.snapshot.revision for each in rows.values()):
                    break
            watch.cancel()
        assert rows["bad/v1"].problem == problem


def test_projections_come_while_the_list_is_asked_for() -> None:
    """Of streams whose labels are still to come, with the value of GetSnapshot's projection."""
    settings = Settings(listen="127.0.0.1:0", memory=True)
    with running_server(settings) as address, Client(address) as client:
        rng, now = np.random.default_rng(3), datetime.now(UTC)
        stream, rows = client.stream("late/v1"), 6_000
        ages = np.linspace(71, 0.1, rows)
        labels = rng.random(rows) < 0.3
        scores = 1 / (1 + np.exp(1 - rng.normal(size=rows) - 2.0 * labels))
        ids = [str(index) for index in range(rows)]
        at = [now - timedelta(hours=float(age)) for age in ages]
        stream.log_cases(ids=ids, scores=scores, at=at)
        delays = rng.exponential(3.0, rows)
        known = np.flatnonzero(delays < ages - 0.5)  # none of the last minutes
        stream.label_cases(
            ids=[ids[index] for index in known],
            labels=labels[known],
            at=[at[index] + timedelta(hours=float(delays[index])) for index in known],
        )
        client.flush()
        ends = time.monotonic() + WAIT_S
        while time.monotonic() < ends:
            (found,) = client.list_summaries()
            if found.projected_at is not None:
                break
        assert found.snapshot.coverage.pending > 0
        (figure,) = found.snapshot.projection.figures
        known_now = stream.snapshot(window=DAY, projection=True).projection.figures
        (expected,) = (
            each for each in known_now if each.metric == "auc_pr" and each.prevalence is None
        )
        assert figure.reason == expected.reason
        assert figure.projected == pytest.approx(expected.projected, abs=0.02, nan_ok=True)
