"""One stream as the log gives it: restored from the checkpoint, replayed, and hashed.

Equal logs give equal states, so a stream of a running server whose hash differs from this one
was damaged in memory, or is counted wrongly; and a log that cannot be read back is damaged on the
disk before anything depends on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval_server._core.applier import Applier
from streameval_server._core.engine import HELD_PART, MARKS_PART, Engine
from streameval_server._core.producer_marks import Marks
from streameval_server._core.replay import engine_at_base, replay
from streameval_server._log.checkpoint import Manifest, read_base
from streameval_server._log.rows import PAIR_KINDS, Format, Kind
from streameval_server._state.checkpoint_parts import split_part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streameval_server._log.rows import LogRow
    from streameval_server._log.storage import Storage
    from streameval_server._model.limits import Limits


def replayed_stream_hash(
    storage: Storage,
    limits: Limits,
    name: str,
    revision: int,
    stopping: Callable[[], bool] = bool,
) -> str | None:
    """Return the hash of a stream at a revision. O(log rows after the checkpoint + the stream).

    Needs the memory of one stream.

    Parameters
    ----------
    storage
        Open for reading. The log reaches the revision.
    limits
        The server's.
    name
        The stream's, which exists at that revision.
    revision
        The state's.
    stopping
        Asked at each row: whether to give up.

    Returns
    -------
    str or None
        As `Engine.begin_stream_hash` has it; None when a checkpoint after the revision is current
        already, or after giving up.

    Raises
    ------
    CorruptLogError
        When the checkpoint or a row is not what was written.
    """
    data = storage.manifest()
    manifest = read_base(storage) if data is None else Manifest.from_bytes(data)
    if manifest is None:
        engine = engine_at_base(storage, None, limits)
    elif manifest.revision > revision:
        return None
    else:
        own = {
            part: entry
            for part, entry in manifest.parts.items()
            if part == HELD_PART or split_part(part)[0] == name
        }
        parts = Manifest(manifest.revision, manifest.received_us, own).read(storage)
        parts.makers[MARKS_PART] = Marks(limits.marks_ttl_us).to_bytes
        engine = Engine.restore(limits, manifest.revision, manifest.received_us, parts)
    applier = Applier(engine, limits, checkpoints=False)
    replay(_own_rows(storage.read(engine.revision), name, revision, stopping), applier)
    if engine.revision != revision:
        return None
    hashed = engine.begin_stream_hash(name)
    return None if hashed is None else hashed()[1]


def _own_rows(
    rows: Iterator[LogRow], name: str, revision: int, stopping: Callable[[], bool]
) -> Iterator[LogRow]:
    """Yield the rows up to a revision; of the rows of other streams, only their time."""
    for row in rows:
        if row.revision > revision or stopping():
            return
        if row.stream == name and row.kind not in PAIR_KINDS:
            yield row._replace(producer="", epoch=0, sequence=0)
        elif row.kind in {Kind.HOLD, Kind.RELEASE}:
            yield row
        else:
            yield row._replace(
                kind=int(Kind.TICK), format=int(Format.BY_KIND), stream="", producer="", payload=b""
            )
