"""``streameval compare``: two models, on the same ids where there is a pair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from streameval._common.errors import StreamEvalError
from streameval.cli._connection import command, connect
from streameval.cli._connection_options import connects
from streameval.cli._errors import one_line
from streameval.cli._options import AsJson, Prevalence, Window, parse_part

if TYPE_CHECKING:
    from streameval.client import Client, PairComparison, PairInfo, StreamComparison


@connects
def compare(
    a: Annotated[str, typer.Argument(help="Stream, the champion as a rule.")],
    b: Annotated[str, typer.Argument(help="The other stream.")],
    *,
    paired: Annotated[
        bool, typer.Option("--paired", help="On the ids that both have scored, by their pair.")
    ] = False,
    create_pair: Annotated[
        bool, typer.Option("--create", help="With --paired: make the pair where there is none.")
    ] = False,
    metric: Annotated[str, typer.Option(help="auc_pr, average_precision or auc_roc.")] = "auc_pr",
    prevalence: Prevalence = None,
    level: Annotated[float, typer.Option(help="Nominal coverage of the intervals.")] = 0.95,
    window: Window = None,
    segment: Annotated[
        str | None,
        typer.Option(help="One slice: country=US; country= for those without. [default: all]"),
    ] = None,
    by: Annotated[
        str, typer.Option(metavar="KEY", help="With --paired: also each value of a segment key.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Compare two streams: which is better, and how sure that is.

    Without --paired the cases of the two are taken as independent, which two models on the
    same ids are not: then the interval is several times too wide.
    """
    if (create_pair or by) and not paired:
        option = "--create" if create_pair else "--by"
        raise StreamEvalError(f"{option} is of pairs: give --paired, too")
    part = parse_part(window, segment)
    figure = {"metric": metric, "level": level}
    if paired:
        figure["prevalence"] = "pair" if prevalence is None else prevalence
        asked = {**part, **figure, "by_segment": by}
        print_paired((a, b), asked, may_create=create_pair, as_json=as_json)
    else:
        figure["prevalence"] = "common" if prevalence is None else prevalence
        print_independent((a, b), part, figure, as_json=as_json)


def print_paired(
    names: tuple[str, str],
    asked: dict[str, Any],
    *,
    may_create: bool,
    as_json: bool,
) -> None:
    """Print the comparison of a pair, the sentence first."""
    from streameval.cli._output import print_json, say  # noqa: PLC0415 - slow to import

    a, b = names
    with connect() as client:
        pair = _pair_of(client, names)
        if pair is None and may_create:
            pair = client.create_pair(a, b)
        if pair is None:
            raise StreamEvalError(
                f"there is no pair of {a} and {b}: it counts what both predict "
                f"once it is made; run: {command('pairs', 'create', a, b)}"
            )
        found = client.compare_pair(pair.name, **asked)
    if as_json:
        print_json(found.to_dict())
        return
    say(str(found))
    if found.segments:
        _print_segments(found, asked["by_segment"])


def print_independent(
    names: tuple[str, str],
    part: dict[str, Any],
    figure: dict[str, Any],
    *,
    as_json: bool,
) -> None:
    """Print the comparison of two streams whose cases are taken as independent."""
    from streameval._common.plain_values import plain_values  # noqa: PLC0415 - as above
    from streameval.cli._output import print_json, say  # noqa: PLC0415 - slow to import
    from streameval.client import Selection  # noqa: PLC0415 - as above

    sides = [Selection(stream=name, **part) for name in names]
    with connect() as client:
        found = client.compare(*sides, **figure)
        pair = _pair_of(client, names)
    if as_json:
        print_json(plain_values(found))
        return
    _print_comparison(found, names)
    if pair:
        say("note: these are a pair, and on the same ids the answer is sharper: add --paired")
    elif names[0] != names[1] and _both_by_id(found):
        say(
            "note: if both score the same ids they are not independent, and a pair is sharper: "
            f"{command('pairs', 'create', *names)}"
        )


def _both_by_id(found: StreamComparison) -> bool:
    """Whether both sides' rows came by id, as for two models that score the same traffic."""
    sides = (found.coverage_a, found.coverage_b)
    return all(each is not None and each.predictions > 0 for each in sides)


def _pair_of(client: Client, names: tuple[str, str]) -> PairInfo | None:
    known = client.list_pairs(names[0])
    return next((each for each in known if {each.a, each.b} == set(names)), None)


def _print_comparison(found: StreamComparison, names: tuple[str, str]) -> None:
    from streameval._metric_registry import title_of  # noqa: PLC0415 - imports numpy
    from streameval.cli._output import say  # noqa: PLC0415 - slow to import

    a, b = names
    title = title_of(found.metric)
    lines = [f"{title}: {a} {found.a:.4f}, {b} {found.b:.4f}", f"{a} minus {b}: {found}"]
    if found.prevalence is not None and found.auc_roc is None:
        lines.append(f"both at a prevalence of {found.prevalence:.4g}")
    for line in lines:
        say(line)


def _print_segments(found: PairComparison, by: str) -> None:
    from rich.table import Table  # noqa: PLC0415 - slow to import
    from rich.text import Text  # noqa: PLC0415 - as above

    from streameval.cli._output import out  # noqa: PLC0415 - as above

    a, b = found.names
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column(by)
    for title in ("labelled", a, b, f"{a} minus {b}", f"{found.level:.0%} interval"):
        table.add_column(title, justify="right")
    for each in found.segments:
        value = "" if each.segment is None else each.segment[1]
        limits = f"{each.lower:+.4f} to {each.upper:+.4f}"
        table.add_row(
            Text(one_line(value)),
            f"{each.coverage.labelled:,}",
            f"{each.a.estimate:.4f}",
            f"{each.b.estimate:.4f}",
            f"{each.difference:+.4f}",
            limits if each.reason is None else each.reason,
        )
    out.print(table)
