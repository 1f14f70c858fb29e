"""Known bugs, injected on purpose: the simulator must find each of them.

A mutant is a snippet of the product's source and its replacement. The snippet must
occur exactly once, so a change to that code must change the mutant too.
"""

from __future__ import annotations
import __future__

import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from streameval._counts import tally
from streameval._joining import joiner, rules
from streameval.client._buffer.buffer import Buffer
from streameval.client._delivery.sender import Sender
from streameval.kernel import Joiner, Tally
from streameval_server._core import catalog, recovery, transaction
from streameval_server._core.committer import Committer
from streameval_server._core.engine import Engine
from streameval_server._core.engine_clock import EngineClock
from streameval_server._core.log_time import LogTime
from streameval_server._core.producer_marks import Marks
from streameval_server._core.storage_work import Compaction, StorageWork
from streameval_server._ingest.session import IngestSession
from streameval_server._log.checkpoint import CheckpointWriter
from streameval_server._state import checkpoint_parts
from streameval_server._state.counting.pane_store import PaneStore
from streameval_server._state.delays.label_delays import StreamDelays
from streameval_server._state.ids import join_table
from streameval_server._state.ids.join_table import TrackedTable
from streameval_server._state.pairs.pair_joiner import PairJoiner
from streameval_server._state.pairs.pair_table import PairIds
from streameval_server._state.segments import Segments
from streameval_server._state.stream_state import StreamState

from .run import run


@dataclass(frozen=True)
class Mutant:
    """One bug.

    Attributes
    ----------
    name : str
    place : object
        The class or module of the function.
    function : str
    snippet, instead : str
        The source to replace, and its replacement.
    """

    name: str
    place: Any
    function: str
    snippet: str
    instead: str

    @contextmanager
    def alive(self) -> Iterator[None]:
        """Inject the bug for the duration of the context."""
        with mock.patch.object(self.place, self.function, self._mutated()):
            yield

    def _mutated(self) -> Callable:
        static = inspect.getattr_static(self.place, self.function)
        wraps = type(static) if isinstance(static, staticmethod | classmethod) else None
        function = getattr(static, "__func__", static)
        source = textwrap.dedent(inspect.getsource(function))
        found = source.count(self.snippet)
        assert found == 1, f"{self.name}: {self.function} has its snippet {found} times"
        source = source.replace(self.snippet, self.instead)
        # Inside another function, so that super() finds the class.
        source = f"def make(__class__):\n{textwrap.indent(source, '    ')}"
        source += f"\n    return {self.function}\n"
        flags = __future__.annotations.compiler_flag
        code = compile(source, inspect.getfile(function), "exec", flags)
        made: dict[str, Any] = {}
        exec(code, function.__globals__, made)
        mutated = made["make"](self.place)
        return wraps(mutated) if wraps else mutated

    def found_at(self, seeds: range) -> tuple[int, str] | None:
        """Return the first seed that fails, with its error; None if no seed does."""
        with self.alive():
            for seed in seeds:
                try:
                    run(seed)
                except Exception as error:  # noqa: BLE001 - any error finds it
                    return seed, f"{type(error).__name__}: {error}".splitlines()[0]
        return None


