"""A stream or pair as named parts: in a checkpoint, in an export, and to be hashed.

A part's name is its kind, then its number, then the name of its stream or pair:
``pane/START/NAME``. The head has no number: ``stream/NAME``, ``pair/NAME``. An export has the
names without the stream's. Ids are parts of their own: each checkpoint adds a segment of the ids
that changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from streameval_server._model.pair_settings import pair_key
from streameval_server._state.pairs.pair_parts import PAIR_KINDS, PAIR_PART, pair_parts
from streameval_server._state.pairs.pair_state import PairState
from streameval_server._state.stream_parts import STREAM_PART, stream_parts
from streameval_server._state.stream_state import StreamState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streameval_server._state.observer import PartEncoder

Held: TypeAlias = StreamState | PairState
"""What the engine holds."""


def split_part(part: str) -> tuple[str, str]:
    """Return the key of a part's stream or pair, and the part's name without it.

    Examples
    --------
    >>> split_part("pane/60/s"), split_part("stream/s"), split_part("pairpane/60/p")
    (('s', 'pane/60'), ('s', 'stream'), ('pair p', 'pairpane/60'))
    """
    kind, _, rest = part.partition("/")
    own, name = kind, rest
    if kind not in {STREAM_PART, PAIR_PART}:
        number, _, name = rest.partition("/")
        own = f"{kind}/{number}"
    return pair_key(name) if kind in PAIR_KINDS else name, own


def checkpoint_steps(state: Held, since: int) -> Iterator[tuple[str, PartEncoder | None] | None]:
    """Yield None after each piece of counting the rows that wait, then `changed_parts`."""
    if isinstance(state, StreamState):
        while state.counts.has_uncounted:
            state.counts.count_piece()
            yield None
    yield from changed_parts(state, since)


def changed_parts(state: Held, since: int) -> Iterator[tuple[str, PartEncoder | None]]:
    """Yield the parts except for the segments of ids; None for those unchanged after `since`.

    O(panes x slices + waiting rows). The encoders need no lock.
    """
    for part in stream_parts(state) if isinstance(state, StreamState) else pair_parts(state):
        yield f"{part.name}/{state.info.name}", part.encoder() if part.revision > since else None


def id_parts(state: Held, revision: int, since: int) -> Iterator[tuple[str, bytes | None]]:
    """Yield the parts of ids of a checkpoint at `revision`. O(ids that changed).

    Needs no lock, because no view reads the ids. It must run before anything else is
    applied.
    """
    ids = state.ids
    if ids is not None:
        data = ids.take_segment(revision, since)
        for number in ids.segments:
            name = f"{ids.PART}/{number}/{state.info.name}"
            yield name, data if number == revision else None


def export_parts(state: Held) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Yield all parts for an export.

    The callables that encode them need no lock; ids are copied at once, O(ids).
    """
    for part, encoder in changed_parts(state, -1):
        assert encoder is not None
        yield split_part(part)[1], encoder
    if state.ids is not None and len(state.ids):
        copied = state.ids.encode(state.ids.table.used(), [])
        yield f"{state.ids.PART}/0", lambda: copied


def content_parts(state: Held) -> Iterator[tuple[str, bytes]]:
    """Yield everything in a canonical form, equal for equal states. O(bytes)."""
    for part, encoder in changed_parts(state, -1):
        assert encoder is not None
        yield part, encoder()
    if state.ids is not None:
        yield f"{state.ids.PART}/{state.info.name}", state.ids.to_bytes()
