"""Labels and ids: what is one value, what is none, and what the messages say to do."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from streameval import (
    Evaluator,
    InvalidInputError,
    LabelJoiner,
    PairedEvaluator,
    WindowedEvaluator,
    compare_paired,
    evaluate_by,
    functional,
)
from streameval._common.labels import Labels, class_of
from streameval._common.names import check_ids, id_of
from streameval._counts.columns import check_labels

if TYPE_CHECKING:
    from collections.abc import Callable

ONE = (
    *(True, 1, 1.0, "1", "1.0", "1.", "+1", "1e0", "1.000000000000000000e+00", "true", "True"),
    *("TRUE", " 1 ", "1\t", b"1", np.bool_(True), np.int8(1), np.uint64(1), np.float16(1)),
    *(np.float32(1), np.array(1), np.array(True), np.str_("1"), np.bytes_(b"true")),
    *(Decimal(1), Decimal("1.000"), Fraction(1)),
)
ZERO = (
    *(False, 0, 0.0, -0.0, "0", "0.0", "-0", "0e0", "0.000000000000000000e+00", "false", "False"),
    *("FALSE", " 0", b"0", np.bool_(False), np.int64(0), np.float32(0), Decimal("0.0"), "-0.0"),
)
NO_LABEL = (
    *(None, float("nan"), "", " ", "\t", "N/A", "n/a", "NA", "#N/A", "nan", "NaN", "NULL", "null"),
    *("None", "<NA>", "NaT", np.nan, np.float32("nan"), np.datetime64("NaT", "us"), Decimal("NaN")),
    *(np.timedelta64("NaT", "us"), np.ma.masked, b""),
)
NO_CLASS = (
    *(2, -1, 0.5, "2", "-1", "yes", "no", "t", "f", "pending", "01", "1_0", "0x1", "1,0", "\u0661"),
    *(float("inf"), "1e-400", "0.99999999999999999999", Decimal("1e-400"), 10**400, "fraud"),
    *(
        [1],
        (1,),
        {"a": 1},
        1j,
        np.timedelta64(1, "us"),
        np.array([1, 0]),
        datetime(2026, 1, 1, tzinfo=UTC),
    ),
)


def label_of(value: object, *args: object, **kwargs: object) -> bool | str:
    """Return a label as the reader has it, or why it is refused."""
    try:
        return Labels(*args, **kwargs).read(value)
    except InvalidInputError as error:
        return str(error)


@pytest.mark.parametrize("value", ONE, ids=repr)
def test_one_is_one_value(value: object) -> None:
    """However it is written, as a value and as the declared class, in the library too."""
    assert label_of(value) is True
    for declared in (True, "true", "1", 1.0, "True"):
        assert label_of(value, declared) is True
        assert label_of(value, "0", declared) is False
    evaluator = Evaluator()
    evaluator.add_case(value, 0.5)
    evaluator.add_cases(labels=[value, True], scores=[0.5, 0.5])
    assert evaluator.num_positive_ref == 3


@pytest.mark.parametrize("value", ZERO, ids=repr)
def test_zero_is_one_value(value: object) -> None:
    """The same of the other class."""
    assert label_of(value) is False
    assert label_of(value, "true") is False
    assert label_of(value, False) is True
    evaluator = Evaluator()
    evaluator.add_case(value, 0.5)
    assert evaluator.num_negative_ref == 1


@pytest.mark.parametrize("value", NO_LABEL, ids=repr)
def test_what_is_missing_is_no_label(value: object) -> None:
    """With and without a declared class; nothing is learned from it."""
    for arguments in ((), ("fraud",), ("fraud", "legit"), ("1",)):
        for learns in (False, True):
            assert "label is missing" in str(label_of(value, *arguments, learns=learns))
    evaluator = Evaluator()
    with pytest.raises(InvalidInputError, match="label must be True, False, 1 or 0"):
        evaluator.add_case(value, 0.5)
    assert not evaluator.num_cases


@pytest.mark.parametrize("value", NO_CLASS, ids=lambda value: repr(value)[:30])
def test_a_third_value_is_refused(value: object) -> None:
    """Without classes, and with two that are declared or known."""
    for arguments in ((), ("1",), ("Fraud", "legit")):
        assert isinstance(label_of(value, *arguments), str)
    with pytest.raises(InvalidInputError, match="label must be True, False, 1 or 0"):
        Evaluator().add_case(value, 0.5)


def test_missing_values_of_pandas() -> None:
    """They are found by their type: pandas need not be installed."""
    pandas = pytest.importorskip("pandas")
    assert class_of(pandas.NA) is class_of(pandas.NaT) is None


def test_a_file_declares_its_other_class_once() -> None:
    """The first other value is the negative class, unless it is missing or written otherwise."""
    labels = Labels("fraud", learns=True, names=("--positive", "--negative"))
    with pytest.raises(InvalidInputError, match="'Fraud' differs from 'fraud' in case only"):
        labels.read("Fraud")
    assert labels.read("legit") is False
    assert labels.read("fraud") is True
    with pytest.raises(InvalidInputError, match="'pending' is neither 'fraud' nor 'legit'"):
        labels.read("pending")


def test_a_stream_does_not_guess_its_other_class() -> None:
    """Which value comes first is chance there: the other class has to be declared."""
    assert label_of("fraud", "fraud") is True
    assert "label 'legit' is not 'fraud': if it is the other class, declare negative" in str(
        label_of("legit", "fraud")
    )
    assert label_of("NA", "US", "NA") is False, "a class that is declared is no missing value"
    assert label_of("None", "fraud", "None") is False
    assert label_of(-1, 1, -1) is label_of("-1.0", "1", "-1") is False


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, "0"), "negative is the other class: give positive too"),
        (("",), "positive must be a label, got ''"),
        (([1],), "positive must be a label, got"),
        ((True, "1.0"), "positive and negative are one class"),
        (("a", float("nan")), "negative must be a label, got nan"),
    ],
)
def test_classes_that_are_none_are_refused(arguments: tuple, message: str) -> None:
    """When they are declared, before any row."""
    with pytest.raises(InvalidInputError, match=message):
        Labels(*arguments)


@pytest.mark.parametrize(
    ("value", "id_"),
    [
        *(("order-17", "order-17"), (b"a", b"a"), ("1.0", "1.0"), (17, "17"), (-17, "-17")),
        *((17.0, "17"), (-0.0, "0"), (2.0**53 - 1, "9007199254740991"), (10**40, "1" + "0" * 40)),
        *((np.int32(17), "17"), (np.uint64(2**64 - 1), "18446744073709551615")),
        *(
            (np.float32(17), "17"),
            (np.array(17), "17"),
            (Decimal("17.0"), "17"),
            (Decimal(10**30), str(10**30)),
            (np.str_("a"), "a"),
        ),
    ],
    ids=repr,
)
def test_integers_are_ids(value: object, id_: object) -> None:
    """As their digits, also as floats that have every integer."""
    assert id_of(value) == id_


@pytest.mark.parametrize(
    "value",
    [
        *(0.5, 2.0**53, -(2.0**53), 1e300, float("nan"), float("inf"), None, True, np.bool_(False)),
        *(
            np.float32(2**24),
            np.float16(2**11),
            Decimal("0.5"),
            Decimal("NaN"),
            Decimal("sNaN"),
            [1],
            (),
            {},
        ),
        *(np.datetime64("NaT", "us"), np.timedelta64(1, "us"), 1j, np.array([1, 2])),
    ],
    ids=repr,
)
def test_other_ids_are_refused(value: object) -> None:
    """In a column with the row; floats with what to do."""
    with pytest.raises(InvalidInputError, match="id must be a text or an integer, got") as caught:
        id_of(value)
    assert ("write ids as text" in str(caught.value)) == (
        isinstance(value, float | np.floating) and math.isfinite(value)
    )
    with pytest.raises(InvalidInputError, match="at index 1") as caught:
        check_ids(["a", value])
    assert caught.value.index == 1


def test_columns_of_ids() -> None:
    """Integers of any width, and floats whose width says which integers they have."""
    assert check_ids(np.array([1, 2], dtype=np.int16)) == [b"1", b"2"]
    assert check_ids(np.array([1.0, 2.0])) == [b"1", b"2"]
    with pytest.raises(InvalidInputError, match="at index 1"):
        check_ids(np.array([1.0, 2.0**24], dtype=np.float32))


LABELS, SCORES = ["yes", "no", "yes", "no"], [0.9, 0.7, 0.4, 0.1]
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
COLUMNS = {"labels": LABELS, "scores": SCORES}


def filled(holder: Any, **columns: Any) -> Any:
    holder.add_cases(**columns)
    return holder


def labelled(**columns: Any) -> LabelJoiner:
    joiner = LabelJoiner(WindowedEvaluator(), ttl=timedelta(days=7))
    joiner.log_cases(ids=list("abcd"), scores=columns.pop("scores"), at=NOON)
    joiner.label_cases(ids=list("abcd"), at=NOON, **columns)
    return joiner


def paired(add: Callable[..., Any]) -> Callable[..., Any]:
    return lambda scores, **rest: add(scores_a=scores, scores_b=scores, **rest)


DOORS: dict[str, Callable[..., Any]] = {
    "add": lambda **columns: filled(Evaluator(), **columns).num_positive_ref,
    "remove": lambda **columns: (
        filled(Evaluator(), labels=[1, 0, 1, 0, 1, 1], scores=[*SCORES, 0.5, 0.5]).remove_cases(
            **columns
        )
        or 2
    ),
    "window": lambda **columns: (
        filled(WindowedEvaluator(), at=NOON, **columns).last(timedelta(hours=1)).num_positive_ref
    ),
    "pair": paired(lambda **columns: filled(PairedEvaluator(), **columns).num_positive_ref),
    "compare_paired": paired(lambda **columns: compare_paired(**columns) and 2),
    "joiner": lambda **columns: (
        labelled(**columns).evaluator.last(timedelta(hours=1)).num_positive_ref
    ),
    "groups": lambda **columns: sum(
        each.evaluator.num_positive_ref for each in evaluate_by(by=list("aabb"), **columns)
    ),
    "evaluator": lambda **columns: functional.evaluator(**columns).num_positive_ref,
    "metric": lambda **columns: 2 if functional.auc_roc(**columns) == 0.75 else 0,
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_takes_labels_that_are_texts(door: str) -> None:
    """With the positive class declared they count as 1 and 0 do; without it the error says so."""
    with pytest.raises(InvalidInputError) as caught:
        DOORS[door](**COLUMNS)
    assert "declare the positive class: positive='yes'" in str(caught.value)
    assert (caught.value.field, caught.value.index) == ("labels", 0)
    assert DOORS[door](**COLUMNS, positive="yes") == 2
    assert DOORS[door](**COLUMNS, positive="yes", negative="no") == 2
    other = {"labels": ["yes", "no", "yes", "maybe"], "scores": SCORES}
    with pytest.raises(InvalidInputError) as caught:
        DOORS[door](**other, positive="yes")
    assert str(caught.value) == (
        "label 'maybe' is neither 'yes' nor 'no' at index 3: leave such rows out, or replace the "
        "value"
    )
    assert (caught.value.field, caught.value.index) == ("labels", 3)


@pytest.mark.parametrize(
    ("labels", "positive", "expected"),
    [
        (["fraud", "ok", "fraud"], "fraud", [True, False, True]),
        (np.array(["fraud", "ok"]), "fraud", [True, False]),
        (np.array([b"fraud", b"ok"]), "fraud", [True, False]),
        ([1, -1, 1.0], 1, [True, False, True]),
        (np.array([1, 2, 2]), 2, [False, True, True]),
        ([0, 1], 0, [True, False]),
        ([True, "1", 1.0, False], True, [True, True, True, False]),
        (["ok"], "fraud", [False]),
        ([], "fraud", []),
    ],
)
def test_a_column_has_two_classes(labels: Any, positive: Any, expected: list[bool]) -> None:
    """Of any values: what is one value to a file is one here."""
    assert check_labels(labels, positive=positive).tolist() == expected


def test_a_column_of_other_libraries_has_two_classes() -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    for column in (
        pandas.Series(["a", "b"]),
        pandas.Series(["a", "b"], dtype="category"),
        pandas.Series(["a", "b"], dtype="string"),
        polars.Series(["a", "b"]),
    ):
        assert check_labels(column, positive="a").tolist() == [True, False]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["fraud", None], "label is missing, got None at index 1: leave the row out"),
        (["fraud", "N/A"], "label is missing, got 'N/A' at index 1: leave the row out"),
        (["fraud", "Fraud"], "'Fraud' differs from 'fraud' in case only at index 1: write one"),
        (np.array(["2026-01-01"], dtype="datetime64[D]"), "label must be one value, got"),
    ],
)
def test_what_is_no_class_is_refused(labels: Any, message: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        check_labels(labels, positive="fraud")
    assert message in str(caught.value)


def test_advice_is_for_labels_only() -> None:
    """A missing value is no class to declare; a single case is compared by its caller."""
    for missing in (float("nan"), "N/A", ""):
        with pytest.raises(InvalidInputError) as caught:
            check_labels([missing])
        assert "declare" not in str(caught.value)
    with pytest.raises(InvalidInputError, match="pass label == 'yes'"):
        Evaluator().add_case("yes", 0.5)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="negative= is the other class: give positive="):
        check_labels(["yes"], negative="no")


def test_a_refused_column_changes_nothing() -> None:
    ev = Evaluator()
    with pytest.raises(InvalidInputError):
        ev.add_cases(labels=["a", "b", "c"], scores=[1, 2, 3], positive="a")
    assert ev.revision == 0
