"""Figures and states of the groups of a DataFrame: rows to states, states to figures."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from streameval._common.errors import InvalidInputError
from streameval._evaluator import Evaluator
from streameval._metric_registry import Place
from streameval.spark._arrow import arrow_fields, columns, shape_of
from streameval.spark._columns import UNITS, refusal, rows_of
from streameval.spark._partial import (
    BAD,
    PARTIAL_COLUMNS,
    STATE,
    TOTAL,
    merged,
    partial_states,
)
from streameval.spark._result_rows import row_metrics, row_of
from streameval.spark._sharded import check_shards, evaluate_sharded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import timedelta

    from pyspark.sql import DataFrame
    from pyspark.sql import types as st

    from streameval.spark._columns import CountedColumns


def evaluate(
    df: DataFrame,
    *,
    score: str,
    label: str,
    by: Sequence[str] = (),
    count: str | None = None,
    metrics: Iterable[str] | None = None,
    level: float = 0.95,
    resolution: int | None = None,
    scale: str | None = None,
    max_cells: int | None = None,
    shards: int | None = None,
    weight: str | None = None,
    label_probability: str | None = None,
) -> DataFrame:
    """Return one row of figures for each group of a DataFrame.

    Parameters
    ----------
    df : DataFrame
        One row for each case, or for each distinct observation with its count.
    score, label : str
        Names of its columns: a number, higher = more positive; a boolean, or 1 and 0.
    by : sequence of str
        The columns to group by; without any, all rows are one group. Null is a group
        of its own, as in SQL. Their names have no dots or backticks.
    count : str, optional
        A column of how many identical cases each row stands for.
    metrics : list of str, optional
        The figures; the six of a `Snapshot` by default. Any metric that a server has
        by name is accepted.
    level : float
        Nominal coverage of the intervals.
    resolution, scale, max_cells
        As of `Evaluator`. Without them figures are exact.
    shards : int, optional
        For groups whose distinct scores do not fit one node: the approximate number of
        ranges, of about equally many rows, that the scores are cut into. Figures are
        as exact as without it; only the six of a snapshot are available, and no weights.
    weight, label_probability : str, optional
        Columns of weights, from 0 to 2**31, and of the probabilities
        with which rows were chosen to be labelled, by which the weights are divided: as
        of `Evaluator.add_cases`. Figures then read weights; the counts stay numbers of
        cases.

    Returns
    -------
    DataFrame
        The columns of `by`; ``num_cases``, ``num_positive_ref``,
        ``num_negative_ref`` and ``resolution``; a column for each figure, null
        where it is undefined; ``intervals`` and ``bounds``, by figure, with
        ``lower`` and ``upper``; ``reasons`` of what is undefined. A group
        without rows has no row.

    Raises
    ------
    InvalidInputError
        When a column or a setting is invalid. Null, NaN and infinite scores, labels
        that are neither true nor false and negative counts are errors that name the
        group and their number: raised by this call with `shards`, else by the job (as
        Spark's PythonException).

    Notes
    -----
    Without `shards` it is one lazy pass: each task counts its rows, and one task for
    each group merges the states, 8 to 16 B for each distinct score of a
    partition, or 0.3 MB for each partition and group with ``resolution=12``. A
    group's state must fit one task: some 10 million distinct scores do.

    With `shards` the rows are read three times more, by SQL aggregates that run at
    once (row counts, cuts, counts above each cut); the pass that sorts the rows is
    lazy. The DataFrame must give the same rows each time.

    Examples
    --------
    ::

        from streameval.spark import evaluate
        figures = evaluate(df, score="score", label="fraud", by=["model", "country"])
        figures.select("model", "country", "auc_pr", "intervals.auc_pr.lower").show()
    """
    rows = rows_of(
        df, score=score, label=label, by=by, count=count,
        weight=weight, label_probability=label_probability,
    )  # fmt: skip
    make = _evaluator_factory(resolution=resolution, scale=scale, max_cells=max_cells)
    known = Place.REQUEST.names() if shards is None else Place.SNAPSHOT.names()
    chosen = row_metrics(metrics, level, known=known)
    if shards is not None:
        check_shards(shards, bounded=resolution is not None or max_cells is not None)
        if UNITS in rows.frame.columns:
            message = "shards have no weights: leave out shards, or weight and label_probability"
            raise InvalidInputError(message, field="shards")
        return evaluate_sharded(rows, chosen, shards)

    def figures_of(table: pa.Table) -> dict[str, Any]:
        return row_of(merged(table, make), chosen)

    return _merged_by_group(rows, make, figures_of, chosen.columns)


def states(
    df: DataFrame,
    *,
    score: str,
    label: str,
    by: Sequence[str] = (),
    count: str | None = None,
    at: str | None = None,
    pane: timedelta | None = None,
    resolution: int | None = None,
    scale: str | None = None,
    max_cells: int | None = None,
    weight: str | None = None,
    label_probability: str | None = None,
) -> DataFrame:
    """Return the state of each group, and of each pane, as bytes.

    Parameters
    ----------
    df, score, label, by, count, resolution, scale, max_cells, weight, label_probability
        As of `evaluate`.
    at : str, optional
        A column of timestamps: when each score was made.
    pane : timedelta, optional
        The width of the panes, which start at its multiples since 1970. To push to a
        server, choose a width that divides the width of the stream's panes.

    Returns
    -------
    DataFrame
        The columns of `by`; ``pane``, the start of each pane, with `at`;
        ``num_cases``; and ``state``, which `Evaluator.from_bytes` reads. States
        of the same group, from any source, are merged by `Evaluator.merge`.

    Raises
    ------
    InvalidInputError
        As `evaluate`; also for rows without a time.

    Notes
    -----
    One lazy pass.
    """
    rows = rows_of(
        df, score=score, label=label, by=by, count=count, at=at, pane=pane,
        weight=weight, label_probability=label_probability,
    )  # fmt: skip
    make = _evaluator_factory(resolution=resolution, scale=scale, max_cells=max_cells)

    def state_of(table: pa.Table) -> dict[str, Any]:
        whole = merged(table, make)
        return {"num_cases": whole.num_cases, STATE: whole.to_bytes()}

    return _merged_by_group(rows, make, state_of, columns(f"num_cases long, {STATE} binary"))


def _evaluator_factory(**settings: Any) -> Callable[[], Evaluator]:
    """Return a factory of empty evaluators; raise InvalidInputError for invalid settings."""
    Evaluator(**settings)
    return partial(Evaluator, **settings)


def _merged_by_group(
    rows: CountedColumns,
    make: Callable[[], Evaluator],
    answer: Callable[[pa.Table], dict[str, Any]],
    answered: st.StructType,
) -> DataFrame:
    """Count each partition, merge the states of each group, and return `answer` of each."""
    by = rows.by
    partials = rows.frame.mapInArrow(
        partial(partial_states, by=by, make=make), rows.with_groups(columns(PARTIAL_COLUMNS))
    )
    fields = arrow_fields(answered)

    def row_of_group(table: pa.Table) -> pa.Table:
        group = {name: table[name][0].as_py() for name in by}
        bad = {kind: sum(table[name].to_pylist()) for kind, name in BAD.items()}
        if any(bad.values()):
            raise refusal(group, bad, sum(table[TOTAL].to_pylist()))
        return pa.Table.from_pylist([group | answer(table)], schema=shape_of(table, by, fields))

    return partials.groupBy(*by).applyInArrow(row_of_group, rows.with_groups(answered))