MUTANTS = [
    # -- the order of a commit
    Mutant(
        "acks before the commit",
        Committer,
        "_commit",
        "result.outcomes = transaction.outcomes\n",
        "result.outcomes = transaction.outcomes; result.deliver(); result.outcomes = []\n",
    ),
    Mutant(
        "acks although the commit failed",
        Committer,
        "_commit",
        "result.outcomes = failed\n",
        "pass\n",
    ),
    Mutant(
        "marks advance before the commit",
        Committer,
        "_commit",
        "if transaction.rows:\n",
        "if transaction.rows:\n"
        "        for e in transaction.entries:\n"
        "            self.marks.record(e.producer, e.epoch, e.sequence, e.received_us)\n",
    ),
    Mutant(
        "the log's time runs backwards",
        Committer,
        "_commit",
        "max(now_us, self.received_us)",
        "now_us",
    ),
    # -- a clock in doubt
    Mutant(
        "a step of the clock is believed",
        EngineClock,
        "read",
        "if abs(wall_us - time_us) > self._max_step_us:",
        "if False:",
    ),
    Mutant(
        "things fall due in a held log",
        LogTime,
        "due_before",
        "return self.held_us",
        "return entry.received_us",
    ),
    Mutant(
        "an accepted step forgets producers that send",
        Marks,
        "restart_idle",
        "self._marks.items()",
        "()",
    ),
    # -- once and in order
    Mutant(
        "older epochs are not fenced",
        transaction,
        "sequence_status",
        "if epoch < mark.epoch:\n            return SequenceStatus.FENCED",
        "if epoch < mark.epoch:\n            return SequenceStatus.NEXT",
    ),
    Mutant(
        "a start does not fence",
        IngestSession,
        "_open",
        "self._committer.submit(item)\n",
        "self._resume(Mark(epoch, 0, now_us), revision, now_us)\n    self._wake()\n    return\n",
    ),
    Mutant(
        "duplicates count",
        transaction.Transaction,
        "_check_mark",
        "if status is SequenceStatus.NEXT:",
        "if status in (SequenceStatus.NEXT, SequenceStatus.DUPLICATE):",
    ),
    Mutant(
        "duplicates within one commit count",
        transaction.Transaction,
        "_check_mark",
        "self._new_marks.get(item.producer) or self._marks.get(item.producer)",
        "self._marks.get(item.producer)",
    ),
    Mutant(
        "a repeat is acked ahead of refusals",
        IngestSession,
        "feed",
        "if sequence <= self._acked:",
        "if sequence <= self._committer.marks.last_sequence(self._producer, self._epoch):\n"
        "        self._acked = max(self._acked, sequence)",
    ),
    Mutant(
        "a merge's epoch is not noted by the committer",
        catalog,
        "add_rows",
        "MappingProxyType({**sources, rows.source: rows.epoch})",
        "sources",
    ),
    Mutant(
        "a merge's epoch is not kept in checkpoints",
        StreamState,
        "take",
        "self.sources[rows.source] = rows.epoch",
        "pass",
    ),
    # -- checkpoints and recovery
    Mutant(
        "the manifest comes before its parts",
        CheckpointWriter,
        "step",
        "if rows:\n",
        "if rows:\n        storage.write_manifest(self._manifest.to_bytes(), self._superseded)\n",
    ),
    Mutant(
        "recovery ignores the last row",
        recovery,
        "_recover",
        "replay(storage.read(checkpoint_revision), applier)",
        "replay(list(storage.read(checkpoint_revision))[:-1], applier); last = engine.revision",
    ),
    Mutant(
        "what proved durable after a failed commit is not applied",
        Committer,
        "recover",
        "self._advance(entries, rows[-1].crc32 if rows else 0, nbytes)",
        "self.revision = last",
    ),
    Mutant(
        "the chain of checksums leaves out what proved durable after a failed commit",
        Committer,
        "_advance",
        "self._crc32 = crc32",
        "if self.state is State.SERVING:\n        self._crc32 = crc32",
    ),
    Mutant(
        "a damaged checkpoint is believed after a failed write",
        StorageWork,
        "resume",
        "self.manifest = self._uncertain",
        "pass\n    from streameval_server._log.checkpoint import Manifest\n"
        "    self.manifest = None if manifest is None else Manifest.from_bytes(manifest)",
    ),
    Mutant(
        "a checkpoint forgets which ids went",
        TrackedTable,
        "drop",
        "self.removed += self.ids(slots[self._in_checkpoint[slots]])",
        "pass",
    ),
    Mutant(
        "a checkpoint skips panes that changed when others did",
        checkpoint_parts,
        "changed_parts",
        "if part.revision > since",
        "if part.revision > since + part.name.startswith('pane')",
    ),
    Mutant(
        "a checkpoint takes label delays for unchanged",
        StreamDelays,
        "to_parts",
        "pane.content.revision, frozen",
        "1, frozen",
    ),
    Mutant(
        "a compaction drops one row too many",
        Compaction,
        "step",
        "storage.drop(revision)",
        "storage.drop(revision + 1)",
    ),
    # -- what the log means
    Mutant(
        "a relabel does not take the old label away",
        rules,
        "_rules",
        "(unlabelled[other], labelled[label]),",
        "(labelled[label],),",
    ),
    Mutant(
        "ids expire one tick early",
        Joiner,
        "advance",
        "self.due_limit_us) // self._bucket_us",
        "self.due_limit_us) // self._bucket_us + 1",
    ),
    Mutant(
        "a deleted stream's successor inherits it",
        Engine,
        "_create_stream",
        "StreamState(info, self._limits, due_us)",
        "self.__dict__.setdefault('graves', {}).setdefault(\n"
        "        entry.stream, StreamState(info, self._limits, due_us))",
    ),
    Mutant(
        "the order of values follows their use",
        Segments,
        "_new",
        "if code >= self._max_codes:",
        "if code > self._max_codes:",
    ),
    Mutant(
        "panes that coarsen lose what is open",
        PaneStore,
        "_close",
        "content.is_open = False",
        "content.is_open = False\n    return",
    ),
    # -- the client
    Mutant(
        "refused batches are sent again",
        Sender,
        "_settle",
        "self.refused_rows += batch.rows.size",
        "self.refused_rows += batch.rows.size; self._queue.append(batch.rows)",
    ),
    Mutant(
        "a broken connection's batches are forgotten",
        Sender,
        "disconnected",
        "self._cursor = self._inflight_bytes = 0",
        "self._cursor = self._inflight_bytes = 0; self._window.clear()",
    ),
    Mutant(
        "a broken connection's batches are numbered anew",
        Sender,
        "disconnected",
        "self._cursor = self._inflight_bytes = 0",
        "self._cursor = self._inflight_bytes = 0\n"
        "    self._queue.extendleft(batch.rows for batch in reversed(self._window))\n"
        "    self._window.clear()",
    ),
    Mutant(
        "a restarted connection believes that all was sent",
        Sender,
        "_resume",
        "self._settle(last)",
        "self._settle(self._next_sequence - 1)",
    ),
    Mutant(
        "refusals told by Resume are not heard",
        Sender,
        "_resume",
        "self._record_refusal(batch, refused.refusal)",
        "pass",
    ),
    Mutant(
        "the buffer forgets to wake its sender",
        Buffer,
        "arm",
        "self.wake_at = self._drained + 1",
        "self.wake_at = self._drained + 2",
    ),
    # -- weights
    Mutant(
        "a label with another weight changes the label",
        joiner,
        "_without_reweighted",
        "np.where(refused,",
        "np.where(refused & False,",
    ),
    Mutant(
        "a checkpoint forgets what labels weigh",
        join_table,
        "decode_segment",
        "table.set_units(slots, units)",
        "table.set_units(slots, np.full(rows, WEIGHT_UNITS))",
    ),
    Mutant(
        "a weighted label that was taken back still counts",
        Tally,
        "remove",
        "less = sorted_cases(change)",
        "less = ScoreCounts() if change.has_weights else sorted_cases(change)",
    ),
    # -- pairs. Shared ids are rarely relabelled here: that such an id counts twice is found by
    # the recount of tests/unit/server/state.
    Mutant(
        "a checkpoint forgets b's scores",
        PairIds,
        "decode",
        "table.score[slots], table.score_b[slots] = scores, scores_b",
        "table.score[slots], table.score_b[slots] = scores, scores",
    ),
    Mutant(
        "a retracted id of a pair still counts",
        PairJoiner,
        "retract",
        "((states & LABELLED) != 0)], -1)",
        "((states & LABELLED) == 9)], -1)",
    ),
    # -- clusters
    Mutant(
        "labels count in the first group",
        Joiner,
        "_split",
        "codes[..., 0])",
        "codes[..., 0] * 0)",
    ),
    Mutant(
        "a label that was taken back stays in its group",
        Tally,
        "remove",
        "clusters=[clusters]",
        "clusters=[]",
    ),
    Mutant(
        "groups that wait are not merged",
        tally,
        "_merged",
        "merge_pending(*source)",
        "replace(merge_pending(*source), clusters=source.state.clusters)",
    ),
]
