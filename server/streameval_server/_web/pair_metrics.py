"""Pairs for Prometheus: how far two models differ on shared ids, and whether that suffices.

A comparison takes some milliseconds of a query thread for each metric. So a scrape compares at
most `MAX_NEW_PAIRS` pairs, the longest waiting first, and repeats the others' last comparison.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prometheus_client.core import GaugeMetricFamily

from streameval.statistics import BY_NAME, ComparedPair, Place
from streameval.v1 import pair_pb2
from streameval_server._model.errors import Code, RequestError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

    from streameval_server._grpc.methods import Methods

MAX_NEW_PAIRS = 4
"""Pairs that one scrape compares."""

SERIES_A_PAIR = 6 * len(Place.MONITOR.names()) + 4
"""Difference, its limits, evidence, since when it suffices, and refusal of each metric; shared
ids, their share, and the labelled ones of both classes."""

_Names = tuple[str, str, str]
_PAGE_SIZE = 1_000
_SERVICE = "streameval.v1.PairService"
_REFUSAL_PREFIX = "PAIR_REFUSAL_"


@dataclass(slots=True)
class PairReadings:
    """The pairs at the time of one scrape.

    Attributes
    ----------
    by_names : dict of (str, str, str) to list of PairComparison
        By the names of the pair and of its streams: one for each metric, of pairs that had
        their turn, the longest ago first.
    left_out : int
        How many pairs are not exported.
    """

    by_names: dict[_Names, list[pair_pb2.PairComparison]] = field(default_factory=dict)
    left_out: int = 0


class PairMetrics:
    """Reads the pairs whose streams the current call's token covers.

    Parameters
    ----------
    methods
        The server's.
    """

    def __init__(self, methods: Methods) -> None:
        self._list = methods.find(f"{_SERVICE}/ListPairs")
        self._compare = methods.find(f"{_SERVICE}/GetPairComparison")

    async def read(self, before: PairReadings, room: int) -> PairReadings:
        """Compare the pairs whose turn it is; the others are as `before`.

        Parameters
        ----------
        before : PairReadings
            The previous scrape's.
        room : int
            How many series there may be.
        """
        listed = await self._names()
        wanted = dict.fromkeys(listed[: max(room, 0) // SERIES_A_PAIR])
        kept = {names: found for names, found in before.by_names.items() if names in wanted}
        turns = [*(names for names in wanted if names not in kept), *kept]
        for names in turns[:MAX_NEW_PAIRS]:
            kept.pop(names, None)
            try:
                kept[names] = [
                    await self._comparison(names, metric) for metric in Place.MONITOR.names()
                ]
            except RequestError as error:
                if error.code is not Code.NOT_FOUND:  # deleted since it was listed
                    raise
        return PairReadings(kept, len(listed) - len(wanted))

    async def _names(self) -> list[_Names]:
        request = pair_pb2.ListPairsRequest(page_size=_PAGE_SIZE)
        found: list[_Names] = []
        while True:
            page: Any = await self._list.answer(request)
            found += [(pair.name, pair.a, pair.b) for pair in page.pairs]
            if not page.next_page_token:
                return found
            request.page_token = page.next_page_token

    async def _comparison(self, names: _Names, metric: str) -> pair_pb2.PairComparison:
        request = pair_pb2.GetPairComparisonRequest(name=names[0], metric=metric)
        answer: Any = await self._compare.answer(request)
        comparison: pair_pb2.PairComparison = answer.comparison
        return comparison


def pair_families(readings: PairReadings) -> Iterator[Metric]:
    """Yield the metric families of pairs; none where there is no pair."""
    if not readings.by_names and not readings.left_out:
        return
    yield GaugeMetricFamily(
        "streameval_pairs_left_out",
        "Pairs without series, because there would be too many.",
        value=readings.left_out,
    )
    yield from _metrics(readings)
    yield from _counts(readings)


def _metrics(readings: PairReadings) -> Iterator[Metric]:
    labels = ("pair", "a", "b")
    differences = {
        metric: [
            GaugeMetricFamily(f"streameval_pair_{metric}_difference{suffix}", help_, labels=labels)
            for suffix, help_ in (
                ("", f"{BY_NAME[metric].title} of a minus b's, on the ids that both have scored."),
                ("_lower", "Lower limit of its 95 % interval, however often one looks."),
                ("_upper", "Upper limit of the same."),
            )
        ]
        for metric in Place.MONITOR.names()
    }
    evidence, decided, refused = (
        GaugeMetricFamily(f"streameval_pair_{name}", help_, labels=(*labels, "metric", *more))
        for name, help_, *more in (
            (
                "evidence",
                "The evidence that one of them is better, as a share of what decides, 0 to 1.",
            ),
            (
                "decided_timestamp_seconds",
                "Since when the evidence has decided without interruption.",
            ),
            ("refused", "Why a difference has no limits.", "reason"),
        )
    )
    for names, comparisons in sorted(readings.by_names.items()):
        for found in comparisons:
            difference = found.compared.difference
            value, lower, upper = differences[difference.name]
            if difference.HasField("value"):
                value.add_metric(names, difference.value)
            if found.anytime.HasField("lower"):
                lower.add_metric(names, found.anytime.lower)
                upper.add_metric(names, found.anytime.upper)
            of = (*names, difference.name)
            if found.HasField("e_value"):
                evidence.add_metric(of, _share(found.e_value))
            if found.HasField("decided_since"):
                decided.add_metric(of, found.decided_since.ToMicroseconds() / 1e6)
            if found.refusal:
                reason = pair_pb2.PairRefusal.Name(found.refusal).removeprefix(_REFUSAL_PREFIX)
                refused.add_metric((*of, reason.lower()), 1)
    for each in differences.values():
        yield from each
    yield from (evidence, decided, refused)


def _share(e_value: float) -> float:
    """Return the logarithm of an e-value as a share of what decides, within 0 and 1.

    >>> _share(0.5), round(_share(20**0.5), 6), _share(1e9)
    (0.0, 0.5, 1.0)
    """
    if e_value <= 1:
        return 0.0
    return min(1.0, math.log(e_value) / math.log(ComparedPair.DECIDING_E_VALUE))


def _counts(readings: PairReadings) -> Iterator[Metric]:
    labels = ("pair", "a", "b")
    shared = GaugeMetricFamily(
        "streameval_pair_shared_ids", "Ids that both have predicted.", labels=labels
    )
    share = GaugeMetricFamily(
        "streameval_pair_shared_share",
        "Share of the ids that either has predicted.",
        labels=labels,
    )
    labelled = GaugeMetricFamily(
        "streameval_pair_labelled_ids",
        "Shared ids whose label counts.",
        labels=(*labels, "class"),
    )
    for names, comparisons in sorted(readings.by_names.items()):
        coverage = comparisons[0].coverage
        shared.add_metric(names, coverage.shared)
        if coverage.HasField("shared_share"):
            share.add_metric(names, coverage.shared_share)
        labelled.add_metric((*names, "positive"), coverage.positives)
        labelled.add_metric((*names, "negative"), coverage.negatives)
    yield from (shared, share, labelled)
