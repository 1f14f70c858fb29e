"""Exact figures of groups of any size: each range of scores is computed by one task.

Scores are cut at fixed places, so a range is a function of the group and the score
alone: ties are never split, and a task that runs again, on another node, gets the
same rows. The number of cases above each range is counted before the rows are
sorted, so a task computes its part of every figure in one pass, and the parts that
are merged for a group are small.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from streameval._common.errors import InvalidInputError
from streameval._common.values import shown
from streameval._evaluator import Evaluator
from streameval._metric_registry import BY_NAME, Place
from streameval._metrics.hull import Vertices
from streameval._metrics.shards import Shard, ShardPosition, shard_of, shard_positions
from streameval._uncertainty.bounds import rounding_bounds
from streameval._uncertainty.estimates import limits_of
from streameval._uncertainty.limits import Figure
from streameval._uncertainty.shard_variance import Scatter, ShardVariance, shard_variance
from streameval.spark._arrow import arrow_fields, columns, shape_of
from streameval.spark._columns import COUNT, POSITIVE, SCORE, is_bad, refusal
from streameval.spark._result_rows import filled

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streameval._uncertainty.limits import Limits
    from streameval.spark._columns import CountedColumns
    from streameval.spark._partial import Key
    from streameval.spark._result_rows import RowMetrics

_AREAS = tuple(name for name in Place.SNAPSHOT.names() if BY_NAME[name].estimator)

_SHARD, _CUTS, _ROWS = "__shard", "__cuts", "__rows"
_PART = (
    "above array<long>, ends array<double>, counts array<long>, lost string, "
    "thresholds array<double>, fp array<long>, tp array<long>, areas array<double>, "
    "variances string"
)
_MAX_SHARDS = 10_000


def check_shards(shards: object, *, bounded: bool) -> None:
    """Raise InvalidInputError for an invalid number of shards, or for bounded evaluators."""
    if isinstance(shards, bool) or not isinstance(shards, int) or not 1 <= shards <= _MAX_SHARDS:
        message = f"shards must be an integer from 1 to {_MAX_SHARDS}, got {shown(shards)}"
        raise InvalidInputError(message, field="shards")
    if bounded:
        raise InvalidInputError(
            "shards are for exact figures: a resolution or max_cells bounds the state already",
            field="shards",
        )


def evaluate_sharded(rows: CountedColumns, chosen: RowMetrics, shards: int) -> DataFrame:
    """Return the figures of each group. Reads the rows three times before it returns."""
    cuts = _cuts(rows, _sizes(rows), shards)
    cut = _with_shards(rows, cuts)
    placed = _places(cut, rows.by)
    parts = _parts(_gather_ties(cut, rows, cuts), rows, placed)
    return _merge_parts(parts, rows, chosen)


def _sizes(rows: CountedColumns) -> dict[Key, int]:
    """Return the number of rows of each group; raise InvalidInputError for invalid values."""
    bad = {kind: sf.count_if(where).alias(kind) for kind, where in is_bad().items()}
    found: dict[Key, int] = {}
    for row in _aggregated(rows.frame, rows.by, sf.count(sf.lit(1)).alias(_ROWS), *bad.values()):
        values = row.asDict()
        if any(values[kind] for kind in bad):
            group = {name: values[name] for name in rows.by}
            raise refusal(group, {kind: values[kind] for kind in bad}, values[_ROWS])
        found[_key(row, rows.by)] = values[_ROWS]
    return found


def _cuts(rows: CountedColumns, sizes: dict[Key, int], shards: int) -> dict[Key, list[float]]:
    """Return the ascending cuts of the scores of each group; no cuts for small groups.

    A score with more rows than a range should have occurs as several cuts.
    """
    each = max(1, -(-sum(sizes.values()) // shards))
    wanted = {key: -(-size // each) for key, size in sizes.items() if size > each}
    if not wanted:
        return {}
    finest = max(wanted.values())
    shares = [index / finest for index in range(1, finest)]
    quantiles = sf.percentile_approx(sf.col(SCORE), shares, max(10_000, 10 * finest)).alias(_CUTS)
    large = rows.frame
    if rows.by:
        large = _join_group_value(large, rows, dict.fromkeys(wanted, 0), "__large long")
        large = large.where(sf.col("__large").isNotNull())
    cuts = {}
    for row in _aggregated(large, rows.by, quantiles):
        key = _key(row, rows.by)
        steps = np.arange(1, wanted[key]) * finest // wanted[key]
        cuts[key] = sorted(row[_CUTS][step - 1] for step in steps)
    return cuts


def _with_shards(rows: CountedColumns, cuts: dict[Key, list[float]]) -> DataFrame:
    """Return the rows with the number of their range, from low scores to high."""
    frame = rows.frame
    if not cuts:
        return frame.withColumn(_SHARD, sf.lit(0))
    if rows.by:
        frame = _join_group_value(frame, rows, cuts, f"{_CUTS} array<double>")
    else:
        frame = frame.withColumn(_CUTS, sf.array(*map(sf.lit, cuts[()])))
    below = sf.size(sf.filter(_CUTS, lambda cut: cut <= sf.col(SCORE)))
    numbered = sf.when(sf.col(_CUTS).isNull(), 0).otherwise(below)
    return frame.withColumn(_SHARD, numbered).drop(_CUTS)


def _gather_ties(cut: DataFrame, rows: CountedColumns, cuts: dict[Key, list[float]]) -> DataFrame:
    """Return the rows, aggregated by score if a single score fills several ranges.

    A tie is never split, so one task would read it row by row. Otherwise rows are
    returned unchanged, because aggregation costs a shuffle.
    """
    if all(len(set(places)) == len(places) for places in cuts.values()):
        return cut
    alike = cut.groupBy(*rows.by, _SHARD, SCORE, POSITIVE)
    return alike.agg(sf.sum(COUNT).alias(COUNT))


def _join_group_value(
    frame: DataFrame, rows: CountedColumns, values: dict[Key, Any], column: str
) -> DataFrame:
    """Return the rows with the value of their group; null for groups without one."""
    names = [f"__of_{name}" for name in rows.by]
    groups = [st.StructField(n, frame.schema[by].dataType) for n, by in zip(names, rows.by)]
    small = frame.sparkSession.createDataFrame(
        [(*key, value) for key, value in values.items()],
        st.StructType([*groups, *columns(column)]),
    )
    same = [frame[by].eqNullSafe(small[name]) for by, name in zip(rows.by, names)]
    return frame.join(sf.broadcast(small), same, "left").drop(*names)


def _places(cut: DataFrame, by: tuple[str, ...]) -> dict[Key, ShardPosition]:
    """Return the counts above each range, by the group's key and the range's number."""
    positives = sf.sum(sf.when(sf.col(POSITIVE), sf.col(COUNT)).otherwise(0)).alias("p")
    negatives = sf.sum(sf.when(sf.col(POSITIVE), 0).otherwise(sf.col(COUNT))).alias("n")
    groups: dict[Key, dict[int, tuple[int, int]]] = {}
    for row in _aggregated(cut, (*by, _SHARD), positives, negatives):
        groups.setdefault(_key(row, by), {})[row[_SHARD]] = (row["p"], row["n"])
    placed: dict[Key, ShardPosition] = {}
    for key, ranges in groups.items():
        numbers = sorted(ranges, reverse=True)
        for number, above in zip(numbers, shard_positions([ranges[number] for number in numbers])):
            placed[*key, number] = above
    return placed


def _parts(cut: DataFrame, rows: CountedColumns, placed: dict[Key, ShardPosition]) -> DataFrame:
    """Return the part of each range: its contribution to every figure."""
    by = rows.by
    part_columns = columns(_PART)
    fields = arrow_fields(part_columns)

    def part_of_shard(table: pa.Table) -> pa.Table:
        shape = shape_of(table, by, fields)
        key = tuple(table[name][0].as_py() for name in (*by, _SHARD))
        ev = Evaluator()
        ev.add_cases(
            labels=table[POSITIVE].to_numpy(),
            scores=table[SCORE].to_numpy(),
            counts=table[COUNT].to_numpy(),
        )
        if not ev.num_cases:  # all its rows have count 0
            return shape.empty_table()
        if key not in placed:
            raise InvalidInputError(
                f"{dict(zip(by, key))} has rows that an earlier read did not have: the "
                "DataFrame must give the same rows each time it is read",
                field="df",
            )
        row = _part_row(ev, placed[key])
        return pa.Table.from_pylist([dict(zip(by, key)) | row], schema=shape)

    return cut.groupBy(*by, _SHARD).applyInArrow(part_of_shard, rows.with_groups(part_columns))


def _merge_parts(parts: DataFrame, rows: CountedColumns, chosen: RowMetrics) -> DataFrame:
    """Merge the parts of each group into its figures."""
    by = rows.by
    fields = arrow_fields(chosen.columns)

    def figures_of_group(table: pa.Table) -> pa.Table:
        group = {name: table[name][0].as_py() for name in by}
        parts = [_read_part(part) for part in table.drop_columns(list(by)).to_pylist()]
        parts.sort(key=lambda part: -part[0].high)
        whole, variances = parts[0]
        for shard, others in parts[1:]:
            whole = whole + shard
            variances = {name: variances[name] + others[name] for name in variances}
        row = group | _group_row(whole, variances, chosen)
        return pa.Table.from_pylist([row], schema=shape_of(table, by, fields))

    return parts.groupBy(*by).applyInArrow(figures_of_group, rows.with_groups(chosen.columns))


def _part_row(ev: Evaluator, above: ShardPosition) -> dict[str, Any]:
    """Return a part as columns; integers of any size as text."""
    shard = shard_of(ev._view(), above)
    groups = ev._view().groups
    has_both = min(above.P, above.N) >= 2
    variances = [shard_variance(groups, above, name) for name in _AREAS] if has_both else []
    return {
        "above": [above.tp, above.fp, above.P, above.N],
        "ends": [shard.high, shard.low],
        "counts": [shard.positives, shard.negatives],
        "lost": str(shard.lost),
        "thresholds": shard.corners.thresholds.tolist(),
        "fp": shard.corners.fp.tolist(),
        "tp": shard.corners.tp.tolist(),
        "areas": [shard.auc_pr, shard.average_precision],
        "variances": json.dumps([_numbers(each) for each in variances]),
    }


def _numbers(part: ShardVariance) -> list[float]:
    scatters = (part.positive, part.negative)
    flat = [x for each in scatters for x in (each.count, each.mean, each.squares)]
    return [*flat, part.per_positive, part.per_negative, part.slope, part.step]


def _read_part(row: dict[str, Any]) -> tuple[Shard, dict[str, ShardVariance]]:
    corners = Vertices(
        thresholds=np.array(row["thresholds"], dtype=np.float64),
        fp=np.array(row["fp"], dtype=np.int64),
        tp=np.array(row["tp"], dtype=np.int64),
    )
    (high, low), (positives, negatives) = row["ends"], row["counts"]
    auc_pr, average_precision = row["areas"]
    shard = Shard(
        position=ShardPosition(*row["above"]),
        high=high,
        low=low,
        positives=positives,
        negatives=negatives,
        lost=int(row["lost"]),
        corners=corners,
        auc_pr=auc_pr,
        average_precision=average_precision,
    )
    variances = {
        name: ShardVariance(Scatter(*each[:3]), Scatter(*each[3:6]), *each[6:])
        for name, each in zip(_AREAS, json.loads(row["variances"]))
    }
    return shard, variances


def _group_row(
    whole: Shard, variances: dict[str, ShardVariance], chosen: RowMetrics
) -> dict[str, Any]:
    P, N = whole.position.P, whole.position.N
    computed = whole.metrics()
    intervals: dict[str, Limits] = {}
    for name in chosen.with_interval:
        figure = _figure(name, computed[name], variances, (P, N))
        intervals[name] = limits_of(figure, name, 1 - chosen.level)
    figures = {name: computed[name] for name in chosen.names}
    return filled(
        positives=P,
        negatives=N,
        resolution=None,
        figures=figures,
        intervals=intervals,
        bounds={name: rounding_bounds(name, figures[name]) for name in chosen.with_bounds},
        reasons={},
    )


def _figure(
    name: str, value: float, variances: dict[str, ShardVariance], sizes: tuple[int, int]
) -> Figure:
    """Return a figure with its variance; nan where a class is empty."""
    if name in variances:
        return variances[name].figure(name, value)
    is_share = name == "prevalence"
    return Figure(value, value * (1 - value) / sum(sizes) if is_share else np.nan, *sizes)


def _aggregated(frame: DataFrame, by: tuple[str, ...], *columns: Column) -> list[Any]:
    rows: list[Any] = frame.groupBy(*by).agg(*columns).collect()
    return rows


def _key(row: Any, by: tuple[str, ...]) -> Key:
    return tuple(row[name] for name in by)
