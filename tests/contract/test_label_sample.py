"""SampleForLabels over gRPC: which predictions, the same as the library, repeated from the log."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import grpc
import numpy as np
import pytest

from streameval import (
    Evaluator,
    InvalidInputError,
    LabelJoiner,
    WindowedEvaluator,
    allocate_labels,
)
from streameval.client import (
    AsyncClient,
    Client,
    InvalidRequestError,
    NotFoundError,
    PreconditionError,
)
from streameval.client._wire import calls
from streameval.client._wire.decode import read_snapshot
from streameval.v1 import (
    ingest_pb2,
    ingest_pb2_grpc,
    query_pb2,
    query_pb2_grpc,
    types_pb2,
)
from streameval_server import Settings, sample_then
from streameval_server._model.errors import RequestError
from streameval_server.testing import running_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STREAM = "fraud/v3"
HOUR = timedelta(hours=1)


class Service(NamedTuple):
    """A server with 1,200 predictions of three hours, a sixth of them labelled."""

    address: str
    directory: Path
    noon: datetime
    labels: np.ndarray
    scores: np.ndarray
    country: np.ndarray

    @property
    def is_labelled(self) -> np.ndarray:
        return np.arange(self.labels.size) % 6 == 0

    def joiner(self, rows: np.ndarray) -> LabelJoiner:
        """Return the library's joiner with some of the predictions."""
        ids = np.array([f"p{row}" for row in range(self.labels.size)])
        times = [self.noon + HOUR * (row // 400) for row in range(self.labels.size)]
        joiner = LabelJoiner(WindowedEvaluator(), ttl=timedelta(days=14))
        joiner.log_cases(ids=ids[rows], scores=self.scores[rows], at=[times[row] for row in rows])
        known = rows[self.is_labelled[rows]]
        joiner.label_cases(ids=ids[known], labels=self.labels[known], at=self.noon + 4 * HOUR)
        return joiner


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    rng = np.random.default_rng(1)
    labels = rng.random(1_200) < 0.3
    scores = rng.normal(1.5 * labels)
    country = np.where(rng.random(1_200) < 0.25, "DE", "US")
    directory = tmp_path_factory.mktemp("data")
    now = datetime.fromtimestamp(time.time() // 3600 * 3600, UTC) - 5 * HOUR
    with running_server(Settings(data=directory, listen="127.0.0.1:0")) as address:
        found = Service(address, directory, now, labels, scores, country)
        with Client(address) as client:
            client.create_stream(STREAM, segment_keys=["country"])
            stream = client.stream(STREAM)
            ids = [f"p{row}" for row in range(1_200)]
            times = [now + HOUR * (row // 400) for row in range(1_200)]
            stream.log_cases(ids=ids, scores=scores, at=times, segments={"country": country})
            known = found.is_labelled
            stream.label_cases(ids=np.array(ids)[known], labels=labels[known])
            client.flush()
            stream.snapshot()  # waits until all is visible
        yield found


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with Client(service.address) as client:
        yield client


def test_it_draws_as_the_library_does(service: Service, client: Client) -> None:
    """The bands, ids and probabilities of a `LabelJoiner` with the same predictions and labels."""
    stream = client.stream(STREAM)
    span = (service.noon + HOUR, service.noon + 2 * HOUR)
    cases = [
        (np.arange(1_200), {}, {}),
        (np.arange(1_200), {"metric": "precision", "threshold": 1.0}, {}),
        (np.arange(1_200), {"metric": "auc_pr", "prevalence": 0.1}, {}),
        (np.arange(400, 800), {"metric": "auc_roc"}, {"window": span}),
        (np.flatnonzero(service.country == "DE"), {}, {"segment": ("country", "DE")}),
    ]
    for rows, arguments, selected in cases:
        mine = service.joiner(rows).sample_for_labels(size=90, seed=2**64 - 1, **arguments)
        found = stream.sample_for_labels(90, seed=2**64 - 1, **arguments, **selected)
        assert found.bands == mine.allocation.bands
        assert found.ids == mine.ids
        assert found.label_probabilities == tuple(mine.label_probabilities)
        assert (found.size, len(found), found.seed) == (90, 90, 2**64 - 1)
        assert found.waiting == (~service.is_labelled[rows]).sum()
        assert not found.is_proportional
        assert found.window == selected.get("window")


def test_bands_alone_and_random_seeds(client: Client) -> None:
    """Without ids none are sent; without a seed each draw has another."""
    stream = client.stream(STREAM)
    found = stream.sample_for_labels(50, draw_ids=False)
    assert (found.ids, found.label_probabilities) == ((), ())
    assert sum(band.to_label for band in found.bands) == 50
    first, second = (stream.sample_for_labels(50) for _ in range(2))
    assert first.seed != second.seed
    assert first.bands == second.bands == found.bands
    assert set(first.ids) != set(second.ids)
    assert stream.sample_for_labels(50, seed=first.seed).ids == first.ids
    assert stream.sample_for_labels(1_000).label_probabilities == (1.0,) * 1_000


async def ask(address: str) -> tuple[str, ...]:
    async with AsyncClient(address) as client:
        return (await client.stream(STREAM).sample_for_labels(5, seed=3)).ids


def test_the_asyncio_client_asks_the_same(service: Service, client: Client) -> None:
    assert asyncio.run(ask(service.address)) == (
        client.stream(STREAM).sample_for_labels(5, seed=3).ids
    )


def test_a_draw_is_repeated_from_the_log(service: Service, client: Client) -> None:
    """At its revision, with its window and seed, though labels have come since."""
    client.create_stream("again")
    stream = client.stream("again")
    ids = [f"p{row}" for row in range(300)]
    stream.log_cases(ids=ids, scores=service.scores[:300], at=service.noon)
    stream.label_cases(ids=ids[:80], labels=service.labels[:80])
    client.flush()
    found = stream.sample_for_labels(40, window=timedelta(days=2), metric="auc_roc")
    assert found.window is not None
    stream.label(found.ids[0], True)
    client.flush()
    call = calls.sample_for_labels(
        stream.select(window=found.window),
        0,
        40,
        metric="auc_roc",
        threshold=None,
        prevalence=None,
        seed=found.seed,
        draw_ids=True,
    )
    again, now = (
        call.read(sample_then(service.directory, revision, call.request))
        for revision in (found.revision, None)
    )
    assert again == found
    assert now.revision > found.revision
    assert found.ids[0] not in now.ids
    with pytest.raises(RequestError, match="there was no stream again at revision 1"):
        sample_then(service.directory, 1, call.request)


@pytest.mark.parametrize("transport", ["client", "grpc"])
def test_the_labels_come_back_with_their_probabilities(
    service: Service, client: Client, transport: str
) -> None:
    """The figures are the library's, and near those of all labels."""
    name = f"back/{transport}"
    stream = client.stream(name)
    ids = np.array([f"p{row}" for row in range(1_200)])
    times = [service.noon + HOUR * (row // 400) for row in range(1_200)]
    known = service.is_labelled
    stream.log_cases(ids=ids, scores=service.scores, at=times)
    stream.label_cases(ids=ids[known], labels=service.labels[known])
    client.flush()
    found = stream.sample_for_labels(400, metric="auc_roc", seed=8)
    rows = np.array([int(id_[1:]) for id_ in found.ids])
    if transport == "client":
        stream.label_cases(
            ids=found.ids,
            labels=service.labels[rows],
            label_probability=found.label_probabilities,
        )
        client.flush()
        snapshot = stream.snapshot(window=timedelta(days=2))
    else:
        labels = ingest_pb2.Labels(
            ids=found.ids,
            positives=service.labels[rows].tolist(),
            label_probabilities=found.label_probabilities,
        )
        batch = ingest_pb2.IngestBatchRequest(batch=ingest_pb2.Batch(stream=name, labels=labels))
        with grpc.insecure_channel(service.address) as channel:
            stub = ingest_pb2_grpc.IngestServiceStub(channel)
            revision = stub.IngestBatch(batch, timeout=20).revision
            selection = types_pb2.Selection(
                stream=name, min_revision=revision, last={"seconds": 172_800}
            )
            asked = query_pb2.GetSnapshotRequest(selection=selection)
            queries = query_pb2_grpc.QueryServiceStub(channel)
            snapshot = read_snapshot(queries.GetSnapshot(asked, timeout=20).snapshot)
    joiner = service.joiner(np.arange(1_200))
    sample = joiner.sample_for_labels(size=400, metric="auc_roc", seed=8)
    assert sample.ids == found.ids
    joiner.label_cases(
        ids=sample.ids,
        labels=service.labels[rows],
        at=service.noon + 5 * HOUR,
        label_probability=sample.label_probabilities,
    )
    expected = joiner.evaluator.between(service.noon, service.noon + 3 * HOUR)
    weights = snapshot.weights
    assert weights is not None
    assert weights == expected.weights
    assert snapshot.auc_roc == expected.auc_roc()
    # The known ones count once, and each band's drawn ones stand for all of it.
    assert math.isclose(weights.positives + weights.negatives, 1_200, rel_tol=1e-4)
    whole = Evaluator()
    whole.add_cases(labels=service.labels, scores=service.scores)
    interval = expected.interval("auc_roc")
    answered = snapshot.intervals["auc_roc"]
    assert (answered.lower, answered.upper) == (interval.lower, interval.upper)
    assert interval.lower < whole.auc_roc() < interval.upper


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 5_000}, "size must be from 1 to the 1000 predictions that wait, got 5000"),
        ({"size": 20_001}, "size must be at most 20,000 where ids are drawn, got 20,001"),
        ({"metric": "maximum_mcc"}, "labels cannot be allocated for 'maximum_mcc'; they can for:"),
        ({"metric": "recall"}, "recall needs a threshold: threshold=..."),
        ({"threshold": 0.5}, "auc_pr takes no threshold"),
        ({"prevalence": 2.0}, "prevalence must be between 0 and 1, got 2.0"),
        ({"segment": ("city", "x")}, "stream fraud/v3 has no segment key 'city'"),
    ],
)
def test_requests_that_cannot_be_answered(
    client: Client, arguments: dict[str, Any], message: str
) -> None:
    """One line that says what is wrong; the server goes on."""
    with pytest.raises(InvalidRequestError) as found:
        client.stream(STREAM).sample_for_labels(**{"size": 10, **arguments})
    assert message in str(found.value)
    assert client.stream(STREAM).sample_for_labels(1).size == 1


def test_the_declared_threshold_is_the_default(service: Service, client: Client) -> None:
    """Of a stream that declares one; another one in the request counts."""
    client.create_stream("declared", threshold=1.0)
    stream = client.stream("declared")
    ids = [f"p{row}" for row in range(400)]
    stream.log_cases(ids=ids, scores=service.scores[:400])
    stream.label_cases(ids=ids[:100], labels=service.labels[:100])
    client.flush()
    found = stream.sample_for_labels(60, metric="precision", seed=1)
    same = stream.sample_for_labels(60, metric="precision", threshold=1.0, seed=1)
    other = stream.sample_for_labels(60, metric="precision", threshold=0.2, seed=1)
    assert (found.bands, found.ids) == (same.bands, same.ids)
    assert other.bands != found.bands
    with pytest.raises(InvalidRequestError, match="expected_cost needs a cost_fp: cost_fp="):
        stream.sample_for_labels(60, metric="expected_cost")
    costs = {"cost_fp": 1.0, "cost_fn": 30.0}
    client.update_stream("declared", **costs)
    found = stream.sample_for_labels(60, metric="expected_cost", seed=1)
    labelled = Evaluator()
    labelled.add_cases(labels=service.labels[:100], scores=service.scores[:100])
    mine = allocate_labels(
        labelled,
        scores=service.scores[100:400],
        size=60,
        metric="expected_cost",
        threshold=1.0,
        **costs,
    )
    assert found.bands == mine.bands


def test_what_the_client_refuses_itself(client: Client) -> None:
    for arguments in ({"size": 0}, {"size": 1, "seed": -1}, {"size": 1, "seed": 2**64}):
        with pytest.raises(InvalidInputError, match="must be an integer from"):
            client.stream(STREAM).sample_for_labels(**arguments)
    with pytest.raises(PreconditionError, match="no prediction of stream fraud/v3 waits"):
        client.stream(STREAM).sample_for_labels(1, segment=("country", "FR"))
    with pytest.raises(NotFoundError, match="there is no stream nowhere"):
        client.stream("nowhere").sample_for_labels(1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"expired": "negative"}, "counts predictions that expire as negatives, although"),
        ({"orphans": "miss"}, "counts orphans as misses: its labels take no label probabilities"),
    ],
)
def test_no_draw_whose_labels_could_not_stand_for_the_others(
    client: Client, settings: dict[str, Any], message: str
) -> None:
    """Where probabilities are refused, or where those that are not drawn would count too."""
    name = f"refused/{next(iter(settings))}"
    client.create_stream(name, **settings)
    client.stream(name).log_cases(ids=["a", "b"], scores=[0.3, 0.6])
    client.flush()
    with pytest.raises(PreconditionError, match=message):
        client.stream(name).sample_for_labels(1)


def test_a_half_life_is_refused(service: Service) -> None:
    with grpc.insecure_channel(service.address) as channel:
        request = query_pb2.SampleForLabelsRequest(
            selection=types_pb2.Selection(stream=STREAM, half_life={"seconds": 60}), size=1
        )
        with pytest.raises(grpc.RpcError, match="leave out half_life"):
            query_pb2_grpc.QueryServiceStub(channel).SampleForLabels(request, timeout=20)


def test_the_servers_log_has_the_draw_without_ids(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """Who drew how many of each band, when and with which seed; ids never."""
    with caplog.at_level(logging.INFO, logger="streameval_server"):
        found = client.stream(STREAM).sample_for_labels(30, seed=77)
        client.stream(STREAM).sample_for_labels(30, draw_ids=False)
    lines = [each.getMessage() for each in caplog.records if "drew" in each.getMessage()]
    assert len(lines) == 1
    assert f"drew 30 ids of fraud/v3 to label for auc_pr, at revision {found.revision}" in lines[0]
    assert "with seed 77: " in lines[0]
    assert all(f"{each.to_label}/{each.waiting} from" in lines[0] for each in found.bands)
    assert not any(f" {id_} " in lines[0] for id_ in found.ids)
