"""`Stream` and `AsyncStream`: the verbs of one stream, blocking and for asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from streameval._snapshot import Snapshot
from streameval.client._delivery.connection import AsyncVerbs, BlockingVerbs
from streameval.client._stream_verbs import StreamVerbs


class Stream(StreamVerbs[Iterator[Snapshot]], BlockingVerbs):
    """One stream of a server: everything about one model version.

    Made by `Client.stream`. Any number of objects, in any threads, may stand for
    the same stream. The methods that add rows return at once; a thread sends the
    rows. Answers include all rows that a `flush` has waited for.

    The parameters ``window``, ``half_life``, ``segment`` and ``mature_after``
    choose which cases count, as in `Selection`: all of them by default.
    """


class AsyncStream(StreamVerbs[AsyncIterator[Snapshot]], AsyncVerbs):
    """One stream of a server, for asyncio: the verbs of `Stream`.

    Made by `AsyncClient.stream`. The methods that add rows return at once, without
    ``await``; a task sends the rows. All others are awaited, with the parameters,
    results and errors of the methods of `Stream`.
    """
