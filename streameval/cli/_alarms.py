"""``streameval alarms``: declares, lists and acknowledges the alarms of streams."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from streameval._common.errors import StreamEvalError
from streameval._common.spans import format_span, parse_span
from streameval.cli._commands import Commands
from streameval.cli._connection import connect
from streameval.cli._connection_options import connects
from streameval.cli._options import AsJson, Prefix, StreamName, parse_time

if TYPE_CHECKING:
    from streameval.client import AlarmSettings, AlarmStatus

alarms = Commands("Declare, list and acknowledge alarms.")


@alarms.command(name="list")
@connects
def list_command(
    *,
    prefix: Prefix = "",
    open_only: Annotated[bool, typer.Option("--open", help="Only open alarms.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the detectors of a server and their alarms."""
    from streameval.cli._output import print_json, print_table, say  # noqa: PLC0415 - slow to import

    with connect() as client:
        found = client.list_alarms(prefix, open_only=open_only)
    if as_json:
        print_json([each.to_dict() for each in found])
        return
    if not found:
        say("no alarm is open" if open_only else "no stream declares alarms")
        return
    print_table(("stream", "state", "since", "evidence", "open"), map(_row, found))
    for each in found:
        for alarm in each.alarms:
            if alarm.is_open:
                say(str(alarm))


@alarms.command()
@connects
def show(stream: StreamName, *, as_json: AsJson = False) -> None:
    """Print the detector of a stream and its alarms."""
    from streameval.cli._output import print_json, say  # noqa: PLC0415 - slow to import

    with connect() as client:
        found = client.stream_alarms(stream)
        declared = None if found is None or as_json else client.get_stream(stream).settings.alarms
    if as_json:
        print_json(None if found is None else found.to_dict())
        return
    if found is None:
        say(f"{stream} declares no alarms")
        return
    _print_status(found, declared)
    for alarm in found.alarms:
        say(str(alarm))
        if alarm.acknowledged_at is not None:
            say(f"  acknowledged {alarm.acknowledged_at:%Y-%m-%d %H:%M}")


@alarms.command()
@connects
def ack(
    stream: StreamName,
    number: Annotated[int, typer.Argument(min=1, help="The alarm's number.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Acknowledge an alarm, so that its watch may raise another."""
    from streameval.cli._output import print_json, say  # noqa: PLC0415 - slow to import

    with connect() as client:
        found = client.acknowledge_alarm(stream, number)
    if as_json:
        print_json(found.to_dict())
        return
    assert found.acknowledged_at is not None
    say(
        f"alarm {number} of {stream} is acknowledged since "
        f"{found.acknowledged_at:%Y-%m-%d %H:%M:%S}"
    )


@alarms.command()
@connects
def declare(
    stream: StreamName,
    *,
    watch: Annotated[
        list[str],
        typer.Option(
            help="What to watch and the tolerance, as auc_roc=0.01; may be given several times. "
            "ranking, auc_roc, precision, recall, flagged or calibration."
        ),
    ],
    mean_time: Annotated[
        str, typer.Option(help="Mean time to a false alarm of all watches together.")
    ] = "365d",
    pane: Annotated[str, typer.Option(help="The time of one observation.")] = "1m",
    maturity: Annotated[
        str | None,
        typer.Option(help="How long a pane waits for labels, at most 48 panes. [default: not]"),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            help="The time to compare with, as 2026-11-01..2026-11-08, in UTC. "
            "[default: the first whole weeks that are kept and stable, else the next 7 days]"
        ),
    ] = None,
    label_wait: Annotated[
        str | None,
        typer.Option(
            help="How long the reference waits for labels. "
            "[default: label-ttl where rows come by id, else not]"
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Declare which changes of a stream raise an alarm; starts again with a new reference.

    What is kept since the reference is replayed by event time: it says when the alarm would have
    rung, if labels had come in time. Panes of an hour or a day are one observation each, so that
    old changes are found later than they would have been.
    """
    from streameval.cli._output import print_json  # noqa: PLC0415 - slow to import
    from streameval.client import AlarmSettings  # noqa: PLC0415 - as above

    watches = dict(map(_watch, watch))
    if len(watches) < len(watch):
        raise StreamEvalError("--watch names one thing twice: give each once, with one tolerance")
    settings = AlarmSettings(
        watches=watches,
        mean_time_to_false_alarm=parse_span(mean_time, "--mean-time"),
        pane=parse_span(pane, "--pane"),
        maturity=timedelta(0) if maturity is None else parse_span(maturity, "--maturity"),
        reference=None if reference is None else _reference(reference),
        label_wait=None if label_wait is None else parse_span(label_wait, "--label-wait"),
    )
    with connect() as client:
        client.update_stream(stream, alarms=settings)
        found = client.stream_alarms(stream)
    assert found is not None
    if as_json:
        print_json(found.to_dict())
    else:
        _print_status(found, settings)
        _print_past(found)


@alarms.command()
@connects
def stop(stream: StreamName) -> None:
    """Stop declaring alarms for a stream, and drop its alarms."""
    from streameval.cli._output import say  # noqa: PLC0415 - slow to import

    with connect() as client:
        client.update_stream(stream, alarms=None)
    say(f"{stream} declares no alarms any more")


def _row(status: AlarmStatus) -> tuple[str, ...]:
    since = status.watching_since
    return (
        status.stream,
        status.state,
        "" if since is None else f"{since:%Y-%m-%d %H:%M}",
        ", ".join(f"{name} {share:.0%}" for name, share in status.evidence.items()),
        str(sum(alarm.is_open for alarm in status.alarms)),
    )


def _print_status(status: AlarmStatus, declared: AlarmSettings | None) -> None:
    from streameval.cli._output import say  # noqa: PLC0415 - slow to import

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
    lines += [f"  note: {each}" for each in status.warnings]
    for line in lines:
        say(line)


def _print_past(status: AlarmStatus) -> None:
    """Print when it would have rung, of what is kept since the reference."""
    from streameval.cli._output import say  # noqa: PLC0415 - slow to import

    if status.watching_since is None:
        return
    past = [each for each in status.alarms if each.is_past]
    for alarm in past:
        say(str(alarm))
    if not past:
        since = f"{status.reference[1]:%Y-%m-%d %H:%M}"
        say(f"  would not have rung since {since}, if labels had come in time")


def _watch(text: str) -> tuple[str, float]:
    name, _, tolerance = text.partition("=")
    try:
        return name, float(tolerance)
    except ValueError:
        message = f"--watch {text!r}: give a name and its tolerance, as auc_roc=0.01"
        raise StreamEvalError(message) from None


def _reference(text: str) -> tuple[datetime, datetime]:
    start, dots, end = text.partition("..")
    if not dots:
        message = f"--reference {text!r}: give two times, as 2026-11-01..2026-11-08"
        raise StreamEvalError(message)
    return parse_time(start, "--reference"), parse_time(end, "--reference")
