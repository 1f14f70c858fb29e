"""``streameval alarms``: declares, lists and acknowledges the alarms of streams."""

from __future__ import annotations

from typing import Annotated

import typer

from streameval.cli._connection_options import connects
from streameval.cli._errors import one_line_errors
from streameval.cli._options import Address, AsJson
from streameval.cli._streams import StreamName

alarms = typer.Typer(help="Declare, list and acknowledge alarms.", no_args_is_help=True)


@alarms.command(name="list")
@connects
def list_command(
    address: Address,
    *,
    prefix: Annotated[str, typer.Option(help="Only streams whose names begin with this.")] = "",
    open_only: Annotated[bool, typer.Option("--open", help="Only open alarms.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the detectors of a server and their alarms."""
    with one_line_errors():
        from streameval.cli import _alarm_admin  # noqa: PLC0415 - slow to import

        _alarm_admin.print_alarms(address, prefix, open_only=open_only, as_json=as_json)


@alarms.command()
@connects
def show(address: Address, stream: StreamName, *, as_json: AsJson = False) -> None:
    """Print the detector of a stream and its alarms."""
    with one_line_errors():
        from streameval.cli import _alarm_admin  # noqa: PLC0415 - slow to import

        _alarm_admin.print_stream(address, stream, as_json=as_json)


@alarms.command()
@connects
def ack(
    address: Address,
    stream: StreamName,
    number: Annotated[int, typer.Argument(min=1, help="The alarm's number.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Acknowledge an alarm, so that its watch may raise another."""
    with one_line_errors():
        from streameval.cli import _alarm_admin  # noqa: PLC0415 - slow to import

        _alarm_admin.acknowledge(address, stream, number, as_json=as_json)


@alarms.command()
@connects
def declare(
    address: Address,
    stream: StreamName,
    *,
    watch: Annotated[
        list[str],
        typer.Option(
            help="What to watch and the tolerance, as placement=0.01; may be given several times. "
            "ranking, placement, precision, recall, flagged or calibration."
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
            "[default: the next 7 days]"
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
    """Declare which changes of a stream raise an alarm; begins anew with a reference."""
    with one_line_errors():
        from streameval.cli import _alarm_admin  # noqa: PLC0415 - slow to import

        settings = _alarm_admin.parse_settings(
            watch,
            mean_time=mean_time,
            pane=pane,
            maturity=maturity,
            reference=reference,
            label_wait=label_wait,
        )
        _alarm_admin.declare(address, stream, settings, as_json=as_json)


@alarms.command()
@connects
def stop(address: Address, stream: StreamName) -> None:
    """Declare no alarms any more; those of the stream are dropped."""
    with one_line_errors():
        from streameval.cli import _alarm_admin  # noqa: PLC0415 - slow to import

        _alarm_admin.stop(address, stream)
