"""Two segment keys crossed, end to end: counted, ranked, by id, merged, after a restart."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest

from streameval import Evaluator, compare
from streameval.client import Client, InvalidRequestError
from streameval_server import Settings
from streameval_server.testing import running_service

if TYPE_CHECKING:
    from pathlib import Path

KEY = "country*channel"
KEYS = ["country", "channel", KEY]
COUNTRIES, CHANNELS = ("BR", "US", ""), ("web", "app*")


def rows(size: int, seed: int):
    """Return labels, scores, and each row's values."""
    rng = np.random.default_rng(seed)
    labels = rng.random(size) < 0.3
    scores = np.round(1 / (1 + np.exp(1 - rng.normal(size=size) - 2 * labels)), 3)
    return labels, scores, rng.choice(COUNTRIES, size), rng.choice(CHANNELS, size)


def test_crossed_segments_are_those_of_their_rows(tmp_path: Path) -> None:
    """Of cases and of predictions by id, each as an evaluator of its rows; also after a restart."""
    labels, scores, countries, channels = rows(600, 11)
    known: dict[str, Evaluator] = {}
    for country, channel in product(COUNTRIES, CHANNELS):
        chosen = (countries == country) & (channels == channel)
        value = f"{country}*{channel.replace('*', chr(92) + '*')}" if country else ""
        evaluator = known.setdefault(value, Evaluator())
        evaluator.add_cases(labels=labels[chosen], scores=scores[chosen])
    settings = Settings(listen="127.0.0.1:0", data=tmp_path / "data")
    with running_service(settings) as addresses, Client(addresses.grpc) as client:
        client.create_stream("s", segment_keys=KEYS)
        stream = client.stream("s")
        half = slice(0, 300), slice(300, 600)
        segments = [
            {"country": countries[part].tolist(), "channel": channels[part].tolist()}
            for part in half
        ]
        stream.add_cases(labels=labels[half[0]], scores=scores[half[0]], segments=segments[0])
        ids = [str(number) for number in range(300)]
        stream.log_cases(ids=ids, scores=scores[half[1]], segments=segments[1])
        stream.label_cases(ids=ids, labels=labels[half[1]])
        client.flush()
        with pytest.raises(InvalidRequestError, match="has no segment key"):
            stream.snapshot(segment=("channel*country", "web*BR"))
    with running_service(settings) as addresses, Client(addresses.grpc) as client:
        stream = client.stream("s")
        for value, evaluator in known.items():
            found = stream.snapshot(segment=(KEY, value))
            assert found.num_positive_ref == evaluator.num_positive_ref
            assert found.num_negative_ref == evaluator.num_negative_ref
            assert found.auc_pr == evaluator.auc_pr()
        ranked = stream.rank_segments(KEY)
        assert {each.segment[1] for each in ranked} == set(known)
        greatest = max(each.prevalence for each in known.values())
        first = ranked.segments[0]
        rest = Evaluator()
        for value, evaluator in known.items():
            if value != first.segment[1]:
                rest.merge(evaluator)
        wanted = compare(known[first.segment[1]], rest, prevalence=greatest)
        assert first.difference == pytest.approx(wanted.difference, abs=1e-12)


def test_a_key_is_crossed_from_then_on() -> None:
    """Rows from before are in no slice of it; its keys must be declared, its values not be sent."""
    settings = Settings(listen="127.0.0.1:0", memory=True)
    with running_service(settings) as addresses, Client(addresses.grpc) as client:
        client.create_stream("s", segment_keys=["country", "channel"])
        stream = client.stream("s")
        values = {"country": ["BR"] * 4, "channel": ["web"] * 4}
        stream.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.1, 0.4, 0.6], segments=values)
        client.flush()
        with pytest.raises(InvalidRequestError, match="crosses device, which is not declared"):
            client.update_stream("s", segment_keys=["country", "channel", "country*device"])
        client.update_stream("s", segment_keys=KEYS)
        values = {key: each[:2] for key, each in values.items()}
        stream.add_cases(labels=[1, 0], scores=[0.8, 0.2], segments=values)
        client.flush()
        assert stream.snapshot(segment=(KEY, "BR*web")).num_cases == 2
        assert stream.snapshot(segment=("country", "BR")).num_cases == 6
        assert client.list_streams()[0].settings.segment_keys == tuple(KEYS)
