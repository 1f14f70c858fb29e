"""Champion and challenger from the client and the commands, on a running server."""

from __future__ import annotations

import asyncio
import json
import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pytest

pytest.importorskip("typer", reason="needs the extra cli")
from streameval import compare_paired
from streameval.client import (
    AlreadyExistsError,
    AsyncClient,
    Client,
    InvalidRequestError,
    NotFoundError,
)
from streameval.statistics import Place
from streameval_server.testing import running_server

from ..commands import outcome as run

if TYPE_CHECKING:
    from collections.abc import Iterator

A, B = "fraud/v3", "fraud/v4"
PAIR = "fraud/v3-vs-fraud/v4"
ROWS = 1_500


def columns(seed: int = 5, gap: float = 0.8) -> dict[str, np.ndarray]:
    """Return the labels and both models' scores of shared ids."""
    rng = np.random.default_rng(seed)
    labels = rng.random(ROWS) < 0.2
    seen = rng.normal(labels * 1.5, 1)
    return {
        "labels": labels,
        "scores_a": seen + rng.normal(0, gap, ROWS),
        "scores_b": seen + rng.normal(0, 0.3, ROWS),
    }


def send(client: Client, rows: dict[str, np.ndarray], *, prefix: str = "order") -> None:
    """Log both models' scores, b's in another order, and the labels to one stream."""
    ids = [f"{prefix}-{number}" for number in range(ROWS)]
    country = np.where(np.arange(ROWS) % 3 == 0, "US", "DE")
    back = np.arange(ROWS)[::-1]
    client.stream(A).log_cases(ids=ids, scores=rows["scores_a"], segments={"country": country})
    client.stream(B).log_cases(
        ids=[ids[each] for each in back],
        scores=rows["scores_b"][back],
        segments={"country": country[back]},
    )
    client.stream(B).label_cases(ids=ids, labels=rows["labels"])
    client.flush()


@pytest.fixture
def served() -> Iterator[tuple[str, Client]]:
    """Yield a server with two streams, and a client of it."""
    with running_server() as address, Client(address) as client:
        for name in (A, B):
            client.create_stream(name, threshold=1.2, segment_keys=["country"])
        yield address, client


@pytest.mark.parametrize("metric", Place.COMPARISON.names())
def test_the_answer_is_that_of_the_columns(served, metric: str) -> None:
    """Figures, limits, p-value and evidence equal `compare_paired` of the same rows."""
    _, client = served
    client.create_pair(A, B)
    rows = columns()
    send(client, rows)
    found, known = client.compare_pair(PAIR, metric=metric), compare_paired(**rows, metric=metric)
    assert found.names == (A, B)
    assert found.difference == pytest.approx(known.difference, abs=1e-12)
    for side, of_columns in ((found.a, known.a), (found.b, known.b)):
        assert side.estimate == pytest.approx(of_columns.estimate, abs=1e-12)
    assert (found.lower, found.upper) == pytest.approx((known.lower, known.upper), abs=1e-9)
    assert found.p_value == pytest.approx(known.p_value, rel=1e-6)
    assert found.e_value == pytest.approx(known.e_value, rel=1e-6)
    assert (found.winner, found.verdict, found.reason) == (B, "b_better", None)
    assert found.looks.lower < found.lower < found.upper < found.looks.upper
    covered = found.coverage
    assert (covered.shared, covered.labelled, covered.shared_share) == (ROWS, ROWS, 1.0)
    assert covered.positives == rows["labels"].sum()


def test_disagreements_are_counted_at_the_declared_thresholds(served) -> None:
    """Of every labelled shared id, by class: against a count of the columns."""
    _, client = served
    client.create_pair(A, B)
    rows = columns()
    send(client, rows)
    found = client.compare_pair(PAIR).disagreement
    assert found is not None
    by_a, by_b = rows["scores_a"] >= 1.2, rows["scores_b"] >= 1.2
    labels = rows["labels"]
    assert found.both_flag_positives == (by_a & by_b & labels).sum()
    assert found.only_a_positives == (by_a & ~by_b & labels).sum()
    assert found.only_b_negatives == (by_b & ~by_a & ~labels).sum()
    assert found.a_right == ((by_a != by_b) & (by_a == labels)).sum()
    assert found.b_right == ((by_a != by_b) & (by_b == labels)).sum()
    assert found.share == pytest.approx((by_a != by_b).mean())


