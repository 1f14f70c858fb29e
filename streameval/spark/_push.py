"""Pushes states to servers, from a batch or from each micro-batch of a stream, exactly once.

A state goes to the server that has its stream (rendezvous hashing of the name and
the addresses, as in `Client`). The tasks that hold the states send them, with one
merge for each stream. A merge is atomic and carries an epoch; a server ignores an
epoch that it already has. So a task, driver or server that fails and runs again
counts once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from string import Formatter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from streameval._common.errors import InvalidInputError
from streameval._common.values import shown
from streameval._evaluator import Evaluator
from streameval.spark._columns import PANE
from streameval.spark._evaluate import states
from streameval.spark._partial import STATE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import timedelta

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming import StreamingQuery

    from streameval.client import MergeState
    from streameval.client._wire.credentials import Pem

    StreamStates = tuple[str, list[tuple[int, MergeState]]]
    """A stream's name, and its states with their lengths in bytes."""

_STREAM = "__stream"
_MAX_MERGE_BYTES = 32 << 20
"""Half of a server's default limit; longer merges are sent in parts."""
_PART_BITS = 16
"""An epoch on the wire is the push's epoch, then this many bits for the part's number."""
_MAX_EPOCH = (1 << (63 - _PART_BITS)) - 2
MAX_CELLS = 262_144
"""The server's own cap: it would drop the bits above it, with the identical result."""


def push(
    states: DataFrame,
    *,
    to: str | Sequence[str],
    stream: str,
    source: str,
    epoch: int,
    by: Sequence[str] = (),
    token: str | None = None,
    root_certificates: Pem | None = None,
    timeout_s: float = 60.0,
) -> dict[str, int]:
    """Merge states into the streams of one or more servers.

    Parameters
    ----------
    states : DataFrame
        The result of `streameval.spark.states`, or a table that it was saved to.
    to : str or list of str
        The servers' addresses, as `Client` takes them; reachable from executors.
    stream : str
        The stream's name. ``{column}`` in it stands for a column of `by`, so
        that each model or version has its stream: ``"fraud/{version}"``.
    source : str
        The name of what counted the states; each source has its own epochs.
    epoch : int
        Must increase with each push of this source. A server ignores an epoch that
        it already has.
    by : sequence of str
        The states' groups. Those that are not in the name are segments, which
        the stream must have declared; null is no value.
    token : str, optional
        As of `Client`; Spark sends it to the executors with the task.
    root_certificates : path or bytes, optional
        As of `Client`; a path must exist on the executors.
    timeout_s : float
        How long one merge may take in all, in seconds, including retries while a
        server restarts.

    Returns
    -------
    dict of str to int
        For each stream the log revision that includes its states.

    Raises
    ------
    InvalidInputError
        When an argument is invalid.

    Notes
    -----
    The job fails (as Spark's PythonException) if a server refuses a merge or is
    unreachable for longer than `timeout_s`. Repeat it with the same epoch: merges that
    succeeded are not repeated. The same epoch must have the same states and the same
    servers in `to`, because another list may route a stream to another server.
    """
    send = _sender(to, source=source, epoch=epoch, token=token, tls=root_certificates,
                   timeout_s=timeout_s)  # fmt: skip
    keys, name = _segments_and_names(states, stream, by)
    paned = PANE in states.columns and PANE not in by
    columns = [sf.col(f"`{key}`").cast("string").alias(key) for key in keys]
    columns += [sf.col(PANE)] if paned else []
    sent = (
        states.select(name.alias(_STREAM), *columns, sf.col(STATE))
        .repartition(_STREAM)
        .sortWithinPartitions(_STREAM)
        .mapInArrow(partial(_push_partition, send=send, keys=keys), "stream string, revision long")
    )
    return {row.stream: row.revision for row in sent.collect()}


def push_stream(
    streaming_df: DataFrame,
    *,
    to: str | Sequence[str],
    stream: str,
    score: str,
    label: str,
    checkpoint: str,
    by: Sequence[str] = (),
    count: str | None = None,
    at: str | None = None,
    pane: timedelta | None = None,
    resolution: int | None = None,
    scale: str | None = None,
    max_cells: int | None = MAX_CELLS,
    weight: str | None = None,
    label_probability: str | None = None,
    trigger: Mapping[str, Any] | None = None,
    token: str | None = None,
    root_certificates: Pem | None = None,
    timeout_s: float = 60.0,
) -> StreamingQuery:
    """Start a query that pushes the states of each micro-batch of a streaming DataFrame.

    Parameters
    ----------
    streaming_df : DataFrame
        From a source that can be replayed: Kafka, files, a table.
    to, stream, token, root_certificates, timeout_s
        As of `push`.
    score, label, by, count, at, pane, resolution, scale, max_cells, weight, label_probability
        As of `states`; the default is as exact as a server is.
    checkpoint : str
        Where Spark keeps the query's progress. It also determines the source of the
        epochs: a query that resumes from its checkpoint counts no row twice, one with
        a new checkpoint counts every row that it reads.
    trigger : mapping, optional
        The arguments of ``DataStreamWriter.trigger``, for example
        ``{"processingTime": "10 seconds"}``; as fast as possible by default.

    Returns
    -------
    StreamingQuery
        It runs until it is stopped or fails.

    Raises
    ------
    InvalidInputError
        When an argument is invalid.

    Notes
    -----
    If a micro-batch fails at any point, Spark runs it again with the same rows. Its
    epoch is its number, so nothing is merged twice. Change `to`, `by` and the settings
    of the states only between batches: after a ``stop()`` while no batch runs, or with
    ``trigger={"availableNow": True}``. Invalid rows fail the query, so filter them
    first.
    """
    if not streaming_df.isStreaming:
        raise InvalidInputError(
            "push_stream takes a streaming DataFrame; for others use push(states(df, ...), ...)",
            field="streaming_df",
        )
    count_states = partial(
        states, score=score, label=label, by=by, count=count, at=at, pane=pane,
        resolution=resolution, scale=scale, max_cells=max_cells,
        weight=weight, label_probability=label_probability,
    )  # fmt: skip
    push_states = partial(
        push, to=to, stream=stream, by=by, token=token, root_certificates=root_certificates,
        timeout_s=timeout_s,
    )  # fmt: skip
    # Both check their arguments without rows, so that mistakes are raised by this call.
    _segments_and_names(count_states(streaming_df), stream, by)
    _sender(to, source="none", epoch=1, token=token, tls=root_certificates, timeout_s=timeout_s)

    def push_batch(batch: DataFrame, batch_id: int) -> None:
        push_states(count_states(batch), source=f"spark-{_query_id(batch)}", epoch=batch_id + 1)

    writer = streaming_df.writeStream.foreachBatch(push_batch)
    if trigger is not None:
        writer = writer.trigger(**trigger)
    return writer.option("checkpointLocation", checkpoint).start()


