"""The verbs of pairs: what they ask for, and the answers as objects."""

from __future__ import annotations

import asyncio
import json
import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from streameval import InvalidInputError
from streameval.client import AsyncClient, Client, NotFoundError
from streameval.v1 import pair_pb2

from ...fake_pairs import comparison, pair, refused, running_pairs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...fake_pairs import FakePairs

NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)


@pytest.fixture
def served() -> Iterator[tuple[Client, FakePairs]]:
    """Yield a client of fake pairs."""
    with running_pairs() as (address, service), Client(address) as client:
        yield client, service


def test_a_decided_comparison(served) -> None:
    """Every field arrives; text is the sentence, limits, ids and disagreements."""
    client, service = served
    found = client.compare_pair("rollout")
    assert (found.names, found.winner, found.verdict) == (
        ("fraud/v3", "fraud/v4"),
        "fraud/v4",
        "b_better",
    )
    assert (found.difference, found.lower, found.upper) == (-0.021, -0.028, -0.014)
    assert (found.looks.lower, found.looks.upper, found.looks.anytime) == (-0.030, -0.012, True)
    assert (found.a.estimate, found.b.estimate) == (0.702, 0.723)
    assert (found.p_value, found.e_value, found.revision) == (1e-6, 812.5, 90)
    assert found.decided_since == datetime(2026, 11, 25, 14, 20, tzinfo=UTC)
    assert (found.coverage.shared_share, found.coverage.labelled) == (0.935, 48_211)
    assert (found.labels_needed, found.window, found.segment, found.reason) == (None,) * 4
    page = found._repr_html_()
    assert found.sentence in page
    assert "fraud/v3 minus fraud/v4</th>" in page
    assert "-0.0210 (-0.0280 to -0.0140)" in page
    assert str(found.coverage) in page
    assert repr(found) == str(found)
    assert found.to_rows()[0]["difference_lower"] == -0.028
    assert str(found).splitlines() == [
        service.answer.comparison.sentence,
        (
            "fraud/v3 0.7020, fraud/v4 0.7230; fraud/v3 minus fraud/v4 -0.0210 "
            "(-0.0280 to -0.0140, p = 1e-06)"
        ),
        (
            "48,900 ids are scored by both (93.5% of all), 48,211 of them labelled: "
            "2,410 positive, 45,801 negative"
        ),
        (
            "at their thresholds they disagree on 1.2% of the labelled ids: fraud/v3 was right "
            "in 202 of them, fraud/v4 in 400"
        ),
    ]
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["decided_since"].startswith(
        "2026-11-25T14:20"
    )


def test_no_answer_yet(served) -> None:
    client, service = served
    service.answer = pair_pb2.GetPairComparisonResponse(comparison=refused())
    found = client.compare_pair("rollout")
    assert (found.verdict, found.winner, found.reason) == ("no_answer", None, "NO_LABELS")
    for value in (found.difference, found.lower, found.p_value, found.e_value, found.looks.lower):
        assert value is not None
        assert math.isnan(value)
    assert found.disagreement is None
    assert str(found).startswith("no answer: no shared id has a label yet")
    assert found.to_dict()["difference"] is None


def test_what_a_comparison_asks_for(served) -> None:
    """Selection without a stream, metric, prevalence, level, segments; steps of a span."""
    client, service = served
    segment = comparison(labels_needed=3_400)
    segment.segment.key, segment.segment.value = "country", "US"
    segment.compared.warnings.append("few")
    service.answer.segments.append(segment)
    found = client.compare_pair(
        "rollout",
        window=timedelta(hours=2),
        segment=("country", "US"),
        metric="auc_roc",
        prevalence=0.01,
        level=0.9,
        by_segment="country",
    )
    (inside,) = found.segments
    assert (inside.segment, inside.labels_needed, inside.warnings) == (
        ("country", "US"),
        3_400,
        ("few",),
    )
    asked = service.requests[-1]
    assert (asked.name, asked.metric, asked.level) == ("rollout", "auc_roc", 0.9)
    assert (asked.prevalence, asked.own_prevalence, asked.by_segment) == (0.01, False, "country")
    assert (asked.selection.stream, asked.selection.last.seconds) == ("", 7_200)
    assert asked.selection.segment.value == "US"
    service.series = [comparison(), refused()]
    steps = client.pair_series(
        *("rollout", NOON, NOON + timedelta(hours=2), timedelta(hours=1)),
        prevalence="own",
        cumulative=True,
    )
    assert [each.verdict for each in steps] == ["b_better", "no_answer"]
    asked = service.requests[-1]
    assert (asked.step.seconds, asked.own_prevalence, asked.cumulative) == (3_600, True, True)
    assert asked.selection.between.start_time.ToDatetime(UTC) == NOON


