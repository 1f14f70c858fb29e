"""Checks and selects the columns of a DataFrame that are counted.

All computations start from the same columns: the groups', then the score as a double,
the label as a boolean and the count; with weights also their integer units of 2**-16,
divided by the label probabilities. Invalid values are null there, and are counted
group by group, so that an error can say how many there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf
from pyspark.sql import types as st

from streameval._common.errors import InvalidInputError
from streameval._common.values import shown
from streameval._counts.weight_columns import MAX_CHANGE
from streameval._counts.weights import MAX_WEIGHT, WEIGHT_UNITS
from streameval._time.times import span_us

if TYPE_CHECKING:
    from datetime import timedelta

    from pyspark.sql import Column, DataFrame

SCORE, POSITIVE, COUNT, UNITS = "__score", "__positive", "__count", "__units"
PANE = "pane"
_TIME_IS_BAD = "__time_is_bad"
RESERVED = frozenset({SCORE, POSITIVE, COUNT, UNITS, PANE, _TIME_IS_BAD})


@dataclass(frozen=True, slots=True)
class CountedColumns:
    """Rows to count.

    Attributes
    ----------
    frame : DataFrame
        The groups' columns, then `SCORE`, `POSITIVE` and `COUNT`; `UNITS` with weights.
    by : tuple of str
        The columns that make a group; the last is `PANE` where there are panes.
    """

    frame: DataFrame
    by: tuple[str, ...]

    def with_groups(self, columns: st.StructType) -> st.StructType:
        """Return the groups' columns, then `columns`."""
        return st.StructType([*(self.frame.schema[name] for name in self.by), *columns])


def rows_of(
    df: DataFrame,
    *,
    score: str,
    label: str,
    by: Sequence[str] = (),
    count: str | None = None,
    at: str | None = None,
    pane: timedelta | None = None,
    weight: str | None = None,
    label_probability: str | None = None,
) -> CountedColumns:
    """Return the rows to count.

    Raises
    ------
    InvalidInputError
        When a column is missing, or its type is not accepted.
    """
    groups = _checked_by(df, by)
    _check_kind(df, score, "score", (st.NumericType,), "a number")
    _check_kind(df, label, "label", (st.NumericType, st.BooleanType), "a boolean, or 1 and 0")
    frame_columns = [_named(name) for name in groups]
    if (at is None) != (pane is None):
        raise InvalidInputError("at and pane need each other: give both", field="pane")
    if at is not None and pane is not None:
        _check_kind(df, at, "at", (st.TimestampType,), "a timestamp")
        width = span_us(pane, field="pane")
        micros = sf.unix_micros(_named(at))
        # Floored: a remainder in SQL has the sign of the dividend.
        start = micros - sf.pmod(micros, sf.lit(width))
        frame_columns.append(sf.timestamp_micros(start).alias(PANE))
        groups = (*groups, PANE)
    counted = sf.lit(1).cast("long")
    if count is not None:
        _check_kind(df, count, "count", (st.IntegralType,), "an integer")
        given = _named(count).cast("long")
        counted = sf.when(given >= 0, given)
    frame = df.select(
        *frame_columns,
        _finite(_named(score).cast("double")).alias(SCORE),
        _truth(_named(label).cast("double")).alias(POSITIVE),
        counted.alias(COUNT),
        *_units(df, weight, label_probability),
    )
    if at is not None:
        # A case without a time has no pane; it is counted as an invalid score.
        frame = frame.withColumn(SCORE, sf.when(sf.col(PANE).isNotNull(), sf.col(SCORE)))
    return CountedColumns(frame, groups)


