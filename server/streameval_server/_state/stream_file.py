"""A stream as a file, for import into another server.

Layout: a `Frame` that contains the length of a header (4 bytes, little-endian), the header,
and the stream's parts as in a checkpoint. The header is JSON, so that people can read it too:
name, revision, time, settings, counters, and the names and lengths of the parts in order.

A file is trusted as much as a checkpoint: its checksum detects accidents, not tampering. Only
content that could affect other streams (settings, numbers, names) is checked.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import streameval
from streameval import CorruptStateError, StreamEvalError
from streameval.checks import id_problem
from streameval.kernel import MAX_TIME_US, Frame, State
from streameval_server._model.errors import CorruptLogError
from streameval_server._model.stream_settings import CHOICES, StreamSettings, check
from streameval_server._state.file_values import read_integer, read_text
from streameval_server._state.stream_parts import STREAM_PART, decode_head, restore_stream

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streameval_server._model.limits import Limits
    from streameval_server._state.stream_state import StreamState

FRAME = Frame(b"SVEX", 1, "an exported stream")
_LENGTH_BYTES = 4


@dataclass(frozen=True, slots=True)
class StreamFile:
    """An exported stream.

    Attributes
    ----------
    name : str
        Name of the exported stream.
    revision, time_us : int
        The log's revision and time at the export.
    ids : int
        Number of ids that it keeps for their labels and predictions.
    settings : StreamSettings
    total : int
        Number of accepted references.
    sources : mapping of str to int
        The last merged epoch of each source.
    parts : mapping of str to bytes
        As `restore_stream` takes them.
    weighed : int or None
        What the references weigh together, in units of 2**-16; None where each weighs 1.
    """

    name: str
    revision: int
    time_us: int
    ids: int
    settings: StreamSettings
    total: int
    sources: Mapping[str, int]
    parts: Mapping[str, bytes]
    weighed: int | None = None

    @classmethod
    def from_bytes(cls, data: bytes) -> StreamFile:
        """Read a file. O(bytes).

        Raises
        ------
        CorruptStateError
            When it is not what `stream_to_bytes` wrote.
        """
        reader = FRAME.reader(data)
        length = int.from_bytes(reader.blob(_LENGTH_BYTES), "little")
        try:
            header = json.loads(bytes(reader.blob(length)))
            parts = {}
            for part, size in header["parts"]:
                parts[read_text(part)] = bytes(reader.blob(read_integer(size)))
            reader.end()
            fields, _ = decode_head(parts[STREAM_PART])
            settings = StreamSettings.of_fields(fields["settings"])
            _check_settings(settings)
            sources = {
                read_text(key): read_integer(each) for key, each in fields["sources"].items()
            }
            for number in ("create_us", "now_us", "floor_us", "overflowed", "beyond_retention"):
                read_integer(fields[number])
            return cls(
                read_text(header["stream"]),
                read_integer(header["revision"]),
                read_integer(header["time_us"], MAX_TIME_US),
                read_integer(header["ids"]),
                settings,
                read_integer(fields["total"], State.MAX_TOTAL - 1),
                sources,
                parts,
                read_integer(fields["weighed"], State.MAX_TOTAL - 1)
                if "weighed" in fields
                else None,
            )
        except StreamEvalError:
            raise
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            message = f"the exported stream's header cannot be read: {error!r:.200}"
            raise CorruptStateError(message) from error

    def check(self, name: str, limits: Limits) -> None:
        """Refuse a file that `restored` would fail on. O(bytes).

        Raises
        ------
        RequestError
            When the settings are beyond the limits.
        CorruptStateError
            When the content is damaged, or beyond the limits.
        """
        check(self.settings, limits)
        if len(self.sources) > limits.max_merge_sources:
            raise CorruptStateError(
                f"the exported stream has {len(self.sources)} merge sources, at most "
                f"{limits.max_merge_sources} are allowed"
            )
        for source in self.sources:
            problem = id_problem("source", source, limits.max_id_bytes)
            if problem is not None:
                raise CorruptStateError(problem)
        try:
            state = self.restored(name, 1, limits)
        except CorruptLogError as error:
            raise CorruptStateError(str(error)) from error
        if state.kept_ids != self.ids:
            raise CorruptStateError(
                f"the exported stream's header says {self.ids} ids, its parts have {state.kept_ids}"
            )

    def restored(self, name: str, revision: int, limits: Limits) -> StreamState:
        """Return the stream under a name, created at a revision. O(bytes).

        Raises
        ------
        CorruptLogError
            When the parts are damaged.
        """
        state = restore_stream(limits, revision, self.parts)
        state.adopt(name, revision)
        return state


def stream_to_bytes(
    name: str, revision: int, time_us: int, ids: int, parts: Mapping[str, bytes]
) -> bytes:
    """Return a stream's file. O(bytes).

    Parameters
    ----------
    name, revision, time_us, ids, parts
        As in `StreamFile`.
    """
    fields, _ = decode_head(parts[STREAM_PART])
    header = {
        "stream": name,
        "revision": revision,
        "time_us": time_us,
        "written_by": f"streameval {streameval.__version__}",
        "settings": StreamSettings.of_fields(fields["settings"]).to_fields(),
        "references": fields["total"],
        "ids": ids,
        "parts": [(part, len(data)) for part, data in parts.items()],
    }
    text = json.dumps(header).encode()
    return FRAME.sealed(len(text).to_bytes(_LENGTH_BYTES, "little"), text, *parts.values())


_OPTIONAL_NUMBERS = frozenset({"threshold", "cost_fp", "cost_fn", "min_label_probability"})


def _check_settings(settings: StreamSettings) -> None:
    """Refuse settings of the wrong types."""
    for name, value in asdict(settings).items():
        if name.endswith("_us") or name in {"resolution", "max_pending", "cluster_groups"}:
            read_integer(value)
        elif name == "cluster_key":
            read_text(value)
        elif name == "segment_keys":
            for key in value:
                read_text(key)
        elif name in _OPTIONAL_NUMBERS and value is not None and type(value) is not float:
            raise ValueError(f"{name} {value!r:.60} is not a number")
    for name, choices in CHOICES.items():
        if getattr(settings, name) not in choices.values():
            raise ValueError(f"{name} {getattr(settings, name)!r}")
