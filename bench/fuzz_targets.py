"""The targets of `bench/fuzz.py`: readers of untrusted bytes, starting from valid input.

`bench/fuzz.py` imports this module while atheris instruments imports, so that coverage
includes the modules imported here.
"""

from __future__ import annotations

import importlib.util
import sys
import time
import tracemalloc
import zlib
from abc import ABC, abstractmethod
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import atheris
from google.protobuf.message import DecodeError, Message

from streameval import CorruptStateError, Evaluator, LabelJoiner, WindowedEvaluator
from streameval.v1 import ingest_pb2, stream_pb2
from streameval_server._batch.merge import MergeInbox
from streameval_server._batch.stream_import import StreamInbox
from streameval_server._core.catalog import settings_in
from streameval_server._core.recovery import ServerCore, open_core
from streameval_server._ingest.session import IngestSession
from streameval_server._ingest.unary_call import UnaryCall
from streameval_server._log.storage import MemoryStorage
from streameval_server._model.errors import RequestError
from streameval_server._model.limits import Limits

if TYPE_CHECKING:
    from types import ModuleType

LIMITS = Limits()
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def _beside_the_tests(name: str) -> ModuleType:
    """Import a module of tests/fuzz that builds inputs."""
    path = Path(__file__).parent.parent / "tests" / "fuzz" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


hostile = _beside_the_tests("hostile")
exemplars = _beside_the_tests("exemplars")
payload_attacks = _beside_the_tests("payload_attacks")
payload_ways = _beside_the_tests("payload_ways")
NOW_US = exemplars.NOW * 1_000_000


class Target(ABC):
    """Valid inputs, their mutation, and the code that reads them."""

    @abstractmethod
    def seeds(self) -> list[bytes]:
        """Return valid inputs."""

    @abstractmethod
    def mutated(self, data: bytes, max_bytes: int, seed: int) -> bytes:
        """Return a mutated input of at most `max_bytes` bytes."""

    @abstractmethod
    def run(self, data: bytes) -> None:
        """Process untrusted input; an exception that this raises is a finding."""


class State(Target):
    """`from_bytes` of one class; an accepted state is queried, written and read again.

    Checksums are recomputed after each mutation, so that fuzzing reaches the code
    behind the checksum.
    """

    def __init__(self, kind: type) -> None:
        self._kind: Any = kind

    def seeds(self) -> list[bytes]:
        """Return states of this class."""
        exact, bounded = Evaluator(), Evaluator(resolution=6, scale="probability", max_cells=64)
        exact.add_cases(labels=[1, 0, 1], scores=[0.1, 0.2, -7.7], counts=[1, 300, 70_000])
        exact.add_misses(3)
        bounded.add_cases(labels=[1, 0, 1, 0], scores=[0.1, 0.5, 0.9, 0.9])
        windowed = WindowedEvaluator(resolution=8)
        for minute in range(3):
            windowed.add_case(True, 0.25 * minute, at=NOON + timedelta(minutes=minute))
        joiners = [
            LabelJoiner(evaluator, ttl=timedelta(days=7))
            for evaluator in (Evaluator(), WindowedEvaluator())
        ]
        for joiner in joiners:
            joiner.log_cases(ids=["a", "b"], scores=[0.1, 0.2], at=NOON)
            joiner.label("a", True, at=NOON)
            joiner.label("early", True, at=NOON)
        states = [Evaluator(), exact, bounded, windowed, *joiners]
        return [state.to_bytes() for state in states if isinstance(state, self._kind)]

    def mutated(self, data: bytes, max_bytes: int, seed: int) -> bytes:  # noqa: ARG002 - libFuzzer seeds its own
        """Change bytes and recompute the checksum."""
        return hostile.resealed(atheris.Mutate(data, max_bytes))

    def run(self, data: bytes) -> None:
        """Read, write, read again, query."""
        try:
            state = self._kind.from_bytes(data)
        except CorruptStateError as refusal:
            _in_words(refusal)
            return
        assert self._kind.from_bytes(state.to_bytes()) == state
        for name in ("snapshot", "coverage", "coverage_by_score"):
            if hasattr(state, name):
                getattr(state, name)()


