"""``streameval query --by``: the segments as they are ranked, and since when each is lower."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pytest

pytest.importorskip("typer", reason="needs the extra cli")

from streameval.client import Client
from streameval_server import Settings
from streameval_server.testing import running_server

from ...commands import run

if TYPE_CHECKING:
    from collections.abc import Iterator


HOUR = timedelta(hours=1)
STREAM = "fraud/v3"
END = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
START = END - 24 * HOUR
FELL = END - 8 * HOUR
STEP = 2 * HOUR
"""The width of a step at most: a 24th of a day and some minutes, in panes of an hour."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Yield a server whose stream fell 8 of 24 hours ago in BR, and has a small segment."""
    with (
        running_server(Settings(listen="127.0.0.1:0", memory=True)) as address,
        Client(address) as client,
    ):
        client.create_stream(STREAM, segment_keys=["country"])
        client.create_stream("no/keys")
        stream = client.stream(STREAM)
        rng = np.random.default_rng(3)
        for hour in range(24):
            at = START + hour * HOUR + HOUR / 2
            for country, size in (("BR", 200), ("DE", 300), ("US\n", 300), ("", 100)):
                labels = np.arange(size) % 4 == 0
                has_fallen = country == "BR" and at > FELL
                scores = rng.normal(size=size) + (0.2 if has_fallen else 2.0) * labels
                stream.add_cases(labels=labels, scores=scores, at=at, segments={"country": country})
        stream.add_cases(labels=[1, 0], scores=[1, 0], at=END - HOUR, segments={"country": "FR"})
        stream.flush()
        yield address


@pytest.mark.parametrize("window", [(), ("--window", "2d")])
def test_the_table_is_the_ranking(address: str, window: tuple[str, ...]) -> None:
    """One line a segment, the worst first: its figure, limits, share, and the hour it fell in."""
    result = run("query", "--server", address, STREAM, "--by", "country", *window)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    covers = ", the last 2d" if window else ""
    assert lines[0].startswith(f"{STREAM}{covers} at revision ")
    assert "AUC-PR by country at prevalence 0.25" in lines[0]
    with Client(address) as client:
        span = timedelta(days=2) if window else None
        ranking = client.stream(STREAM).rank_segments("country", window=span, min_references=10)
    names = {"US\n": "US\\n", "": "(no value)"}
    for line, each in zip(lines[2:6], ranking, strict=True):
        name = each.segment[1]
        size = each.num_positive_ref + each.num_negative_ref
        shown = [
            names.get(name, name),
            f"{each.value:.3f}",
            f"{each.difference:+.3f} ({each.lower:+.3f} to {each.upper:+.3f})",
            f"{each.p_value:.2g}",
            f"{size:,}",
            f"{100 * size / 21_602:.1f} %",
        ]
        assert re.split(r" {2,}", line.strip()) == shown
    assert lines[2].split()[0] == "BR"
    assert lines[6] == "1 with fewer than 10 positives or negatives are left out"


def test_json_has_the_same(address: str) -> None:
    """Numbers as they are."""
    result = run(
        "query", "--server", address, STREAM, "--by", "country", "--window", "1d", "--json"
    )
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    with Client(address) as client:
        stream = client.stream(STREAM)
        ranking = stream.rank_segments("country", window=24 * HOUR, min_references=10)
    assert [each["value"] for each in found["segments"]] == [each.segment[1] for each in ranking]
    worst, known = found["segments"][0], ranking.segments[0]
    assert worst["auc_pr"] == known.value.estimate
    assert (worst["lower"], worst["upper"]) == tuple(known.value)
    assert worst["difference"] == known.difference
    assert found["num_left_out"] == 1
    total = sum(each["share"] for each in found["segments"])
    assert 0.99 < total < 1.0


def test_what_has_no_segments_is_told(address: str) -> None:
    """Other options, an undeclared key: one line; a stream without cases: an empty table."""
    for arguments, told in (
        ((STREAM, "--by", "country", "--segment", "country=BR"), "leave out --segment"),
        ((STREAM, "--by", "country", "--projection"), "leave out --projection"),
        ((STREAM, "--by", "shop"), "shop"),
        (("no/such", "--by", "country"), "no/such"),
    ):
        result = run("query", "--server", address, *arguments)
        assert result.exit_code == 2, result.output
        assert told in result.stderr
        assert result.stderr.count("\n") == 1
    with Client(address) as client:
        client.create_stream("no/cases", segment_keys=["country"])
    empty = run("query", "--server", address, "no/cases", "--by", "country")
    assert empty.exit_code == 0, empty.output
    assert empty.stdout.splitlines()[1].split()[0] == "country"
