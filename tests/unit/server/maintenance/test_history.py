"""Earlier revisions: a late label changes past panes, and the log still has them as they were."""

from __future__ import annotations

import pytest

from streameval.v1 import ingest_pb2 as pb
from streameval_server import Limits
from streameval_server._core.recovery import open_core
from streameval_server._ingest.unary_call import UnaryCall
from streameval_server._log.sqlite import SqliteStorage
from streameval_server._model.errors import StorageError
from streameval_server.maintenance import LOG_NAME, replay_until

NOW = 1_800_000_000_000_000
DAY = 24 * 3600 * 1_000_000


def sent(core, at, **rows) -> int:
    call = UnaryCall(core.committer, core.limits)
    request = pb.IngestBatchRequest(batch=pb.Batch(stream="s", **rows))
    call.ingest_batch(request.SerializeToString(), at)
    core.committer.step(at).deliver()
    core.applier.finish()
    return call.response().revision


def written(directory, *, checkpoint: bool):
    """Log predictions, a label and a late label; return the core and the state hashes."""
    core = open_core(SqliteStorage(directory / LOG_NAME), Limits())
    hashes = [core.engine.state_hash()]
    for at, rows in (
        (0, {"predictions": pb.Predictions(ids=["a", "b"], scores=[0.9, 0.2])}),
        (DAY, {"labels": pb.Labels(ids=["a"], positives=[True])}),
        (13 * DAY, {"labels": pb.Labels(ids=["b"], positives=[False])}),
    ):
        sent(core, NOW + at, **rows)
        hashes.append(core.engine.state_hash())
        if checkpoint and at == DAY:
            core.applier.request_checkpoint()
            core.applier.finish()
            while core.committer.step(NOW + at).more:
                pass
    return core, hashes


@pytest.mark.parametrize("checkpoint", [False, True])
def test_every_revision_has_its_state(tmp_path, checkpoint):
    """With and without a server on the log, with and without a checkpoint in between."""
    core, hashes = written(tmp_path, checkpoint=checkpoint)
    for revision, wanted in enumerate(hashes):
        engine = replay_until(tmp_path, revision)
        assert (engine.revision, engine.state_hash()) == (revision, wanted)
    assert replay_until(tmp_path).state_hash() == hashes[-1]
    then = replay_until(tmp_path, 2).view("s").whole.panes[0]
    now = replay_until(tmp_path, 3).view("s").whole.panes[0]
    assert (then.evaluator.num_cases, now.evaluator.num_cases) == (1, 2)
    assert sent(core, NOW + 13 * DAY, misses=pb.Misses(positives=1)) == 4
    core.drain(NOW)
    assert replay_until(tmp_path).revision == 4


def test_missing_logs_and_revisions_are_refused(tmp_path):
    """Without a log, or for a revision out of its range."""
    with pytest.raises(StorageError, match="there is no log at"):
        replay_until(tmp_path, 1)
    core, _ = written(tmp_path, checkpoint=False)
    core.storage.close()
    for revision in (-1, 4):
        with pytest.raises(StorageError, match=f"revisions 0 to 3, and none {revision}"):
            replay_until(tmp_path, revision)


def test_nothing_is_written(tmp_path):
    """The log's file stays as it is."""
    core, _ = written(tmp_path, checkpoint=True)
    core.drain(NOW)
    before = (tmp_path / LOG_NAME).read_bytes()
    replay_until(tmp_path, 2)
    assert (tmp_path / LOG_NAME).read_bytes() == before
