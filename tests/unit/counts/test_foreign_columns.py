"""Columns of pandas, polars and pyarrow are accepted as they are; nulls are refused by name."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from streameval import Evaluator, InvalidInputError
from streameval._counts.columns import check_columns, check_counts, check_labels
from streameval.kernel import check_scores

if TYPE_CHECKING:
    from collections.abc import Callable

NAN = float("nan")


def pandas(dtype: str | None) -> Callable:
    """Return a function that builds a pandas series of this dtype."""
    library = pytest.importorskip("pandas")
    if dtype is not None and "pyarrow" in dtype:
        pytest.importorskip("pyarrow")
    return lambda values: library.Series(values, dtype=dtype)


def polars(dtype: str | None) -> Callable:
    """Return a function that builds a polars series of this dtype."""
    library = pytest.importorskip("polars")
    kind = None if dtype is None else getattr(library, dtype)
    return lambda values: library.Series(values, dtype=kind)


def pyarrow(dtype: str | None) -> Callable:
    """Return a function that builds a pyarrow array of this type, or a chunked one."""
    library = pytest.importorskip("pyarrow")
    if dtype == "chunked":
        return lambda values: library.chunked_array([values[:1], values[1:]])
    return lambda values: library.array(values, type=dtype)


@pytest.mark.parametrize(
    ("make", "dtype"),
    [
        (pandas, None),
        (pandas, "int8"),
        (pandas, "boolean"),
        (pandas, "Int64"),
        (pandas, "Float32"),
        (pandas, "object"),
        (pandas, "category"),
        (pandas, "bool[pyarrow]"),
        (pandas, "int64[pyarrow]"),
        (polars, None),
        (polars, "Boolean"),
        (polars, "Int8"),
        (polars, "Float32"),
        (pyarrow, None),
        (pyarrow, "bool"),
        (pyarrow, "int32"),
        (pyarrow, "float"),
        (pyarrow, "chunked"),
    ],
)
def test_labels_are_read(make, dtype):
    """Boolean and integer labels of every column type are the same labels."""
    values = [True, False, True] if dtype and "ool" in dtype else [1, 0, 1]
    assert check_labels(make(dtype)(values)).tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("make", "dtype"),
    [
        (pandas, None),
        (pandas, "float32"),
        (pandas, "Float64"),
        (pandas, "double[pyarrow]"),
        (polars, None),
        (polars, "Float32"),
        (pyarrow, None),
        (pyarrow, "float"),
        (pyarrow, "chunked"),
    ],
)
def test_scores_are_read(make, dtype):
    """Float columns of every type are scores, and counts if the numbers are whole."""
    assert check_scores(make(dtype)([0.5, 2.0, -3.0])).tolist() == [0.5, 2.0, -3.0]
    assert check_counts(make(dtype)([1.0, 2.0, 0.0])).tolist() == [1, 2, 0]


@pytest.mark.parametrize(
    ("make", "dtype"),
    [
        (pandas, "Float64"),
        (pandas, "Int64"),
        (pandas, "object"),
        (pandas, "double[pyarrow]"),
        (polars, None),
        (polars, "Int64"),
        (pyarrow, None),
        (pyarrow, "float"),
        (pyarrow, "chunked"),
    ],
)
def test_nulls_are_refused_by_name(make, dtype):
    """A null is no label, no score and no count; the message names its row."""
    column = make(dtype)([1, 0, None])
    for check, field in (
        (check_labels, "labels"),
        (check_scores, "scores"),
        (check_counts, "counts"),
    ):
        with pytest.raises(InvalidInputError) as caught:
            check(column)
        assert str(caught.value) == f"{field} must not have missing values, got null at index 2"
        assert (caught.value.field, caught.value.index) == (field, 2)


def test_a_nan_in_plain_floats_is_called_by_its_name():
    """If a column cannot distinguish missing values from NaN, the message says nan."""
    for make in (pandas("float64"), polars("Float64"), pyarrow("double")):
        with pytest.raises(InvalidInputError, match="score must be finite, got nan at index 1"):
            check_scores(make([0.5, NAN]))


def test_a_frame_is_no_column():
    """A table with one column is still a table."""
    frame = pytest.importorskip("pandas").DataFrame({"a": [1]})
    with pytest.raises(InvalidInputError, match="labels must be one-dimensional"):
        check_labels(frame)


def test_columns_without_rows_are_fine():
    """Empty columns of each library pass, whatever type they have."""
    for make in (pandas(None), pandas("Int64"), polars(None), pyarrow(None), pyarrow("double")):
        labels, scores, counts = check_columns(labels=make([]), scores=make([]), counts=make([]))
        assert labels.size == scores.size == counts.size == 0


def test_libraries_may_be_mixed():
    """Labels of one library can be combined with scores of another."""
    evaluator = Evaluator()
    evaluator.add_cases(labels=pandas("boolean")([True, False]), scores=polars(None)([0.9, 0.1]))
    evaluator.add_cases(labels=pyarrow("bool")([True]), scores=np.array([0.5], dtype=np.float16))
    assert evaluator.num_cases == 3
    assert evaluator.auc_roc() == 1.0


def test_none_of_them_is_imported():
    """The library recognises columns by their methods, without importing pandas or polars."""
    code = (
        "import sys, streameval._evaluator\n"
        "others = ('pandas', 'polars', 'pyarrow', 'torch', 'grpc', 'matplotlib', 'sklearn')\n"
        "print([name for name in others if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
