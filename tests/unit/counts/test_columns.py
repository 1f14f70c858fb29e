"""The rules for labels, scores and counts, and the message of each refusal."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from streameval import InvalidInputError
from streameval._counts.columns import (
    check_columns,
    check_count,
    check_counts,
    check_label,
    check_labels,
    check_score,
)
from streameval.kernel import check_scores

NAN = float("nan")


@pytest.mark.parametrize(
    "column",
    [
        [True, False, True],
        (1, 0, 1),
        [1.0, 0.0, 1.0],
        [True, 0, 1.0],
        [np.bool_(True), np.int8(0), np.float32(1)],
        np.array([True, False, True]),
        np.array([1, 0, 1], dtype=np.uint8),
        np.array([1, 0, 1], dtype=object),
        np.array([1, 0, 1], dtype=np.float32),
    ],
    ids=lambda column: f"{type(column).__name__}-{getattr(column, 'dtype', '')}",
)
def test_labels_are_read_from_any_column(column):
    """True, False, 1 and 0 of every width and library are labels."""
    read = check_labels(column)
    assert read.dtype == np.bool_
    assert read.tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("column", "shown", "index"),
    [
        ([1, 0, 2], "2", 2),
        ([1, -1], "-1", 1),
        ([True, 0.5], "0.5", 1),
        ([True, "yes"], "'yes'", 1),
        (["1", "N/A"], "'N/A'", 1),
        ([True, None], "None", 1),
        ([1.0, NAN], "nan", 1),
        ([1, 1j], "1j", 1),
        (np.array([0, 1, 7], dtype=np.uint8), "7", 2),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), "2020-01-01", 0),
    ],
)
def test_a_label_that_is_neither_class_is_refused(column, shown, index):
    """The message names the value and its row."""
    with pytest.raises(InvalidInputError) as caught:
        check_labels(column)
    assert str(caught.value).startswith("label must be True, False, 1 or 0, got ")
    said, _, advice = str(caught.value).partition("; declare the positive class: ")
    assert said.endswith(f"at index {index}")
    assert advice in {"", f"positive={shown}, if it is this one"}
    assert shown in said
    assert (caught.value.field, caught.value.index) == ("labels", index)


@pytest.mark.parametrize(
    "column",
    [
        [0.5, 2, -3],
        np.array([0.5, 2, -3], dtype=np.float16),
        np.array([0.5, 2, -3], dtype=np.float32),
        np.array([0.5, 2, -3], dtype=np.longdouble),
        np.array([0.5, 2, -3], dtype=object),
        np.array([0.5, 2, -3], dtype=">f8"),
        np.array([0.5, 9, 2, 9, -3])[::2],
        [Fraction(1, 2), Decimal(2), np.int8(-3)],
    ],
    ids=lambda column: f"{type(column).__name__}-{getattr(column, 'dtype', '')}",
)
def test_scores_are_read_from_any_column(column):
    """Real numbers of every width and library are scores."""
    read = check_scores(column)
    assert read.dtype == np.float64
    assert read.tolist() == [0.5, 2.0, -3.0]


def test_integers_are_scores():
    """Integer columns are scores too."""
    assert check_scores(np.array([3, 2**40])).tolist() == [3.0, 2.0**40]


@pytest.mark.parametrize(
    ("column", "message", "index"),
    [
        ([0.1, 0.2, 0.3, NAN], "score must be finite, got nan at index 3", 3),
        ([0.1, -np.inf], "score must be finite, got -inf at index 1", 1),
        ([0.1, "0.2"], "score must be a number, got '0.2' at index 1", 1),
        (["x" * 80], f"score must be a number, got '{'x' * 36}... at index 0", 0),
        ([0.1, None], "score must be a number, got None at index 1", 1),
        ([0.1, 1j], "score must be a number, got 1j at index 1", 1),
        ([True, False], "score must be a number, got True at index 0", 0),
        ([1, 10**400], f"score must be finite, got 1{'0' * 36}... at index 1", 1),
        (np.array([1, 2], dtype="timedelta64[s]"), "score must be a number, got 1 seconds", 0),
        (
            np.ma.masked_array([0.5, 0.6], mask=[False, True]),
            "scores must not have missing values, got null at index 1",
            1,
        ),
    ],
)
def test_a_score_that_is_no_finite_number_is_refused(column, message, index):
    """The message names the value and its row."""
    with pytest.raises(InvalidInputError) as caught:
        check_scores(column)
    assert str(caught.value).startswith(message)
    assert (caught.value.field, caught.value.index) == ("scores", index)


def test_a_longdouble_beyond_float64_is_refused():
    """A number that becomes infinite as float64 is not finite."""
    wide = np.array([np.longdouble(np.finfo(np.float64).max) * 2])
    if np.finfo(np.longdouble).max == np.finfo(np.float64).max:
        pytest.skip("this machine has no wider float")
    with pytest.raises(InvalidInputError, match="finite"):
        check_scores(wide)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (None, "labels must be a column (a list or an array), got None"),
        (1, "labels must be a column (a list or an array), got int"),
        ("10", "labels must be a column (a list or an array), got str"),
        ({1: 0}, "labels must be a column (a list or an array), got dict"),
        ((x for x in [1]), "labels must be a column (a list or an array), got generator"),
        (np.ones((2, 2)), "labels must be one-dimensional, got an array of shape (2, 2)"),
        ([[1, 0], [1]], "labels cannot be read as a column: "),
    ],
    ids=["None", "int", "str", "dict", "generator", "matrix", "ragged"],
)
def test_what_is_no_column_is_refused(values, message):
    """A column is one-dimensional and has a length."""
    with pytest.raises(InvalidInputError) as caught:
        check_labels(values)
    assert str(caught.value).startswith(message)
    assert caught.value.field == "labels"
    assert caught.value.index is None


def test_columns_of_unequal_length_are_refused():
    """The message has both lengths."""
    with pytest.raises(InvalidInputError, match="scores must have one row for each of labels"):
        check_columns(labels=[1, 0], scores=[0.5])
    with pytest.raises(InvalidInputError, match="got 1 rows and 2"):
        check_columns(labels=[1, 0], scores=[0.5, 0.6], counts=[1])


def test_empty_columns_are_fine():
    """Lists, arrays and typed columns without rows pass."""
    for empty in ([], (), np.array([]), np.array([], dtype=object)):
        labels, scores, counts = check_columns(labels=empty, scores=empty, counts=empty)
        assert labels.size == scores.size == counts.size == 0


@pytest.mark.parametrize(
    "column",
    [[0, 2], [0.0, 2.0], np.array([0, 2], dtype=np.uint64), [Fraction(0), 2]],
)
def test_counts_are_whole_numbers(column):
    """Integers of any type are counts, and floats that are whole numbers."""
    if isinstance(column[0], Fraction):
        with pytest.raises(InvalidInputError):
            check_counts(column)
        return
    read = check_counts(column)
    assert read.dtype == np.int64
    assert read.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("column", "shown", "index"),
    [
        ([1, -2], "-2", 1),
        ([1, 1.5], "1.5", 1),
        ([1.0, NAN], "nan", 1),
        ([1.0, np.inf], "inf", 1),
        ([True], "True", 0),
        ([1, "2"], "'2'", 1),
        ([1, None], "None", 1),
        (np.array([3, -1], dtype=np.int8), "-1", 1),
    ],
)
def test_a_count_that_is_none_is_refused(column, shown, index):
    """Fractions, negatives and booleans are no counts."""
    with pytest.raises(InvalidInputError) as caught:
        check_counts(column)
    message = f"count must be a non-negative integer, got {shown} at index {index}"
    assert str(caught.value) == message
    assert (caught.value.field, caught.value.index) == ("counts", index)


@pytest.mark.parametrize(
    "column",
    [
        [2**62],
        [2**61, 2**61],
        np.array([2**63], dtype=np.uint64),
        [2.0**62],
        [2**70],
        np.full(3, 2**61),
    ],
)
def test_counts_beyond_exact_arithmetic_are_refused(column):
    """All counts together stay below 2**62."""
    with pytest.raises(InvalidInputError, match="must stay below"):
        check_counts(column)


def test_large_counts_below_the_limit_pass():
    """The limit applies to the sum, not to an upper bound of it."""
    assert check_counts([2**61, 2**61 - 1]).tolist() == [2**61, 2**61 - 1]


def test_scalars_follow_the_rules_of_columns():
    """One value is a label, score or count exactly when a column of it is."""
    assert check_label(np.int64(1)) is True
    assert check_label(np.array(0.0)) is False
    assert check_score(np.float32(0.5)) == 0.5
    assert check_score(np.array(2)) == 2.0
    assert str(check_score(-0.0)) == "0.0"
    assert check_count(3.0) == 3
    for label in (2, "yes", None, 0.5, NAN, [1]):
        with pytest.raises(InvalidInputError, match="label must be True, False, 1 or 0, got "):
            check_label(label)
    for score in (NAN, np.inf, Decimal("NaN"), Decimal("sNaN"), 10**400):
        with pytest.raises(InvalidInputError, match="score must be finite, got "):
            check_score(score)
    for score in ("0.5", None, 1j, True, np.bool_(True), [0.5], np.array([0.5, 0.6])):
        with pytest.raises(InvalidInputError, match="score must be a number, got "):
            check_score(score)


def test_the_probability_scale_has_ends():
    """On the probability scale, scores are between 0 and 1, both included."""
    assert check_scores([0.0, 1.0], scale="probability").tolist() == [0.0, 1.0]
    message = r"score must be between 0 and 1 on the probability scale, got 1\.5 at index 1"
    with pytest.raises(InvalidInputError, match=message):
        check_scores([0.5, 1.5], scale="probability")
    with pytest.raises(InvalidInputError, match=r"got -0\.1"):
        check_score(-0.1, scale="probability")


@pytest.mark.parametrize(
    "scores",
    [
        [0.5, 2**53 + 1],
        np.array([1, 2**53 + 1]),
        np.array([1, -(2**53) - 1]),
        np.array([1, 2**64 - 1], dtype=np.uint64),
        [0.5, Decimal(2**53 + 1)],
        [0.5, Fraction(2**53 + 1)],
        [0.5, -(2**60)],
        np.array([1, 2**53 + 1], dtype=object),
    ],
)
def test_integers_that_two_floats_could_be_are_no_scores(scores):
    """Two of them would tie in silence; a float is what it says, however large."""
    with pytest.raises(
        InvalidInputError, match="at most 2\\*\\*53 where it is an integer"
    ) as caught:
        check_scores(scores)
    assert (caught.value.field, caught.value.index) == ("scores", 1)
    assert "subtract a constant" in str(caught.value)
    assert check_scores([2**53, -(2**53), 2.0**60, 1e300]).size == 4
    assert check_scores(np.array([2**53, -(2**53)])).tolist() == [2.0**53, -(2.0**53)]