class Batch(Target):
    """IngestBatch, into an empty core."""

    def seeds(self) -> list[bytes]:
        """Return a batch of every kind."""
        batches = exemplars.batches("s", 6)
        return [ingest_pb2.IngestBatchRequest(batch=each).SerializeToString() for each in batches]

    def mutated(self, data: bytes, max_bytes: int, seed: int) -> bytes:
        """Change fields, or bytes."""
        return _bent(ingest_pb2.IngestBatchRequest(), data, max_bytes, seed)

    def run(self, data: bytes) -> None:
        """Check, commit, apply, replay."""
        core = open_core(MemoryStorage(), LIMITS)
        call = UnaryCall(core.committer, LIMITS)
        try:
            call.ingest_batch(data, NOW_US)
            _settle(core)
            call.response()
        except RequestError as refusal:
            _in_words(refusal)


class Session(Target):
    """Frames of an Ingest stream, each preceded by its length in two bytes."""

    def seeds(self) -> list[bytes]:
        """Return an opening frame followed by increasingly many batches."""
        frames = [each.SerializeToString() for each in exemplars.session_frames("p", "s")]
        return [_joined(frames[:count]) for count in (2, 4, len(frames))]

    def mutated(self, data: bytes, max_bytes: int, seed: int) -> bytes:
        """Change one frame, or repeat it."""
        frames = _cut(data)
        if not frames:
            return _bent(ingest_pb2.IngestRequest(), data, max_bytes, seed)
        at = seed % len(frames)
        frames[at] = _bent(ingest_pb2.IngestRequest(), frames[at], max_bytes, seed)
        if seed % 7 == 0:
            frames.append(frames[at])
        return _joined([frame[:65_535] for frame in frames])[:max_bytes]

    def run(self, data: bytes) -> None:
        """Feed, commit after each frame, apply, replay."""
        core = open_core(MemoryStorage(), LIMITS)
        session = IngestSession(core.committer, LIMITS)
        try:
            for frame in _cut(data):
                session.feed(frame, NOW_US)
                core.committer.step(NOW_US).deliver()
                session.replies()
        except RequestError as refusal:
            _in_words(refusal)
        _settle(core)


class Merge(Target):
    """The states of a merge, into a stream with segments."""

    def seeds(self) -> list[bytes]:
        """Return a state for all time and one for a pane."""
        return [exemplars.merge_states()]

    def mutated(self, data: bytes, max_bytes: int, seed: int) -> bytes:
        """Change an evaluator's bytes with its checksum, or fields, or bytes."""
        try:
            states = ingest_pb2.MergeStates.FromString(data)
        except DecodeError:
            return atheris.Mutate(data, max_bytes)
        if states.states and seed % 2:
            state = states.states[seed % len(states.states)]
            state.evaluator = hostile.resealed(atheris.Mutate(state.evaluator, max_bytes))
            return states.SerializeToString()[:max_bytes]
        return _bent(states, data, max_bytes, seed)

    def run(self, data: bytes) -> None:
        """Collect, check, commit, apply, replay."""
        core = open_core(MemoryStorage(), LIMITS)
        create = stream_pb2.CreateStreamRequest(stream=exemplars.stream("s"))
        UnaryCall(core.committer, LIMITS).create_stream(create.SerializeToString())
        _settle(core)
        header = ingest_pb2.MergeHeader(
            stream="s", source="p", epoch=1, total_bytes=len(data), crc32=zlib.crc32(data)
        )
        inbox, call = MergeInbox(LIMITS), UnaryCall(core.committer, LIMITS)
        try:
            inbox.feed(ingest_pb2.MergeRequest(header=header))
            inbox.feed(ingest_pb2.MergeRequest(data=data))
            settings = settings_in(core.committer.catalog, inbox.header)
            call.merge(inbox, inbox.finish(NOW_US, settings))
            _settle(core)
            call.response()
        except RequestError as refusal:
            _in_words(refusal)