def _units(df: DataFrame, weight: str | None, label_probability: str | None) -> list[Column]:
    """Return the column of weights in units, null where invalid; none without weights.

    As in `streameval`, the arithmetic is in float64 and rounds half to even.
    """
    if weight is None and label_probability is None:
        return []
    value = sf.lit(1.0)
    is_valid = sf.lit(True)
    if weight is not None:
        _check_kind(df, weight, "weight", (st.NumericType,), "a number")
        value = _named(weight).cast("double")
        # NaN is above every number in SQL.
        is_valid = value.between(0, MAX_WEIGHT)
    if label_probability is not None:
        _check_kind(df, label_probability, "label_probability", (st.NumericType,), "a number")
        share = _named(label_probability).cast("double")
        is_valid &= (share > 0) & (share <= 1)
        # Division by 0 is an error in SQL's ANSI mode, even where its result is unused.
        value /= sf.when(share > 0, share)
        is_valid &= value <= MAX_WEIGHT
    in_units = value * WEIGHT_UNITS
    units = sf.rint(in_units)
    is_valid &= sf.abs(units - in_units) <= in_units * MAX_CHANGE
    return [sf.when(is_valid, units.cast("long")).alias(UNITS)]


def is_bad() -> dict[str, Column]:
    """Return a condition for each kind of invalid value: whether the row has one."""
    return {
        "scores": sf.col(SCORE).isNull(),
        "labels": sf.col(POSITIVE).isNull(),
        "counts": sf.col(COUNT).isNull(),
    }


def refusal(group: dict[str, Any], bad: dict[str, int], total: int) -> InvalidInputError:
    """Return the error for a group with invalid values."""
    what = {
        "scores": "scores are null, NaN or infinite (or have no time)",
        "labels": "labels are not True, False, 1 or 0",
        "counts": "counts are null or negative",
        "weights": (
            "weights are null, negative, above 2^31 or so small that rounding to multiples of "
            "2^-16 changes them by more than a thousandth (multiply all by a power of two), "
            "or label probabilities are null, 0, negative or above 1"
        ),
    }
    found = [f"{bad[kind]:,} of {total:,} {text}" for kind, text in what.items() if bad.get(kind)]
    where = ", ".join(f"{name}={value!r}" for name, value in group.items()) or "all rows"
    field = next(kind for kind in what if bad.get(kind))
    return InvalidInputError(f"{where}: {'; '.join(found)}: filter or repair them", field=field)


def _named(name: str) -> Column:
    """Return the column of a name, with any characters in the name."""
    return sf.col("`" + name.replace("`", "``") + "`")


def _finite(score: Column) -> Column:
    """Return a score where it is finite, without a negative zero; null elsewhere."""
    inside = ~sf.isnan(score) & (sf.abs(score) < float("inf"))
    return sf.when(inside, score + sf.lit(0.0))


def _truth(label: Column) -> Column:
    return sf.when(label == 1, sf.lit(True)).when(label == 0, sf.lit(False))


def _checked_by(df: DataFrame, by: object) -> tuple[str, ...]:
    if isinstance(by, str) or not isinstance(by, Sequence):
        raise InvalidInputError(f"by must be a list of columns, got {shown(by)}", field="by")
    for name in by:
        if name in RESERVED:
            raise InvalidInputError(f"by cannot have a column called {name!r}", field="by")
        _field(df, name, "by")
        if "." in name or "`" in name:
            # mapInArrow and applyInArrow look columns up by their bare names.
            raise InvalidInputError(
                f"by cannot have a column with a dot or a backtick in its name, got {name!r}: "
                "rename it",
                field="by",
            )
    if len(set(by)) < len(by):
        raise InvalidInputError(f"by must name each column once, got {list(by)}", field="by")
    return tuple(by)


def _check_kind(
    df: DataFrame, name: object, field: str, kinds: tuple[type[Any], ...], wanted: str
) -> None:
    found = _field(df, name, field).dataType
    if not isinstance(found, kinds):
        raise InvalidInputError(
            f"{field} must be {wanted}, the column {name!r} is {found.simpleString()}", field=field
        )


def _field(df: DataFrame, name: object, field: str) -> st.StructField:
    if not isinstance(name, str) or name not in df.columns:
        raise InvalidInputError(
            f"{field} must name a column of {', '.join(df.columns)}; got {shown(name)}",
            field=field,
        )
    return df.schema[name]
