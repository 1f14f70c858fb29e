"""PairService over gRPC: changes go through the log, reads do not.

Requests name a pair and not its streams, so each method itself asks whether the token covers
both of them: before it answers, and again with the answer, for which it may have waited.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import grpc

from streameval.v1 import pair_pb2
from streameval_server._batch.decode import parse_message
from streameval_server._grpc.methods import add_methods
from streameval_server._grpc.pages import read_page
from streameval_server._model.names import check_stream_name
from streameval_server._model.pair_settings import check_pair_name, no_pair
from streameval_server._queries.pair_answer import pair_comparison, pair_series
from streameval_server._queries.pair_request import parse_comparison, parse_series
from streameval_server._security.access import current_access

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval_server._model.pair_settings import PairInfo
    from streameval_server._queries.pair_request import PairQuestion
    from streameval_server._runtime.runtime import Runtime
    from streameval_server._state.pairs.pair_view import PairView

_SERVICE = pair_pb2.DESCRIPTOR.services_by_name["PairService"]

T = TypeVar("T", pair_pb2.GetPairComparisonResponse, pair_pb2.ListPairComparisonsResponse)

Context = grpc.aio.ServicerContext[Any, Any]


class PairService:
    """Takes encoded requests for changes, because the log stores the frames themselves."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def add_to(self, server: grpc.aio.Server) -> None:
        """Register the service's methods."""
        add_methods(
            server,
            _SERVICE,
            {
                "CreatePair": self.create,
                "DeletePair": self.delete,
                "GetPair": self.get,
                "ListPairs": self.list,
                "GetPairComparison": self.compare,
                "ListPairComparisons": self.series,
            },
            encoded=frozenset({"CreatePair", "DeletePair"}),
        )

    async def create(self, frame: bytes, _context: Context) -> pair_pb2.CreatePairResponse:
        """Make a pair; rows that are acknowledged after the answer meet in it."""
        response = await self._runtime.settled(lambda call: call.create_pair(frame))
        assert isinstance(response, pair_pb2.CreatePairResponse)
        await self._runtime.visible(response.revision)
        name = response.pair.name
        info = self._runtime.core.engine.pairs.info(name)
        if info is not None and current_access().covers_pair(info):
            response.pair.CopyFrom(info_message(info))
        elif response.duplicate:
            raise no_pair(name)
        return response

    async def delete(self, frame: bytes, _context: Context) -> pair_pb2.DeletePairResponse:
        """Delete a pair; queries after the answer do not find it."""
        runtime = self._runtime
        name = parse_message(pair_pb2.DeletePairRequest, frame).name
        await runtime.visible(runtime.durable_revision())
        info = runtime.core.engine.pairs.info(name)
        # Another's pair goes the way of one that does not exist: each check answers the same.
        sides = None
        if info is not None and current_access().covers_pair(info):
            sides = info.a, info.b
        response = await runtime.settled(lambda call: call.delete_pair(frame, sides))
        assert isinstance(response, pair_pb2.DeletePairResponse)
        await runtime.visible(response.revision)
        return response

    async def get(
        self, request: pair_pb2.GetPairRequest, _context: Context
    ) -> pair_pb2.GetPairResponse:
        """Describe one pair."""
        check_pair_name(request.name)
        runtime = self._runtime
        with runtime.calls.call():
            info = await covered_pair(runtime, request.name)
            view = await runtime.answer(("pair", info), lambda: runtime.pair_view(info))
        pair = info_message(current_access().check_pair(info, info.name))
        pair.counters.CopyFrom(view.counters)
        return pair_pb2.GetPairResponse(pair=pair, revision=view.revision)

    async def list(
        self, request: pair_pb2.ListPairsRequest, _context: Context
    ) -> pair_pb2.ListPairsResponse:
        """Describe a page of the pairs of which the caller's token covers both streams."""
        if request.stream:
            check_stream_name(request.stream, "stream")
        read = partial(self._runtime.list_pairs, stream=request.stream)
        infos, token, revision = await read_page(
            self._runtime, request, read, lambda info: (info.name, info.a, info.b)
        )
        return pair_pb2.ListPairsResponse(
            pairs=map(info_message, infos), next_page_token=token, revision=revision
        )

    async def compare(
        self, request: pair_pb2.GetPairComparisonRequest, _context: Context
    ) -> pair_pb2.GetPairComparisonResponse:
        """Compare the streams of a pair on their shared ids."""
        return await self._answer(parse_comparison(request), pair_comparison, request)

    async def series(
        self, request: pair_pb2.ListPairComparisonsRequest, _context: Context
    ) -> pair_pb2.ListPairComparisonsResponse:
        """Compare them in each step of a span."""
        return await self._answer(parse_series(request), pair_series, request, is_long=True)

    async def _answer(
        self,
        question: PairQuestion,
        compute: Callable[[PairView, PairQuestion, int], T],
        request: pair_pb2.GetPairComparisonRequest | pair_pb2.ListPairComparisonsRequest,
        *,
        is_long: bool = False,
    ) -> T:
        runtime = self._runtime
        with runtime.calls.call(), runtime.quota.query(current_access().token_id):
            await runtime.visible(request.selection.min_revision)
            info = await covered_pair(runtime, question.name)
            answer = await runtime.answer(
                (compute, info, question),
                lambda: compute(runtime.pair_view(info), question, runtime.now_us()),
                is_long=is_long,
            )
        current_access().check_pair(info, info.name)
        return answer


async def covered_pair(runtime: Runtime, name: str) -> PairInfo:
    """Return a pair that the caller's token covers, once what is durable is visible.

    Raises
    ------
    RequestError
        NOT_FOUND when there is none, or the caller may not know of it: as late, too.
    """
    pairs, access = runtime.core.engine.pairs, current_access()
    info = pairs.info(name)
    if info is None or not access.covers_pair(info):
        await runtime.visible(runtime.durable_revision())
        info = pairs.info(name)
    return access.check_pair(info, name)


def info_message(info: PairInfo) -> pair_pb2.Pair:
    """Return a pair's description as a message."""
    message = pair_pb2.Pair(
        name=info.name,
        a=info.a,
        b=info.b,
        create_revision=info.create_revision,
        settings=info.settings.to_message(),
    )
    message.create_time.FromMicroseconds(info.create_us)
    return message
