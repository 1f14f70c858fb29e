"""Compares the state in memory with the log, one stream at a time, while the server runs.

As etcd's corruption check: what differs raises an alarm (status, metric, log) that stays until
the server is started again. It never ends the server: the log is right, and a start replays it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streameval_server._core.state_check import replayed_stream_hash
from streameval_server._log.sqlite import SqliteStorage
from streameval_server._model.errors import CorruptLogError, StorageError

if TYPE_CHECKING:
    from pathlib import Path

    from streameval_server._core.engine import Engine
    from streameval_server._model.limits import Limits
    from streameval_server._model.threads import FairLock

_log = logging.getLogger(__name__)

_MAX_SHARE = 16
"""A stream that takes more than the limit on memory divided by this is not checked: the check
takes as much memory again. `streameval admin verify` checks everything, in another process."""
_MAX_STREAM_BYTES = 256 << 20
"""The same in bytes, for a server without a limit."""


@dataclass(slots=True)
class StateChecks:
    """The checks of one server. `step` is for one thread at a time.

    Parameters
    ----------
    engine, engine_lock, limits
        The server's.
    path
        The log's.

    Attributes
    ----------
    checked : int
        Streams that were compared, each time counted.
    problems : dict of str to str
        What was found, by stream.
    """

    engine: Engine
    engine_lock: FairLock
    limits: Limits
    path: Path
    checked: int = 0
    problems: dict[str, str] = field(default_factory=dict)
    _last_name: str = ""
    _stopping: bool = False

    def stop(self) -> None:
        """Make a check that is running end soon. Any thread may call it."""
        self._stopping = True

    def step(self) -> None:
        """Check the next stream, in the order of their names; at the end begin again.

        O(log rows after the checkpoint + the stream). A busy server may leave the stream
        unchecked this time: when a checkpoint ends meanwhile, or ids are expiring.
        """
        with self.engine_lock:
            found = self.engine.streams(after=self._last_name, limit=1)
            if not found:
                self._last_name = ""
                found = self.engine.streams(limit=1)
            if not found:
                return
            name = self._last_name = found[0].name
            if self.engine.stream_bytes(name) > self._max_bytes():
                return
            hashed = self.engine.begin_stream_hash(name)
        if hashed is None:
            return
        revision, live = hashed()
        storage = SqliteStorage(self.path, read_only=True)
        try:
            storage.open()
            replayed = replayed_stream_hash(
                storage, self.limits, name, revision, lambda: self._stopping
            )
        except CorruptLogError as error:
            self._alarm(name, f"the log cannot be read back: {error}")
            return
        except StorageError as error:
            _log.warning("the state of %s was not checked: %s", name, error)
            return
        finally:
            storage.close()
        if replayed is None:
            return
        if replayed != live:
            self._alarm(name, f"its state at revision {revision} is not the one that the log gives")
        self.checked += 1

    def _max_bytes(self) -> int:
        return self.limits.max_state_bytes // _MAX_SHARE or _MAX_STREAM_BYTES

    def _alarm(self, name: str, problem: str) -> None:
        self.problems[name] = problem
        _log.critical("stream %s: %s: back up the log, and start the server again", name, problem)
