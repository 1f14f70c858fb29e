"""The work of ``streameval compare``, by the client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from streameval._common.errors import StreamEvalError
from streameval._common.spans import parse_span
from streameval._metric_registry import title_of
from streameval.cli._connect import connect
from streameval.cli._options import parse_segment
from streameval.cli._output import out, print_json
from streameval.client import NotFoundError, Selection
from streameval.client._wire.pair_answers import plain_values

if TYPE_CHECKING:
    from streameval.client import Client, PairComparison, StreamComparison


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is compared: the options of ``compare``, as they were given."""

    metric: str
    prevalence: float | None
    level: float
    window: str | None
    segment: str | None

    def part(self) -> dict[str, Any]:
        """Return the window and the segment as arguments of the client."""
        window = None if self.window is None else parse_span(self.window)
        return {"window": window, "segment": parse_segment(self.segment)}


def print_paired(
    address: str,
    names: tuple[str, str],
    chosen: Chosen,
    *,
    by: str,
    may_create: bool,
    as_json: bool,
) -> None:
    """Print the comparison of a pair, the sentence first."""
    a, b = names
    part = chosen.part()
    with connect(address) as client:
        if may_create:
            _ensure_pair(client, a, b)
        try:
            found = client.compare_pair(
                a,
                b,
                **part,
                metric=chosen.metric,
                prevalence="pair" if chosen.prevalence is None else chosen.prevalence,
                level=chosen.level,
                by_segment=by,
            )
        except NotFoundError as error:
            raise StreamEvalError(_advice(client, address, names, error)) from None
    if as_json:
        print_json(found.to_dict())
        return
    out.print(str(found), soft_wrap=True, markup=False)
    if found.segments:
        _print_segments(found, by)


def print_independent(
    address: str, names: tuple[str, str], chosen: Chosen, *, as_json: bool
) -> None:
    """Print the comparison of two streams whose cases are taken as independent."""
    part = chosen.part()
    sides = [Selection(stream=name, **part) for name in names]
    with connect(address) as client:
        found = client.compare(
            *sides,
            metric=chosen.metric,
            prevalence="common" if chosen.prevalence is None else chosen.prevalence,
            level=chosen.level,
        )
        pair = _pair_of(client, names)
    if as_json:
        print_json(plain_values(found))
        return
    _print_comparison(found, names)
    if pair:
        out.print(
            "note: these are a pair, and on the same ids the answer is sharper: add --paired",
            soft_wrap=True,
        )
    elif names[0] != names[1] and _both_by_id(found):
        out.print(
            "note: if both score the same ids they are not independent, and a pair is sharper: "
            f"streameval pairs create {address} {' '.join(names)}",
            soft_wrap=True,
            markup=False,
        )


def _both_by_id(found: StreamComparison) -> bool:
    """Whether rows of both sides came by id, as those of two models on the same traffic do."""
    sides = (found.coverage_a, found.coverage_b)
    return all(each is not None and each.predictions > 0 for each in sides)


def _ensure_pair(client: Client, a: str, b: str) -> None:
    if not _pair_of(client, (a, b)):
        client.create_pair(a, b)


def _pair_of(client: Client, names: tuple[str, str]) -> bool:
    return any({each.a, each.b} == set(names) for each in client.list_pairs(names[0]))


def _advice(client: Client, address: str, names: tuple[str, str], error: NotFoundError) -> str:
    """Return what to do where there is no pair, or no such stream."""
    if _pair_of(client, names):
        return str(error)  # of something else: a segment key, for instance
    a, b = names
    return (
        f"there is no pair of {a} and {b}: make one with "
        f"'streameval pairs create {address} {a} {b}'. It counts what both predict from then on"
    )


def _print_comparison(found: StreamComparison, names: tuple[str, str]) -> None:
    a, b = names
    title = title_of(found.metric)
    lines = [f"{title}: {a} {found.a:.4f}, {b} {found.b:.4f}", f"{a} minus {b}: {found}"]
    if found.prevalence is not None:
        lines.append(f"both at a prevalence of {found.prevalence:.4g}")
    for line in lines:
        out.print(line, soft_wrap=True, markup=False)


def _print_segments(found: PairComparison, by: str) -> None:
    a, b = found.names
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column(by)
    for title in ("labelled", a, b, f"{a} minus {b}", f"{found.level:.0%} interval"):
        table.add_column(title, justify="right")
    for each in found.segments:
        value = "" if each.segment is None else each.segment[1]
        limits = f"{each.lower:+.4f} to {each.upper:+.4f}"
        table.add_row(
            Text(value),
            f"{each.coverage.labelled:,}",
            f"{each.a.estimate:.4f}",
            f"{each.b.estimate:.4f}",
            f"{each.difference:+.4f}",
            limits if each.reason is None else each.reason,
        )
    out.print(table)
