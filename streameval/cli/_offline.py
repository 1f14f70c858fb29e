"""``streameval admin`` on a data directory or a backup, without a server."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from streameval.cli._options import parse_part
from streameval.cli._output import (
    out,
    print_backup,
    print_json,
    print_snapshot,
    progress_bar,
    say,
    standard_output,
)
from streameval.cli._status import format_duration
from streameval.client._wire import calls
from streameval.client._wire.decode import read_snapshot
from streameval.client._wire.selection import Selection
from streameval.v1 import query_pb2
from streameval_server import commands

if TYPE_CHECKING:
    from streameval.cli._sample import SampleOptions
    from streameval_server.maintenance import Verification


def state_hash(data: Path | None, config: Path | None, until: int | None) -> None:
    """Print the hash of a directory's state."""
    revision, digest = commands.state_hash(data, config, until)
    out.print(f"revision {revision}  {digest}", soft_wrap=True)


def verify(file: Path | None, data: Path | None, config: Path | None, *, as_json: bool) -> bool:
    """Print the findings of a verification; return whether the log is intact."""
    path = commands.log_path(file, data, config)
    with progress_bar(f"verifying {path.name}") as progress:
        found = commands.verify(path, config, progress)
    if as_json:
        print_json(
            {
                "path": str(path),
                "ok": found.ok,
                "revision": found.revision,
                "state_hash": found.state_hash,
                "findings": [
                    {"what": each.what, "ok": each.ok, "detail": each.detail}
                    for each in found.findings
                ],
            }
        )
    else:
        _print(path, found)
    return found.ok


def _print(path: Path, found: Verification) -> None:
    say(str(path))
    for each in found.findings:
        verdict = "[green]ok[/green]     " if each.ok else "[bold red]DAMAGED[/bold red]"
        out.print(f"  {verdict}  {each.what:<10}", end="", soft_wrap=True)
        say(f"  {each.detail}")
    if found.state_hash:
        out.print(f"state at revision {found.revision}: {found.state_hash}", soft_wrap=True)
    verdict = "the log is intact" if found.ok else "DAMAGED, see above"
    out.print(verdict, style="bold" if found.ok else "bold red")


def backup(file: Path | None, data: Path | None, config: Path | None) -> None:
    """Copy a directory's log to a file; None is standard output."""
    if file is None:
        # SQLite copies to files only.
        with standard_output() as stream, TemporaryDirectory(prefix="streameval-") as temporary:
            copy = Path(temporary) / "backup.db"
            made = commands.backup(copy, data, config)
            with copy.open("rb") as source:
                shutil.copyfileobj(source, stream)
    else:
        made = commands.backup(file, data, config)
    print_backup(file, made.revision, made.size, made.sha256)


def restore(file: Path, data: Path, config: Path | None) -> None:
    """Make a data directory from a backup."""
    with progress_bar(f"verifying {file.name}") as progress:
        found = commands.restore(file, data, config, progress)
    say(f"{data} is at revision {found.revision}: start a server with --data {data}")
    out.print(f"state {found.state_hash}", soft_wrap=True)


def compact(data: Path | None, config: Path | None) -> None:
    """Take a checkpoint, drop the log before it, and shrink the file."""
    done = commands.compact(data, config)
    out.print(
        f"the log begins at revision {done.compacted.revision}, {done.compacted.dropped:,} rows "
        f"were dropped; {done.before:,} bytes before, {done.after:,} now",
        soft_wrap=True,
    )


def repair(data: Path, to: Path, first: int | None, last: int | None, config: Path | None) -> None:
    """Write a mended copy of a log whose rows were received ahead of time."""
    done = commands.repair(data, to, first, last, config)
    say(
        f"rows {done.first:,} to {done.last:,} were moved back by up to "
        f"{format_duration(done.moved_us / 1e6)}: start the server with --data {to}"
    )
    out.print(f"revision {done.revision}  {done.state_hash}", soft_wrap=True)


def replay(
    stream: str,
    *,
    until: int | None,
    data: Path | None,
    config: Path | None,
    window: str | None,
    segment: str | None,
    as_json: bool,
) -> None:
    """Print a stream's figures as they were at a revision of the log."""
    selection = Selection(stream=stream, **parse_part(window, segment))
    request = query_pb2.GetSnapshotRequest(selection=selection.to_message(0))
    snapshot = read_snapshot(commands.replay(request, until, data, config))
    if as_json:
        print_json(snapshot.to_dict())
    else:
        print_snapshot(snapshot, heading=f"{stream} as it was at revision {snapshot.revision}")


def sample(
    stream: str,
    options: SampleOptions,
    *,
    until: int | None,
    data: Path | None,
    config: Path | None,
) -> None:
    """Print which predictions were to be labelled at a revision of the log."""
    call = calls.sample_for_labels(
        options.selection(stream),
        0,
        options.size,
        metric=options.metric,
        threshold=options.threshold,
        prevalence=options.prevalence,
        seed=options.seed,
        draw_ids=options.draw_ids,
    )
    found = call.read(commands.sample(call.request, until, data, config))
    options.write(stream, found)