def _query_id(batch: DataFrame) -> str:
    """Return the id of the query, which is stored in its checkpoint."""
    found = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    if not found:
        raise InvalidInputError("this micro-batch belongs to no query", field="streaming_df")
    return str(found)


def _sender(
    to: str | Sequence[str],
    *,
    source: str,
    epoch: int,
    token: str | None,
    tls: Pem | None,
    timeout_s: float,
) -> Callable[[Iterator[StreamStates]], Iterator[tuple[str, int]]]:
    """Return a function that sends states; raise InvalidInputError for invalid settings."""
    from streameval.client import Client  # noqa: PLC0415 - only pushing needs grpc

    if isinstance(epoch, bool) or not isinstance(epoch, int) or not 0 < epoch <= _MAX_EPOCH:
        message = f"epoch must be an integer from 1 to 2^47 - 2, got {shown(epoch)}"
        raise InvalidInputError(message, field="epoch")
    connect = partial(Client, to, token=token, root_certificates=tls)
    connect().close()
    return partial(_send, connect=connect, source=source, epoch=epoch, timeout_s=timeout_s)


def _send(
    streams: Iterator[StreamStates],
    *,
    connect: Callable[[], Any],
    source: str,
    epoch: int,
    timeout_s: float,
) -> Iterator[tuple[str, int]]:
    """Merge the states of each stream; yield its name and the log revision."""
    with connect() as client:
        for name, found in streams:
            revision = 0
            for number, part in enumerate(_parts(found)):
                revision = client.stream(name).merge(
                    part,
                    source=source,
                    epoch=(epoch << _PART_BITS) + number,
                    timeout_s=timeout_s,
                )
            yield name, revision


def _parts(found: Iterable[tuple[int, MergeState]]) -> Iterator[list[MergeState]]:
    """Cut states into merges of bounded size, deterministically."""
    part: list[MergeState] = []
    size = 0
    for length, state in found:
        if part and size + length > _MAX_MERGE_BYTES:
            yield part
            part, size = [], 0
        part.append(state)
        size += length
    yield part


def _push_partition(
    batches: Iterable[pa.RecordBatch], *, send: Callable[..., Any], keys: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """Send the states of a partition, which has all states of each of its streams."""
    rows = (row for batch in batches for row in batch.to_pylist())
    streams = (
        (name, _ordered(list(found), keys)) for name, found in groupby(rows, lambda r: r[_STREAM])
    )
    for name, revision in send(streams):
        yield pa.RecordBatch.from_pylist([{"stream": name, "revision": revision}])


def _ordered(rows: list[dict[str, Any]], keys: tuple[str, ...]) -> list[tuple[int, MergeState]]:
    """Return the states of one stream with their lengths, in the same order at each run."""
    from streameval.client import MergeState  # noqa: PLC0415 - only pushing needs grpc

    def place(row: dict[str, Any]) -> tuple[Any, ...]:
        return (str(row.get(PANE)), *((row[key] is not None, row[key] or "") for key in keys))

    return [
        (
            len(row[STATE]),
            MergeState(
                Evaluator.from_bytes(row[STATE]),
                row.get(PANE),
                {key: row[key] for key in keys if row[key] is not None} or None,
            ),
        )
        for row in sorted(rows, key=place)
    ]


def _segments_and_names(
    states: DataFrame, stream: object, by: object
) -> tuple[tuple[str, ...], Column]:
    """Return the names of the segment columns, and the streams' names as a column."""
    if isinstance(by, str) or not isinstance(by, Sequence):
        raise InvalidInputError(f"by must be a list of columns, got {shown(by)}", field="by")
    missing = [name for name in (*by, STATE) if name not in states.columns]
    if missing:
        raise InvalidInputError(
            f"there is no column {missing[0]!r} among the states': {', '.join(states.columns)}",
            field="states",
        )
    if not isinstance(stream, str):
        raise InvalidInputError(f"stream must be text, got {shown(stream)}", field="stream")
    pieces: list[Column] = []
    used: set[str] = set()
    for text, column, _, _ in Formatter().parse(stream):
        pieces.append(sf.lit(text))
        if column is None:
            continue
        if column not in by:
            raise InvalidInputError(
                f"stream names {{{column}}}, which is not among by: {', '.join(by) or 'none'}",
                field="stream",
            )
        used.add(column)
        pieces.append(sf.col(f"`{column}`").cast(st.StringType()))
    return tuple(name for name in by if name not in used), sf.concat(*pieces)