class Import(Target):
    """An imported stream; if accepted, it must take more rows and be exported again."""

    def seeds(self) -> list[bytes]:
        """Return a stream with panes, segments and ids."""
        return [exemplars.exported()]

    def mutated(self, data: bytes, max_bytes: int, seed: int) -> bytes:
        """Change whole numbers in place, or bytes, and recompute the checksum.

        Mutated bytes alone rarely give a valid number.
        """
        if seed % 4 and len(data) > 8:
            return hostile.Hostile(seed).resealed_in_place(data)
        return hostile.resealed(atheris.Mutate(data, max_bytes))

    def run(self, data: bytes) -> None:
        """Collect, check, commit, apply; add more rows; replay."""
        core = open_core(MemoryStorage(), LIMITS)
        inbox, call = StreamInbox(LIMITS), UnaryCall(core.committer, LIMITS)
        try:
            for frame in exemplars.import_frames("s", data):
                inbox.feed(frame)
            name, file, payload = inbox.finish()
            call.import_stream(name, payload, file)
            _settle(core)
            call.response()
            for batch in exemplars.batches(name, 3):
                call = UnaryCall(core.committer, LIMITS)
                request = ingest_pb2.IngestBatchRequest(batch=batch)
                call.ingest_batch(request.SerializeToString(), NOW_US)
            _settle(core)
            export = core.engine.export(name)
            assert export is not None
            export()
        except RequestError as refusal:
            _in_words(refusal)


class Payload(Target):
    """A payload, preceded by two bytes: which attack it began as, and the mapping that reads it.

    The time and the memory of reading it are limited by its length, once it is unpacked.
    """

    _SECONDS, _SECONDS_PER_BYTE = 0.5, 200e-6
    """With coverage and the allocator traced, each byte costs ten times what it costs without."""
    _MEMORY, _MEMORY_PER_BYTE = 24 << 20, 600

    def __init__(self) -> None:
        self._attacks = list(payload_attacks.attacks(2_000))
        self._mappings = list(payload_ways.MAPPINGS.values())

    def seeds(self) -> list[bytes]:
        """Return every attack, each by one mapping."""
        return [
            bytes([place % 256, place % len(self._mappings)]) + each.body
            for place, each in enumerate(self._attacks)
        ]

    def mutated(self, data: bytes, max_bytes: int, seed: int) -> bytes:  # noqa: ARG002 - as in `State`
        """Change bytes."""
        return atheris.Mutate(data, max_bytes)

    def run(self, data: bytes) -> None:
        """Read it as the attack's way in does."""
        if len(data) < 2:
            return
        attack = self._attacks[data[0] % len(self._attacks)]
        mapping, body = self._mappings[data[1] % len(self._mappings)], data[2:]
        size = (
            len(body) if "content-encoding" not in attack.headers else payload_ways.MAX_BODY_BYTES
        )
        began_s = time.thread_time()
        tracemalloc.start()
        try:
            said = payload_ways.read(attack.way, attack.headers, body, mapping)
            memory = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert said != "refused: "
        assert time.thread_time() - began_s < self._SECONDS + size * self._SECONDS_PER_BYTE
        assert memory < self._MEMORY + size * self._MEMORY_PER_BYTE


def _in_words(refusal: Exception) -> None:
    assert str(refusal), repr(refusal)


def _settle(core: ServerCore) -> None:
    """Commit and apply; a replay of the log must give the same state."""
    core.committer.step(NOW_US).deliver()
    core.applier.finish()
    replayed = open_core(core.storage, LIMITS)
    assert replayed.engine.state_hash() == core.engine.state_hash()


def _bent(message: Message, data: bytes, max_bytes: int, seed: int) -> bytes:
    """Mutate a message by its fields, or by its bytes."""
    if seed % 3:
        try:
            sound = type(message).FromString(data)
        except DecodeError:
            sound = message
        changed = hostile.Hostile(seed).bent(sound).SerializeToString()
        if len(changed) <= max_bytes:
            return changed
    return atheris.Mutate(data, max_bytes)


def _joined(frames: list[bytes]) -> bytes:
    return b"".join(len(frame).to_bytes(2, "little") + frame for frame in frames)


def _cut(data: bytes) -> list[bytes]:
    frames = []
    while len(data) >= 2:
        size = int.from_bytes(data[:2], "little")
        frames.append(data[2 : 2 + size])
        data = data[2 + size :]
    return frames


TARGETS: dict[str, Target] = {
    "state": State(Evaluator),
    "windowed": State(WindowedEvaluator),
    "joiner": State(LabelJoiner),
    "batch": Batch(),
    "session": Session(),
    "merge": Merge(),
    "import": Import(),
    "payload": Payload(),
}
