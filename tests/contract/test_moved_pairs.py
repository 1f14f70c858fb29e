"""A pair on another server: exported, imported, and the same in every answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc
import pytest

pytest.importorskip("typer", reason="needs the extra cli")
from streameval.client import Client
from streameval.kernel import Frame
from streameval.v1 import admin_pb2, ingest_pb2, pair_pb2, stream_pb2
from streameval_server import Limits
from streameval_server.maintenance import LOG_NAME, replay_until, verify
from streameval_server.testing import running_server

from ..commands import outcome as run
from .conftest import Wire, failure
from .test_admin import exported, imported, serving, state_hash
from .test_pairs import METRICS, Cases, agrees, asked, made, name_of, put

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

A, B = "fraud/v3", "fraud/v4"
MIB = 1 << 20


def filled(wire: Wire, cases: Cases) -> None:
    """Make a pair of which a third of the ids has no label, and a tenth no other prediction."""
    made(wire, A, B, prevalence=0.1, max_cells=64)
    put(wire, A, predictions=cases.predictions("a"))
    put(wire, B, predictions=cases.predictions("b", slice(0, 540)))
    state_hash(wire, put(wire, A, labels=cases.told(slice(0, 400))))  # visible then


def exported_pair(wire: Wire, a: str = A, b: str = B) -> bytes:
    """Return a pair's export."""
    request = admin_pb2.ExportPairRequest(name=name_of(a, b))
    return b"".join(piece.data for piece in wire.admin.ExportPair(request, timeout=20))


def imported_pair(
    wire: Wire, data: bytes, a: str = "", b: str = "", name: str = ""
) -> admin_pb2.ImportPairResponse:
    """Import a pair."""

    def requests() -> Iterator[admin_pb2.ImportPairRequest]:
        header = admin_pb2.ImportPairHeader(name=name, a=a, b=b, total_bytes=len(data))
        yield admin_pb2.ImportPairRequest(header=header)
        for start in range(0, len(data), MIB):
            yield admin_pb2.ImportPairRequest(data=data[start : start + MIB])

    return wire.admin.ImportPair(requests(), timeout=20)


def answers(wire: Wire, pair: tuple[str, str]) -> list[object]:
    """Return what a pair answers, without names and revisions."""
    found: list[object] = []
    for metric in METRICS:
        answer = asked(wire, pair, metric=metric, by_segment="country")
        for each in (answer.comparison, *answer.segments):
            for field in ("a", "b", "sentence"):
                each.ClearField(field)
            for field in ("revision", "window_a", "window_b"):
                each.compared.ClearField(field)
            found.append(each)
    info = wire.pairs.GetPair(pair_pb2.GetPairRequest(name=name_of(*pair)), timeout=20).pair
    info.counters.ClearField("state_bytes")  # with room for growth
    return [*found, info.settings, info.create_time, info.counters]


def test_a_pair_moves_with_everything(tmp_path: Path) -> None:
    """Answers, segments, counters and waiting ids move; later predictions and labels join."""
    cases = Cases(21)
    with serving() as origin, serving(tmp_path) as target:
        filled(origin, cases)
        before = answers(origin, (A, B))
        files = [exported(origin, name) for name in (A, B)]
        data = exported_pair(origin)
        for file, name in zip(files, ("moved/a", "moved/b"), strict=True):
            imported(target, file)
            imported(target, file, name)
        answer = imported_pair(target, data)
        assert (answer.name, answer.a, answer.b) == (name_of(A, B), A, B)
        sides = ("moved/a", "moved/b")
        taken = failure(lambda: imported_pair(target, data, *sides))
        assert (taken.reason, taken.message) == (
            "PAIR_NAME_TAKEN",
            (
                f"there is another pair named {answer.name} already: give this one another name "
                "(pair_id, or --name)"
            ),
        )
        moved = imported_pair(target, data, *sides, name_of(*sides))
        assert (moved.name, moved.a, moved.b) == (name_of(*sides), *sides)
        assert moved.revision == answer.revision + 1
        assert answers(target, (A, B)) == answers(target, ("moved/a", "moved/b")) == before
        for wire, (a, b) in ((origin, (A, B)), (target, (A, B)), (target, ("moved/a", "moved/b"))):
            put(wire, b, predictions=cases.predictions("b", slice(540, 600)))
            revision = put(wire, b, labels=cases.told())
            agrees(
                asked(wire, (a, b), revision, own_prevalence=True).comparison,
                cases.compared("auc_pr"),
            )
        after = answers(target, ("moved/a", "moved/b"))
        assert [each for each in after[:9] if each.coverage.labelled == 600]
        last = state_hash(target)
    # What was imported is in the log, and in checkpoints.
    assert replay_until(tmp_path, last.revision).state_hash() == last.sha256
    assert verify(tmp_path / LOG_NAME, Limits()).ok
    with serving(tmp_path) as again:
        assert state_hash(again) == last