def test_segments_windows_and_time(served) -> None:
    """Each value of a key is that of its columns; steps of time add up to all ids."""
    _, client = served
    client.create_pair(A, B)
    rows = columns()
    send(client, rows)
    found = client.compare_pair(PAIR, metric="auc_roc", by_segment="country")
    assert [each.segment for each in found.segments] == [("country", "DE"), ("country", "US")]
    american = np.arange(ROWS) % 3 == 0
    known = compare_paired(
        **{name: each[american] for name, each in rows.items()}, metric="auc_roc"
    )
    inside = client.compare_pair(PAIR, metric="auc_roc", segment=("country", "US"))
    for each in (found.segments[1], inside):
        assert each.difference == pytest.approx(known.difference, abs=1e-12)
        assert each.upper == pytest.approx(known.upper, abs=1e-9)
    hour = client.compare_pair(PAIR, window=timedelta(hours=1))
    assert hour.coverage == found.coverage
    assert hour.window is not None
    assert any("this window moves" in warning for warning in hour.warnings)
    now = datetime.now(UTC)
    span = (now - timedelta(minutes=10), now + timedelta(minutes=1), timedelta(minutes=1))
    alone = client.pair_series(PAIR, *span)
    assert sum(each.coverage.labelled for each in alone) == ROWS
    so_far = client.pair_series(PAIR, *span, cumulative=True)
    assert so_far[-1].coverage.labelled == ROWS
    assert len(so_far) == len(alone)
    assert math.isnan(alone[0].difference)
    with pytest.raises(InvalidRequestError):
        client.compare_pair(PAIR, segment=("device", "web"))


def test_pairs_come_and_go(served) -> None:
    """What was predicted before is not counted; streams stay; one pair of two streams."""
    _, client = served
    send(client, columns(1), prefix="early")
    with pytest.raises(NotFoundError):
        client.compare_pair(PAIR)
    made = client.create_pair(A, B, max_cells=256, label_ttl=timedelta(days=2))
    assert (made.settings.max_cells, made.settings.label_ttl) == (256, timedelta(days=2))
    assert made.settings.segment_keys == ("country",)
    assert made.name == PAIR
    with pytest.raises(AlreadyExistsError, match=f"{B} and {A} already: {PAIR}"):
        client.create_pair(B, A)
    assert client.compare_pair(PAIR).reason == "NO_LABELS"
    send(client, columns(2), prefix="late")
    assert client.compare_pair(PAIR).coverage.labelled == ROWS
    info = client.get_pair(PAIR)
    assert info.counters is not None
    assert (info.a, info.b, info.counters.repeated_predictions) == (A, B, 0)
    assert [(each.a, each.b) for each in client.list_pairs(B)] == [(A, B)]
    client.delete_pair(PAIR)
    assert client.list_pairs() == []
    assert client.get_stream(A).name == A
    with pytest.raises(NotFoundError):
        client.create_pair(A, "fraud/none")


def test_the_asyncio_client(served) -> None:
    address, client = served
    client.create_pair(A, B)
    send(client, columns())
    known = client.compare_pair(PAIR)  # waits until all rows are applied

    async def task() -> None:
        async with AsyncClient(address) as other:
            found = await other.compare_pair(PAIR)
            assert (found.winner, found.difference) == (B, known.difference)

    asyncio.run(task())


def test_the_commands_of_a_rollout(served) -> None:
    """From nothing to the sentence: created, listed, compared, deleted."""
    address, client = served
    code, _, errors = run("compare", "--server", address, A, B, "--paired")
    assert (code, "streameval pairs create" in errors) == (2, True)
    assert run("pairs", "create", "--server", address, A, B)[0] == 0
    assert (
        "no id that both have scored has a label"
        in run("compare", "--server", address, A, B, "--paired")[1]
    )
    send(client, columns(gap=0.32))
    code, printed, errors = run(
        "compare", "--server", address, A, B, "--paired", "--metric", "auc_roc"
    )
    assert (code, errors) == (0, "")
    assert printed.startswith("not decided: ")
    assert "at this difference" in printed.splitlines()[0]
    send(client, columns(3, gap=1.5), prefix="more")
    code, printed, errors = run("compare", "--server", address, A, B, "--paired", "--by", "country")
    assert printed.startswith(f"{B} is better")
    assert "on 3,000 shared ids" in printed.splitlines()[0]
    code, printed, _ = run("compare", "--server", address, A, B, "--paired", "--json")
    found = json.loads(printed)
    assert (found["verdict"], found["coverage"]["labelled"]) == ("b_better", 2 * ROWS)
    assert "add --paired" in run("compare", "--server", address, A, B)[1]
    assert run("pairs", "delete", "--server", address, PAIR, "--yes")[0] == 0
    assert "there is no pair" in run("pairs", "list", "--server", address)[1]
