"""Formats the output of ``streameval admin status``."""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Any

from google.protobuf.timestamp_pb2 import Timestamp
from rich.text import Text

from streameval.cli._errors import one_line
from streameval.cli._output import out, print_values

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from streameval.v1 import admin_pb2

_UNITS = ("B", "kB", "MB", "GB", "TB")


def to_plain_values(message: Message) -> dict[str, Any]:
    """Return a message's fields as plain values: absent ones are None, times are ISO 8601."""
    return {
        field.name: _field_value(message, field.name, is_list=field.is_repeated)
        for field in message.DESCRIPTOR.fields
    }


def _field_value(message: Any, name: str, *, is_list: bool) -> Any:
    value = getattr(message, name)
    if is_list:
        return [to_plain_values(each) if hasattr(each, "DESCRIPTOR") else each for each in value]
    if isinstance(value, Timestamp):
        return value.ToDatetime(UTC).isoformat() if message.HasField(name) else None
    if hasattr(value, "DESCRIPTOR"):
        return to_plain_values(value) if message.HasField(name) else None
    return value


def print_status(address: str, status: admin_pb2.GetServerStatusResponse) -> None:
    """Print a status as a table, with its warnings below."""
    serving = "serving" if status.serving else "NOT SERVING"
    style = "bold green" if status.serving else "bold red"
    out.print(Text(f"{address}  "), Text(serving, style=style), sep="")
    print_values(dict(_rows(status)))
    for warning in status.warnings:
        out.print(Text(f"! {one_line(warning)}", style="yellow"))


def _rows(status: admin_pb2.GetServerStatusResponse) -> list[tuple[str, str]]:
    now_s = status.time.ToMilliseconds() / 1e3
    up_s = now_s - status.start_time.ToMilliseconds() / 1e3
    checkpoint = f"{status.checkpoint_revision:,}" if status.checkpoint_revision else "none yet"
    if status.HasField("checkpoint_time"):
        checkpoint += (
            f", {format_duration(now_s - status.checkpoint_time.ToMilliseconds() / 1e3)} ago"
        )
    limit = f" of {format_bytes(status.max_state_bytes)}" if status.max_state_bytes else ""
    rows = [
        ("version", status.version),
        ("clock", _clock(status)),
        ("up", format_duration(up_s)),
        ("durable revision", f"{status.durable_revision:,} (acknowledged)"),
        ("visible revision", f"{status.applied_revision:,} ({status.lag_rows:,} rows behind)"),
        ("acknowledgements", _ack_wait(status)),
        ("checkpoint", checkpoint),
        ("log begins at", f"{status.log_start_revision:,}"),
        ("queue", format_bytes(status.queued_bytes)),
        ("open calls", f"{status.open_calls:,}"),
        ("streams", f"{status.streams:,}"),
        ("waiting ids", f"{status.pending:,}"),
        ("state", format_bytes(status.state_bytes) + limit),
    ]
    if status.HasField("disk"):
        disk = status.disk
        free = format_bytes(disk.reusable_bytes)
        used = f"{format_bytes(disk.used_bytes)} ({free} reusable)"
        rows += [
            ("directory", disk.directory),
            ("on disk", used),
            ("disk free", f"{format_bytes(disk.free_bytes)} of {format_bytes(disk.total_bytes)}"),
        ]
    if status.HasField("commits"):
        commits = status.commits
        times = ", ".join(
            f"{name} {duration.ToNanoseconds() / 1e6:.2f} ms"
            for name, duration in (
                ("half within", commits.p50),
                ("99 % within", commits.p99),
                ("longest", commits.max),
            )
        )
        plural = "" if commits.count == 1 else "s"
        rows.append((f"last {commits.count:,} commit{plural}", times))
    return rows


def _ack_wait(status: admin_pb2.GetServerStatusResponse) -> str:
    """Return what acknowledgements wait for."""
    if not status.HasField("ack_wait"):
        return "none waits"
    waited_s = status.ack_wait.age.ToNanoseconds() / 1e9
    return f"the oldest waits {waited_s:.1f} s: {status.ack_wait.reason}"


def _clock(status: admin_pb2.GetServerStatusResponse) -> str:
    """Return the wall clock, and the server's time while that is another."""
    wall = status.time.ToDatetime(UTC).isoformat(" ", "seconds")
    if not status.clock_in_doubt:
        return wall
    engine = status.engine_time.ToDatetime(UTC).isoformat(" ", "seconds")
    return f"{wall}, IN DOUBT; the server's time is {engine}"


def format_bytes(count: float) -> str:
    """Return a number of bytes with about three digits.

    Examples
    --------
    >>> format_bytes(0), format_bytes(1_234), format_bytes(98_765_432)
    ('0 B', '1.2 kB', '98.8 MB')
    """
    for unit in _UNITS:
        if count < 1000 or unit == _UNITS[-1]:
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"


def format_duration(seconds: float) -> str:
    """Return a duration in its two largest units.

    Examples
    --------
    >>> format_duration(4.4), format_duration(3_725), format_duration(90_061)
    ('4 s', '1 h 2 min', '1 d 1 h')
    """
    left = timedelta(seconds=round(max(seconds, 0)))
    minutes, rest_s = divmod(left.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    parts = [(left.days, "d"), (hours, "h"), (minutes, "min"), (rest_s, "s")]
    while len(parts) > 1 and not parts[0][0]:
        parts.pop(0)
    return " ".join(f"{value} {unit}" for value, unit in parts[:2] if value or len(parts) == 1)