def test_a_pair_that_cannot_be_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    """One stream alone, streams of other keys, a pair that is there, and altered bytes."""
    with serving() as origin, serving(tmp_path) as wire:
        filled(origin, Cases(22))
        data, file = exported_pair(origin), exported(origin, A)
        [piece] = origin.admin.ExportStream(admin_pb2.ExportStreamRequest(name=B), timeout=20)
        assert piece.pairs == [name_of(A, B)]
        imported(wire, file)
        imported(wire, file, "twin")
        wire.one(ingest_pb2.Batch(stream="plain", misses=ingest_pb2.Misses(positives=1)))
        imported_pair(wire, data, A, "twin", "twins")
        before = state_hash(wire)

        def refused(data: bytes, a: str = A, b: str = B) -> tuple[grpc.StatusCode, str, str]:
            ended = failure(lambda: imported_pair(wire, data, a, b))
            return ended.code, ended.reason, ended.message

        assert refused(data) == (
            grpc.StatusCode.NOT_FOUND,
            "NO_STREAM",
            (
                f"there is no stream {B}: a pair's file has no streams; export and import both of "
                "them before it, or name the two that it is to compare"
            ),
        )
        assert refused(data, "twin", A)[:2] == (grpc.StatusCode.ALREADY_EXISTS, "PAIR_EXISTS")
        assert refused(data, A, "plain") == (
            grpc.StatusCode.FAILED_PRECONDITION,
            "PAIR_DOES_NOT_FIT",
            (
                "the exported pair has the segment key country, which one of these streams does "
                "not have: import its own streams first"
            ),
        )
        invalid = (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_IMPORT")
        flipped = bytearray(data)
        flipped[len(data) // 2] ^= 1
        assert refused(bytes(flipped))[:2] == invalid
        assert refused(file)[:2] == invalid
        newer = Frame(b"SVEQ", 2, "an exported pair").sealed(data[7:-4])
        assert refused(newer)[2] == (
            "exported pair format 2 is unknown; this version reads format 1"
        )
        ended = failure(lambda: wire.admin.ImportPair(iter([]), timeout=20))
        assert ended.message == "the first message must be header"
        assert failure(lambda: exported_pair(wire, A, "plain")).reason == "NO_PAIR"
        assert failure(lambda: imported_pair(wire, data, A, A)).fields[0][0] == "header.b"
        named = failure(lambda: imported_pair(wire, data, name="a/../b"))
        assert named.fields == [
            ("header.name", "pair name must have no segment '.' or '..', got 'a/../b'")
        ]
        assert state_hash(wire) == before
    with serving(max_import_bytes=100) as small:
        assert failure(lambda: imported_pair(small, data)).reason == "IMPORT_TOO_LARGE"


def test_a_pair_with_clusters_needs_streams_with_them() -> None:
    """Groups of clusters are those of both streams."""
    with serving() as origin, serving() as wire:
        for target, groups in ((origin, 8), (wire, 0)):
            for name in (A, B):
                stream = stream_pb2.Stream(name=name)
                if groups:
                    stream.settings.cluster_key = "user"
                    stream.settings.cluster_groups = groups
                target.streams.CreateStream(stream_pb2.CreateStreamRequest(stream=stream))
        origin.pairs.CreatePair(pair_pb2.CreatePairRequest(pair=pair_pb2.Pair(a=A, b=B)))
        ended = failure(lambda: imported_pair(wire, exported_pair(origin)))
        assert ended.message == (
            "the exported pair has 8 groups of clusters, and one of these streams has none: "
            "import its own streams first"
        )


def test_the_commands_that_move_a_pair(tmp_path: Path) -> None:
    """An export of one stream names the pair that it leaves out; the file of the pair has it."""
    cases, file = Cases(23), tmp_path / "pair.sve"

    with running_server() as address, grpc.insecure_channel(address) as channel:
        filled(Wire(channel), cases)
        for number, name in enumerate((A, B)):
            code, _, errors = run(
                "admin", "export", "--server", address, name, tmp_path / f"{number}.sve"
            )
            pair = name_of(A, B)
            assert (code, errors.startswith(f"warning: the pair {pair} is not")) == (0, True)
            assert f"streameval pairs export {pair} FILE --server {address}" in errors
        code, printed, _ = run("pairs", "export", "--server", address, pair, file)
        assert (code, printed.startswith(f"the pair {pair} at revision")) == (0, True)
        with Client(address) as client:
            known = client.compare_pair(pair)
    with running_server() as address:
        code, _, errors = run("pairs", "import", "--server", address, file)
        assert (code, f"there is no stream {A}" in errors) == (2, True)
        for number in range(2):
            assert run("admin", "import", "--server", address, tmp_path / f"{number}.sve")[0] == 0
        assert run("pairs", "import", "--server", address, file)[0] == 0
        with Client(address) as client:
            found = client.compare_pair(pair)
    assert (found.difference, found.lower, found.coverage) == (
        known.difference,
        known.lower,
        known.coverage,
    )