def test_pairs_are_made_listed_and_deleted(served) -> None:
    """With the settings that are given; an id of the request lets gRPC send it again."""
    client, service = served
    made = client.create_pair(
        "m/1", "m/2", max_cells=256, prevalence=0.02, label_ttl=timedelta(days=1)
    )
    asked = service.requests[-1]
    assert len(asked.request_id) == 36
    assert {field.name for field, _ in asked.pair.settings.ListFields()} == {
        "max_cells",
        "prevalence",
        "label_ttl",
    }
    assert (asked.pair_id, asked.pair.name) == ("", "")
    assert (made.name, made.a, made.b, made.create_time) == ("m/1-vs-m/2", "m/1", "m/2", NOON)
    assert (made.settings.label_ttl, made.settings.prevalence) == (timedelta(days=1), 0.02)
    assert client.create_pair("z/1", "z/2", name="z").name == "z"
    assert [each.name for each in client.list_pairs()] == ["m/1-vs-m/2", "rollout", "z"]
    assert [each.a for each in client.list_pairs("m/2")] == ["m/1"]
    found = client.get_pair("m/1-vs-m/2")
    assert found.counters is not None
    assert (found.counters.kept_ids, found.counters.weighted_labels) == (17, 3)
    assert found.settings.expired == "drop"
    assert found.to_dict()["settings"]["pane"] == 60.0
    client.delete_pair("z")
    assert len(service.requests[-1].request_id) == 36
    with pytest.raises(NotFoundError, match="there is no pair z"):
        client.get_pair("z")


def test_the_asyncio_client_has_the_same_verbs() -> None:
    async def task(address: str) -> None:
        async with AsyncClient(address) as client:
            found = await client.compare_pair("rollout")
            assert found.winner == "fraud/v4"
            assert [each.a for each in await client.list_pairs()] == ["fraud/v3"]

    with running_pairs() as (address, _):
        asyncio.run(task(address))


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"prevalence": 1.5}, "prevalence"),
        ({"prevalence": "common"}, "prevalence"),
        ({"window": "1x"}, "window"),
        ({"segment": "country"}, "segment"),
    ],
)
def test_bad_arguments_are_not_sent(served, arguments, field) -> None:
    client, service = served
    with pytest.raises(InvalidInputError) as caught:
        client.compare_pair("rollout", **arguments)
    assert caught.value.field == field
    assert not service.requests


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"max_cells": 0}, "max_cells must be a positive integer, got 0"),
        ({"max_pending": True}, "max_pending must be a positive integer, got True"),
        ({"pane": 60}, "pane"),
        ({"prevalence": "half"}, "prevalence"),
    ],
)
def test_bad_settings_are_not_sent(served, settings, error) -> None:
    client, service = served
    with pytest.raises(InvalidInputError, match=error):
        client.create_pair("m/1", "m/2", **settings)
    with pytest.raises(TypeError, match="there is no setting 'bits'"):
        client.create_pair("m/1", "m/2", bits=3)
    with pytest.raises(InvalidInputError, match="stream name must not be empty"):
        client.create_pair("", "m/2")
    for call in (client.get_pair, client.delete_pair, client.compare_pair):
        with pytest.raises(InvalidInputError, match=r"pair name must be \[A-Za-z0-9"):
            call("m/1 m/2")
    with pytest.raises(InvalidInputError, match="pair name must be at most 128 characters"):
        client.create_pair("m/1", "m/2", name="m" * 129)
    assert not service.requests


def test_a_pair_is_on_one_server() -> None:
    with Client(["a:1", "b:1"]) as client:
        names = [f"m/{number}" for number in range(20)]
        other = next(
            name
            for name in names
            if client._servers.for_stream(name) is not client._servers.for_stream("m/0")
        )
        with pytest.raises(InvalidInputError, match="different servers, and a pair is on one"):
            client.create_pair("m/0", other)


def test_one_of_several_servers_has_a_pair() -> None:
    """Each is asked; a name on two of them is refused, and one on none is not found."""
    with (
        running_pairs() as (first, one),
        running_pairs() as (second, other),
        Client([first, second]) as client,
    ):
        other.known = [pair(name="next")]
        assert client.get_pair("next").name == "next"
        client.compare_pair("next", metric="auc_roc")
        assert other.requests[-1].metric == "auc_roc"
        with pytest.raises(NotFoundError, match="there is no pair none"):
            client.delete_pair("none")
        other.known.append(pair())
        with pytest.raises(InvalidInputError) as caught:
            client.delete_pair("rollout")
        assert str(caught.value) == (
            f"there is a pair rollout on each of {first}, {second}: ask a client of one server "
            "for it"
        )
        assert len(one.known) == 1
