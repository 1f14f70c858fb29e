"""``streameval streams``: lists, creates, changes and deletes the streams of a server."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict, replace
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streameval._common.errors import StreamEvalError
from streameval._common.spans import format_span
from streameval.cli._commands import Commands
from streameval.cli._connection import connect, connection, transport
from streameval.cli._connection_options import connects
from streameval.cli._options import (
    AsJson,
    Limit,
    ListWindow,
    MaxPending,
    Order,
    Pane,
    Prefix,
    Retention,
    Reverse,
    Search,
    StreamName,
    StreamResolution,
    Yes,
    parse_settings,
)

if TYPE_CHECKING:
    from streameval.client import StreamInfo

streams = Commands("List, create, change and delete streams.")


class Scale(StrEnum):
    """Scales on which bits of a score are kept."""

    PLAIN = "plain"
    PROBABILITY = "probability"


class Orphans(StrEnum):
    """Ways to count a label without a prediction."""

    DROP = "drop"
    MISS = "miss"


class Expired(StrEnum):
    """Ways to count a prediction without a label."""

    DROP = "drop"
    NEGATIVE = "negative"


LabelTtl = Annotated[
    str | None,
    typer.Option(help="How long a prediction waits for its label. [default: 14d, or retention]"),
]
RelabelTtl = Annotated[
    str | None,
    typer.Option(help="How long a label can be changed or retracted. [default: 1h]"),
]
OrphansOption = Annotated[
    Orphans | None,
    typer.Option(help="How a label without a prediction counts. [default: drop]"),
]
ExpiredOption = Annotated[
    Expired | None,
    typer.Option(help="How a prediction without a label counts. [default: drop]"),
]
ThresholdOption = Annotated[
    float | None,
    typer.Option(
        help="The score at which the model runs: answers have the rates at it. [default: none]",
        show_default=False,
    ),
]
CostFpOption = Annotated[
    float | None,
    typer.Option(
        help="What a false positive costs: answers have the cost per case at the threshold. "
        "[default: none]",
        show_default=False,
    ),
]
CostFnOption = Annotated[
    float | None,
    typer.Option(
        help="What a false negative costs, in the same unit. [default: none]", show_default=False
    ),
]
LeastProbabilityOption = Annotated[
    float | None,
    typer.Option(
        "--min-label-probability",
        help="The least probability with which a case is chosen to be labelled: intervals allow "
        "for unseen cases that weigh 1 over it. [default: none]",
        show_default=False,
    ),
]


@streams.command(name="list")
@connects
def list_command(
    *,
    order: Order = None,
    reverse: Reverse = False,
    window: ListWindow = None,
    search: Search = "",
    prefix: Prefix = "",
    limit: Limit = None,
    as_json: AsJson = False,
) -> None:
    """Print the streams of a server: open alarms first, then what became worse, as on the page."""
    from streameval.cli import _list_reading, _list_table  # noqa: PLC0415 - slow to import
    from streameval.cli._output import out, print_json  # noqa: PLC0415 - as above

    query = _list_reading.parse_query(
        order, reverse=reverse, window=window, search=search, prefix=prefix, limit=limit
    )
    with closing(transport()) as server:
        reading = _list_reading.read_complete(server, query)
    if as_json:
        print_json([summary.to_dict() for summary in reading.ranked.summaries])
    else:
        out.print(
            _list_table.frame(
                reading, _list_table.FrameState(connection().address, query), out.width
            )
        )


@streams.command(name="settings")
@connects
def settings_command(*, prefix: Prefix = "", as_json: AsJson = False) -> None:
    """Print the settings of a server's streams."""
    from streameval.cli._output import print_json, print_table  # noqa: PLC0415 - slow to import

    with connect() as client:
        found = client.list_streams(prefix)
    if as_json:
        print_json([_plain_values(info) for info in found])
        return
    titles = ("stream", "created", "pane", "retention", "label ttl", "bits", "segments")
    print_table(titles, map(_row, found))


@streams.command()
@connects
def create(
    stream: StreamName,
    *,
    pane: Pane = None,
    retention: Retention = None,
    resolution: StreamResolution = None,
    scale: Annotated[
        Scale | None,
        typer.Option(help="The number whose bits are kept. [default: plain]"),
    ] = None,
    label_ttl: LabelTtl = None,
    relabel_ttl: RelabelTtl = None,
    max_pending: MaxPending = None,
    orphans: OrphansOption = None,
    expired: ExpiredOption = None,
    segment: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="Key of segments; may be given several times."),
    ] = None,
    cluster_key: Annotated[
        str | None,
        typer.Option(
            help="What rows share a cluster by, as user_id: every case and prediction then "
            "needs a cluster, and intervals allow for rows that depend on one another."
        ),
    ] = None,
    cluster_groups: Annotated[
        int | None,
        typer.Option(
            min=8,
            max=1024,
            help="Groups that clusters are hashed into. [default: 32 with --cluster-key]",
        ),
    ] = None,
    threshold: ThresholdOption = None,
    cost_fp: CostFpOption = None,
    cost_fn: CostFnOption = None,
    min_label_probability: LeastProbabilityOption = None,
    as_json: AsJson = False,
) -> None:
    """Create a stream. --pane, --resolution, --scale and the clusters cannot change later."""
    settings = parse_settings(
        pane=pane,
        retention=retention,
        resolution=resolution,
        scale=scale,
        label_ttl=label_ttl,
        relabel_ttl=relabel_ttl,
        max_pending=max_pending,
        orphans=orphans,
        expired=expired,
        segment_keys=segment,
        cluster_key=cluster_key,
        cluster_groups=cluster_groups,
        threshold=threshold,
        cost_fp=cost_fp,
        cost_fn=cost_fn,
        min_label_probability=min_label_probability,
    )
    with connect() as client:
        _print(client.create_stream(stream, **settings), as_json=as_json)


