"""A server of pairs with given answers, for what clients, commands and pages make of them."""

from __future__ import annotations

from concurrent import futures
from contextlib import contextmanager
from typing import TYPE_CHECKING

import grpc

from streameval.v1 import pair_pb2, pair_pb2_grpc, query_pb2_grpc, types_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator


def pair(a: str = "fraud/v3", b: str = "fraud/v4", name: str = "rollout") -> pair_pb2.Pair:
    """Return a pair's description."""
    found = pair_pb2.Pair(name=name, a=a, b=b, create_revision=7)
    found.create_time.FromJsonString("2026-11-25T12:00:00Z")
    given = found.settings
    given.max_cells, given.max_pending, given.cluster_groups = 4_096, 2_000_000, 32
    given.pane.seconds, given.retention.seconds = 60, 30 * 86_400
    given.label_ttl.seconds, given.relabel_ttl.seconds = 14 * 86_400, 3_600
    given.segment_keys.append("country")
    return found


def comparison(**changes: object) -> pair_pb2.PairComparison:
    """Return a comparison that is decided; `changes` replace fields."""
    found = pair_pb2.PairComparison(
        a="fraud/v3",
        b="fraud/v4",
        compared=types_pb2.Comparison(revision=90, p_value=1e-6),
        e_value=812.5,
        verdict=pair_pb2.PAIR_VERDICT_B_BETTER,
        sentence="fraud/v4 is better by 0.021 AUC-PR (0.012 to 0.030), on 48,211 shared ids; "
        "the evidence has been sufficient since 14:20",
    )
    for metric, value, limits in (
        (found.compared.a, 0.702, (0.684, 0.720)),
        (found.compared.b, 0.723, (0.706, 0.739)),
        (found.compared.difference, -0.021, (-0.028, -0.014)),
    ):
        metric.name, metric.value = "auc_pr", value
        metric.interval.lower, metric.interval.upper = limits
        metric.interval.level = 0.95
    found.anytime.lower, found.anytime.upper, found.anytime.anytime = -0.030, -0.012, True
    found.anytime.level = 0.95
    found.decided_since.FromJsonString("2026-11-25T14:20:00Z")
    covered = found.coverage
    covered.predictions_a, covered.predictions_b, covered.shared = 51_000, 50_200, 48_900
    covered.shared_share, covered.labelled = 0.935, 48_211
    covered.positives, covered.negatives = 2_410, 45_801
    between = found.disagreement
    between.threshold_a, between.threshold_b, between.share = 0.5, 0.45, 0.0125
    between.only_a_positives, between.only_a_negatives = 80, 210
    between.only_b_positives, between.only_b_negatives = 190, 122
    between.a_right, between.b_right = 202, 400
    found.MergeFrom(pair_pb2.PairComparison(**changes))
    return found


def refused() -> pair_pb2.PairComparison:
    """Return a comparison without an answer."""
    found = pair_pb2.PairComparison(
        a="fraud/v3",
        b="fraud/v4",
        compared=types_pb2.Comparison(revision=8),
        refusal=pair_pb2.PAIR_REFUSAL_NO_LABELS,
        reason="no shared id has a label yet: send labels under the ids of the predictions",
        sentence="no answer: no shared id has a label yet: send labels under the ids of the "
        "predictions",
    )
    for metric in (found.compared.a, found.compared.b, found.compared.difference):
        metric.name, metric.interval.level = "auc_pr", 0.95
    found.coverage.predictions_a = found.coverage.predictions_b = found.coverage.shared = 40
    found.coverage.shared_share = 1.0
    return found


class FakePairs(pair_pb2_grpc.PairServiceServicer):
    """Answers with what it is given, and records requests."""

    def __init__(self) -> None:
        self.requests: list[object] = []
        self.known = [pair()]
        self.answer = pair_pb2.GetPairComparisonResponse(comparison=comparison())
        self.series: list[pair_pb2.PairComparison] = []

    def CreatePair(self, request, context):  # noqa: ARG002, N802 - as gRPC names it
        self.requests.append(request)
        a, b = request.pair.a, request.pair.b
        made = pair(a, b, request.pair_id or f"{a}-vs-{b}")
        made.settings.MergeFrom(request.pair.settings)
        self.known.append(made)
        return pair_pb2.CreatePairResponse(pair=made, revision=12)

    def GetPair(self, request, context):  # noqa: N802 - as gRPC names it
        self.requests.append(request)
        found = self._find(request, context)
        found.counters.kept_ids, found.counters.weighted_labels = 17, 3
        return pair_pb2.GetPairResponse(pair=found, revision=12)

    def ListPairs(self, request, context):  # noqa: ARG002, N802 - as gRPC names it
        self.requests.append(request)
        named = [each for each in self.known if request.stream in {"", each.a, each.b}]
        first = int(request.page_token or 0)
        token = str(first + 1) if first + 1 < len(named) else ""
        return pair_pb2.ListPairsResponse(pairs=named[first : first + 1], next_page_token=token)

    def DeletePair(self, request, context):  # noqa: N802 - as gRPC names it
        self.requests.append(request)
        self.known.remove(self._find(request, context))
        return pair_pb2.DeletePairResponse(revision=13)

    def GetPairComparison(self, request, context):  # noqa: N802 - as gRPC names it
        self.requests.append(request)
        self._find(request, context)
        return self.answer

    def ListPairComparisons(self, request, context):  # noqa: N802 - as gRPC names it
        self.requests.append(request)
        self._find(request, context)
        return pair_pb2.ListPairComparisonsResponse(comparisons=self.series)

    def _find(self, request, context) -> pair_pb2.Pair:
        for each in self.known:
            if each.name == request.name:
                return each
        context.abort(grpc.StatusCode.NOT_FOUND, f"there is no pair {request.name}")
        raise AssertionError


@contextmanager
def running_pairs(
    queries: query_pb2_grpc.QueryServiceServicer | None = None,
) -> Iterator[tuple[str, FakePairs]]:
    """Yield the address of a server of fake pairs, and the pairs."""
    server, service = grpc.server(futures.ThreadPoolExecutor(2)), FakePairs()
    pair_pb2_grpc.add_PairServiceServicer_to_server(service, server)
    if queries is not None:
        query_pb2_grpc.add_QueryServiceServicer_to_server(queries, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}", service
    finally:
        server.stop(None).wait()
