"""``streameval push`` of a file that a client wrote because it could not send its rows."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from streameval._row_codec.decode import RowReader
from streameval.cli._connection import transport
from streameval.cli._output import err, say
from streameval.client import FencedError
from streameval.client._delivery.numbered_upload import NumberedUpload
from streameval.client._delivery.spool import read_spool, whole_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from streameval.client._wire.transport import Transport
    from streameval.v1 import ingest_pb2


def push_spool(path: Path) -> bool:
    """Send the rows of a file, each once; return whether the server took all of them."""
    for _ in read_spool(path):  # all of them can be read, before the first row is sent
        pass
    refused: list[str] = []
    with path.open("rb") as file:
        left_bytes = path.stat().st_size - whole_bytes(file)
    if left_bytes:
        refused.append(
            f"the last {left_bytes:,} bytes of {path}, which end within a row: the process that "
            "wrote them was killed"
        )
    rows = {"pushed": 0, "known": 0}
    with closing(transport()) as connection:
        for opening, batches in _producers(path):
            _push_producer(connection, opening, batches, rows, refused)
    say(
        f"{rows['pushed']:,} rows of {path} pushed, {rows['known']:,} were there; the file can be "
        "removed"
    )
    for message in refused:
        err.print(f"refused: {message}", soft_wrap=True, markup=False)
    return not refused


def _producers(path: Path) -> Iterator[tuple[ingest_pb2.Open, list[ingest_pb2.Batch]]]:
    """Yield each opening of a file, with its batches."""
    opening, batches = None, []
    for request in read_spool(path):
        if request.HasField("batch"):
            batches.append(request.batch)
            continue
        if opening is not None:
            yield opening, batches
        opening, batches = request.open, []
    if opening is not None:
        yield opening, batches


def _push_producer(
    connection: Transport,
    opening: ingest_pb2.Open,
    batches: list[ingest_pb2.Batch],
    rows: dict[str, int],
    refused: list[str],
) -> None:
    """Send what is not durable of one producer's batches; count rows, and list refusals."""
    with closing(NumberedUpload(connection, opening.producer, opening.epoch)) as upload:
        try:
            durable = upload.begin()
        except FencedError as error:
            sent_rows = sum(RowReader(batch).size for batch in batches)
            refused.append(
                f"{sent_rows:,} rows that were sent without an answer: {error}; "
                "whether they count cannot be known any more"
            )
            return
        for batch in batches:
            is_known = batch.sequence <= durable
            rows["known" if is_known else "pushed"] += RowReader(batch).size
            if not is_known:
                upload.put(batch)
        upload.finish()
        sent = {batch.sequence: batch for batch in batches}
        for refusal in upload.refusals:
            found = sent.get(refusal.sequence)
            if found is not None:
                refused.append(
                    f"{RowReader(found).size:,} rows of {found.stream}: {refusal.message}; "
                    "declare or correct what it names, and send these rows again by a client"
                )