@streams.command()
@connects
def update(
    stream: StreamName,
    *,
    retention: Retention = None,
    label_ttl: LabelTtl = None,
    relabel_ttl: RelabelTtl = None,
    max_pending: MaxPending = None,
    orphans: OrphansOption = None,
    expired: ExpiredOption = None,
    segment: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY",
            help="Key of segments to add; may be given several times. Reads the present keys "
            "first, so the token needs the scopes admin and query.",
        ),
    ] = None,
    threshold: ThresholdOption = None,
    no_threshold: Annotated[
        bool,
        typer.Option("--no-threshold", help="Declare no threshold and no costs any more."),
    ] = False,
    cost_fp: CostFpOption = None,
    cost_fn: CostFnOption = None,
    min_label_probability: LeastProbabilityOption = None,
    no_costs: Annotated[
        bool, typer.Option("--no-costs", help="Declare no costs any more.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Change settings of a stream; settings that are not given stay as they are."""
    settings = parse_settings(
        retention=retention,
        label_ttl=label_ttl,
        relabel_ttl=relabel_ttl,
        max_pending=max_pending,
        orphans=orphans,
        expired=expired,
        segment_keys=segment,
        threshold=threshold,
        cost_fp=cost_fp,
        cost_fn=cost_fn,
        min_label_probability=min_label_probability,
    )
    has_costs = not (cost_fp is None and cost_fn is None)
    if no_threshold:
        if threshold is not None:
            raise StreamEvalError("give --threshold or --no-threshold, not both")
        if has_costs:
            raise StreamEvalError("costs need a threshold: leave out --no-threshold")
        settings["threshold"] = None
    if no_costs and has_costs:
        raise StreamEvalError("give --cost-fp and --cost-fn, or --no-costs, not both")
    if no_costs or no_threshold:
        settings["cost_fp"] = settings["cost_fn"] = None
    if not settings:
        raise StreamEvalError("give at least one setting to change, for instance --retention 90d")
    with connect() as client:
        if added := settings.get("segment_keys"):
            present = client.get_stream(stream).settings.segment_keys
            settings["segment_keys"] = list(dict.fromkeys([*present, *added]))
        _print(client.update_stream(stream, **settings), as_json=as_json)


@streams.command()
@connects
def accept(stream: StreamName, *, as_json: AsJson = False) -> None:
    """Accept what a stream is now as its new normal: verdicts compare with it from then on."""
    from streameval.cli._output import print_json, say  # noqa: PLC0415 - slow to import

    with connect() as client:
        found = client.accept_normal(stream)
    if as_json:
        print_json(found.to_dict())
    else:
        say(str(found))


@streams.command()
@connects
def delete(
    stream: StreamName,
    *,
    yes: Yes = False,
) -> None:
    """Delete a stream and all its counts."""
    if not yes:
        typer.confirm(f"Delete {stream} and all its counts?", abort=True)
    from streameval.cli._output import say  # noqa: PLC0415 - slow to import

    with connect() as client:
        client.delete_stream(stream)
    say(f"{stream} is deleted")


def _row(info: StreamInfo) -> tuple[str, ...]:
    settings = info.settings
    return (
        info.name,
        f"{info.create_time:%Y-%m-%d %H:%M}",
        format_span(settings.pane),
        format_span(settings.retention),
        format_span(settings.label_ttl),
        str(settings.resolution),
        ", ".join(settings.segment_keys),
    )


def _plain_values(info: StreamInfo) -> dict[str, Any]:
    """Return a description as plain values, with the names and durations of JSON over HTTP."""
    from streameval.client._wire.selection import duration  # noqa: PLC0415 - slow to import

    settings = {
        name: duration(value, field=name).ToJsonString() if isinstance(value, timedelta) else value
        for name, value in asdict(info.settings).items()
    }
    if info.settings.alarms is not None:
        settings["alarms"] = info.settings.alarms.to_dict()
    return {
        "name": info.name,
        "create_time": info.create_time.isoformat(),
        "create_revision": info.create_revision,
        "settings": {**settings, "segment_keys": list(info.settings.segment_keys)},
    }


def _print(info: StreamInfo, *, as_json: bool) -> None:
    """Print a stream's settings but the alarms, which ``streameval alarms show`` has."""
    from streameval.cli._output import print_json, print_values, say  # noqa: PLC0415 - slow to import

    if as_json:
        print_json(_plain_values(info))
        return
    say(info.name)
    values = asdict(replace(info.settings, alarms=None))
    del values["alarms"]
    print_values(values)
