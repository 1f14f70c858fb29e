"""Sessions of producers with a core, and the cases that it counted."""

from __future__ import annotations

from streameval.v1 import ingest_pb2 as pb
from streameval_server._core.recovery import ServerCore
from streameval_server._ingest.session import IngestSession

NOW = 1_800_000_000_000_000


def batch(sequence=0, scores=(0.9, 0.1), positives=(True, False), stream="s"):
    cases = pb.Cases(scores=scores, positives=positives)
    return pb.Batch(sequence=sequence, stream=stream, cases=cases)


def frame(sequence, **columns) -> bytes:
    return pb.IngestRequest(batch=batch(sequence, **columns)).SerializeToString()


def opened(core: ServerCore, producer="p", epoch=1, wake=None) -> tuple[IngestSession, int]:
    """Open a session; return it and the last durable sequence."""
    session = IngestSession(core.committer, core.limits, wake or (lambda: None))
    request = pb.IngestRequest(open=pb.Open(producer=producer, epoch=epoch))
    session.feed(request.SerializeToString(), NOW)
    if not session.idle:
        commit(core)
    (reply,) = session.replies()
    return session, reply.resume.last_sequence


def commit(core: ServerCore) -> None:
    core.committer.step(NOW).deliver()
    core.applier.finish()


def counted(core: ServerCore, stream="s") -> int:
    view = core.engine.view(stream)
    return 0 if view is None else view.evaluator.num_cases
