"""Options of the commands that list ranked streams."""

from __future__ import annotations

from typing import Annotated

import typer


def _orders() -> list[str]:
    from streameval.cli import _list_reading  # noqa: PLC0415 - slow to import

    return list(_list_reading.ORDERS)


ListWindow = Annotated[
    str | None,
    typer.Option("--window", help="The last 90s, 15m, 1h, 7d..., or all. [default: 1d]"),
]
Order = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="What comes first: alarms, change, projected, volume, coverage, newest, name, or a "
        "figure, for instance auc_roc, the worst first. [default: alarms]",
        autocompletion=_orders,
    ),
]
Reverse = Annotated[bool, typer.Option("--reverse", help="The other way round.")]
Search = Annotated[str, typer.Option(help="Only streams whose names contain this, in any case.")]
Prefix = Annotated[str, typer.Option(help="Only streams whose names begin with this.")]
Limit = Annotated[int | None, typer.Option(min=1, help="The most streams. [default: all]")]
