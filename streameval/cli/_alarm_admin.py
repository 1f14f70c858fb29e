"""The work of ``streameval alarms``, by the client."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from streameval._common.errors import StreamEvalError
from streameval._common.spans import format_span, parse_span
from streameval.cli._connect import connect
from streameval.cli._options import parse_time
from streameval.cli._output import out, print_json
from streameval.client import AlarmSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval.client import AlarmStatus


def parse_settings(
    watches: Sequence[str],
    *,
    mean_time: str,
    pane: str,
    maturity: str | None,
    reference: str | None,
    label_wait: str | None,
) -> AlarmSettings:
    """Return the options as settings."""
    declared = dict(map(_watch, watches))
    if len(declared) < len(watches):
        raise StreamEvalError("--watch names one thing twice: give each once, with one tolerance")
    return AlarmSettings(
        watches=declared,
        mean_time_to_false_alarm=parse_span(mean_time, "--mean-time"),
        pane=parse_span(pane, "--pane"),
        maturity=timedelta(0) if maturity is None else parse_span(maturity, "--maturity"),
        reference=None if reference is None else _reference(reference),
        label_wait=None if label_wait is None else parse_span(label_wait, "--label-wait"),
    )


def print_alarms(address: str, prefix: str, *, open_only: bool, as_json: bool) -> None:
    """Print the detectors of a server, as a table and the open alarms, or as a list in JSON."""
    with connect(address) as client:
        found = client.list_alarms(prefix, open_only=open_only)
    if as_json:
        print_json([each.to_dict() for each in found])
        return
    if not found:
        none = "no alarm is open" if open_only else "no stream declares alarms"
        out.print(none, markup=False)
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("stream", "state", "since", "evidence", "open"):
        table.add_column(title, no_wrap=title == "stream")
    for each in found:
        since = each.watching_since
        table.add_row(
            Text(each.stream),
            each.state,
            "" if since is None else f"{since:%Y-%m-%d %H:%M}",
            Text(", ".join(f"{name} {share:.0%}" for name, share in each.evidence.items())),
            str(sum(alarm.is_open for alarm in each.alarms)),
        )
    out.print(table)
    for each in found:
        _print_alarms(each, open_only=True)


def print_stream(address: str, stream: str, *, as_json: bool) -> None:
    """Print a stream's detector and all of its alarms."""
    with connect(address) as client:
        found = client.stream_alarms(stream)
        declared = None if found is None or as_json else client.get_stream(stream).settings.alarms
    if as_json:
        print_json(None if found is None else found.to_dict())
    elif found is None:
        out.print(f"{stream} declares no alarms", soft_wrap=True, markup=False)
    else:
        _print_status(found, declared)
        _print_alarms(found, open_only=False)


def acknowledge(address: str, stream: str, number: int, *, as_json: bool) -> None:
    """Acknowledge an alarm."""
    with connect(address) as client:
        found = client.acknowledge_alarm(stream, number)
    if as_json:
        print_json(found.to_dict())
        return
    assert found.acknowledged_at is not None
    at = f"{found.acknowledged_at:%Y-%m-%d %H:%M:%S}"
    out.print(
        f"alarm {number} of {stream} is acknowledged since {at}", soft_wrap=True, markup=False
    )


def declare(address: str, stream: str, settings: AlarmSettings, *, as_json: bool) -> None:
    """Declare alarms; print what the detector waits for."""
    with connect(address) as client:
        client.update_stream(stream, alarms=settings)
        found = client.stream_alarms(stream)
    assert found is not None
    if as_json:
        print_json(found.to_dict())
    else:
        _print_status(found, settings)


def stop(address: str, stream: str) -> None:
    """Declare no alarms any more."""
    with connect(address) as client:
        client.update_stream(stream, alarms=None)
    out.print(f"{stream} declares no alarms any more", soft_wrap=True, markup=False)


def _print_status(status: AlarmStatus, declared: AlarmSettings | None) -> None:
    start, end = (f"{at:%Y-%m-%d %H:%M}" for at in status.reference)
    lines = [f"{status.stream} is {status.state}; its reference is {start} to {end}"]
    if declared is not None:  # they may have been stopped meanwhile
        watches = ", ".join(f"{name} ({each:g})" for name, each in declared.watches.items())
        mean_time, pane = map(format_span, (declared.mean_time_to_false_alarm, declared.pane))
        lines += [
            f"  watches, with the tolerance of each: {watches}",
            f"  at most one false alarm in {mean_time} on average, in panes of {pane}",
        ]
    if status.waits_for:
        lines.append(f"  waits for {status.waits_for}")
    lines += [f"  {name}: {share:.1%} of an alarm" for name, share in status.evidence.items()]
    if status.left_out:
        lines.append(f"  {status.left_out:,} rows with a weight are not watched")
    for line in lines:
        out.print(line, soft_wrap=True, markup=False)


def _print_alarms(status: AlarmStatus, *, open_only: bool) -> None:
    for alarm in status.alarms:
        if alarm.is_open or not open_only:
            out.print(str(alarm), soft_wrap=True, markup=False)
        if not alarm.is_open and not open_only:
            out.print(f"  acknowledged {alarm.acknowledged_at:%Y-%m-%d %H:%M}", markup=False)


def _watch(text: str) -> tuple[str, float]:
    name, _, tolerance = text.partition("=")
    try:
        return name, float(tolerance)
    except ValueError:
        message = f"--watch {text!r}: give a name and its tolerance, as placement=0.01"
        raise StreamEvalError(message) from None


def _reference(text: str) -> tuple[datetime, datetime]:
    start, dots, end = text.partition("..")
    if not dots:
        message = f"--reference {text!r}: give two times, as 2026-11-01..2026-11-08"
        raise StreamEvalError(message)
    return parse_time(start, "--reference"), parse_time(end, "--reference")
