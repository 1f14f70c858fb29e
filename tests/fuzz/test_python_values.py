"""Hostile values at the Python API: refused with a message, or a right answer; atomic."""

from __future__ import annotations

import inspect
import itertools
import math
import numbers
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from streameval import Evaluator, InvalidInputError, functional


def raising(*_args, **_keywords):
    message = "hostile"
    raise RuntimeError(message)


class EvilFloat(float):
    """A float whose conversion to float raises."""

    __float__ = __int__ = __index__ = raising


class EvilText(float):
    """A float whose text conversion raises."""

    __repr__ = __str__ = raising


class EvilEquality(float):
    """A float whose comparison raises."""

    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = raising
    __hash__ = float.__hash__


class EvilReal(numbers.Real):
    """A real number whose operations all raise."""

    for _name in numbers.Real.__abstractmethods__ | {"__repr__", "__bool__"}:
        locals()[_name] = raising
    del _name
    __hash__ = object.__hash__


class EvilArray:
    """An array-like whose conversion raises."""

    __array__ = raising


class NoArray:
    """An array-like that converts to something that is not an array."""

    def __array__(self, *_args, **_keywords):
        return "no array"


class EvilAttributes:
    """An object whose attributes all raise."""

    __getattr__ = raising


class EvilRepr:
    """An object whose repr raises."""

    __repr__ = __bool__ = raising


class LongList(list):
    """A list that reports a huge length."""

    def __len__(self):
        return 10**9


class EvilNulls(list):
    """A column whose null mask raises."""

    isna = raising


class EvilNullCount(list):
    """A column with a null count but without a null mask."""

    null_count = 3
    is_null = raising


class OwnFloat(float):
    """A subclass of float."""


class OwnInt(int):
    """A subclass of int."""


def lazy():
    yield 1.0
    raising()


REFUSED_EVERYWHERE = (
    EvilReal(),
    EvilArray(),
    NoArray(),
    EvilAttributes(),
    EvilRepr(),
    Decimal("NaN"),
    Decimal("sNaN"),
    Decimal("Infinity"),
    Decimal("1e400"),
    -(10**400),
    10**5000,
    Fraction(10**400),
    float("nan"),
    float("inf"),
    -float("inf"),
    OwnFloat("nan"),
    1j,
    np.complex64(1),
    np.longdouble(2) ** 16000,
    np.datetime64("2020-01-01"),
    np.timedelta64(1),
    np.void(b"ab"),
    np.str_("1"),
    np.array([1.0, 2.0]),
    np.array([]),
    np.array("x"),
    np.array(None, dtype=object),
    np.array(np.nan),
    "1",
    "x" * 10**6,
    b"1",
    bytearray(b"1"),
    memoryview(b"1"),
    None,
    ...,
    NotImplemented,
    object(),
    type,
    {},
    {1},
    [],
    (),
    range(1),
)
"""Values that are not labels, scores or counts."""

SOMETIMES = (
    EvilFloat(1.0),
    EvilText(0.5),
    EvilText("nan"),
    EvilEquality(1.0),
    OwnFloat(1.0),
    OwnInt(1),
    2**63,
    -(2**63),
    2**62,
    Decimal(1),
    Fraction(1, 3),
    np.float16(0.1),
    np.longdouble(1),
    np.bool_(True),
    np.array(0.5),
    np.array(1, dtype=">i4"),
    np.array([1.0]),
    np.uint64(2**64 - 1),
    [1],
    (1,),
    True,
    0,
    1,
    -0.0,
    5e-324,
    1e308,
)
"""Values that may be labels, scores or counts."""

READ_ONLY = np.array([0.5])
READ_ONLY.flags.writeable = False

COLUMNS = (
    np.zeros(1, dtype=[("a", "f8")]),
    np.rec.array([(1.0,)], dtype=[("a", "f8")]),
    np.array([b"x"], dtype="V1"),
    np.array([None]),
    np.array([object()]),
    np.array([EvilRepr()]),
    np.array([EvilReal()]),
    np.array([EvilFloat(0.5)], dtype=object),
    np.array([EvilEquality(1.0)], dtype=object),
    np.ma.array([0.5], mask=[True]),
    np.ma.array([0.5], mask=[False]),
    np.array(0.5),
    np.array([[0.5]]),
    np.zeros((1, 0)),
    READ_ONLY,
    np.arange(4.0)[::2][:1],
    np.arange(4.0)[::-1][3:],
    np.lib.stride_tricks.as_strided(np.zeros(1), (1,), (0,)),
    np.array([0.5], dtype=">f8"),
    np.array([1], dtype=">u2"),
    np.array([0.5], dtype=np.float16),
    np.array([0.5], dtype=np.longdouble),
    np.array([2.0], dtype=np.longdouble) ** 16000,
    np.array([0x7FA00000], dtype=np.uint32).view(np.float32),  # a signalling NaN
    np.array([2**63], dtype=np.uint64),
    np.array([-1]),
    np.array([1j]),
    np.array(["a"]),
    np.array([b"a"]),
    np.array(["2020"], dtype="M8[s]"),
    np.array([1], dtype="m8[s]"),
    np.array([True]),
    np.array([10**400]),
    np.array([Decimal("sNaN")]),
    EvilArray(),
    NoArray(),
    EvilAttributes(),
    EvilNulls([0.5]),
    EvilNullCount([0.5]),
    LongList([0.5]),
    [EvilArray()],
    [NoArray()],
    [EvilReal()],
    [EvilFloat(1.0)],
    [EvilText("nan")],
    [np.array([0.5])],
    [np.array(0.5)],
    [[0.5]],
    [[0.5], [0.5, 0.6]],
    [None],
    ["x"],
    [10**400],
    [10**5000],
    [2**64],
    [True],
    [Decimal("sNaN")],
    {0.5: 1}.keys(),
    range(1, 2),
    "x",
    b"x",
    memoryview(b"x"),
    {0.5},
    None,
    3,
    raising,
)


def counted() -> Evaluator:
    evaluator = Evaluator()
    evaluator.add_cases(labels=[1, 0, 1], scores=[0.7, 0.2, 0.2])
    evaluator.add_misses(1)
    return evaluator


def content(evaluator: Evaluator) -> tuple[object, ...]:
    points = evaluator.operating_points()
    return points.thresholds.tolist(), points.fp.tolist(), points.tp.tolist()


def refused(act) -> InvalidInputError | None:
    """Apply a call to an evaluator; return its refusal, and check that nothing changed."""
    evaluator = counted()
    before = content(evaluator)
    error = refusal(act, evaluator)
    evaluator.snapshot()
    if error is not None:
        assert content(evaluator) == before
        assert error.field
    return error


def refusal(act, *arguments, **keywords) -> InvalidInputError | None:
    """Make a call; return its refusal, or None."""
    try:
        act(*arguments, **keywords)
    except InvalidInputError as error:
        found = error
    else:
        return None
    assert 0 < len(str(found)) < 300
    return found


SCALARS = {
    "label": lambda value: lambda ev: ev.add_case(value, 0.5),
    "score": lambda value: lambda ev: ev.add_case(True, value),
    "misses": lambda value: lambda ev: ev.add_misses(value),
    "negative misses": lambda value: lambda ev: ev.add_negative_misses(value),
    "removed label": lambda value: lambda ev: ev.remove_case(value, 0.7),
    "removed score": lambda value: lambda ev: ev.remove_case(True, value),
    "removed misses": lambda value: lambda ev: ev.remove_misses(value),
    "label in a list": lambda value: lambda ev: ev.add_cases(labels=[1, value], scores=[1, 2]),
    "score in a list": lambda value: lambda ev: ev.add_cases(labels=[1, 0], scores=[0.5, value]),
    "count in a list": lambda value: (
        lambda ev: ev.add_cases(labels=[1, 0], scores=[0.5, 0.6], counts=[1, value])
    ),
}


@pytest.mark.parametrize("where", SCALARS)
def test_scalars(where):
    """Any object as a label, a score or a count."""
    for value in REFUSED_EVERYWHERE:
        if where.endswith("list") and value is None:
            continue  # lists of None and numbers have tests of their own
        if "label" in where and isinstance(value, str | bytes) and len(value) == 1:
            continue  # "1" is a label
        assert refused(SCALARS[where](value)) is not None, type(value)
    for value in SOMETIMES:
        refused(SCALARS[where](value))


@pytest.mark.parametrize("field", ["labels", "scores", "counts"])
@pytest.mark.parametrize("verb", ["add_cases", "remove_cases"])
def test_columns(verb, field):
    """Any object as a column."""
    for column in COLUMNS:
        columns = {"labels": [1], "scores": [0.7], field: column}
        error = refused(lambda ev, columns=columns: getattr(ev, verb)(**columns))
        assert error is None or error.field in {"labels", "scores", "counts", "count"}
    for columns in ({"labels": lazy(), "scores": [1]}, {"labels": [1], "scores": lazy()}):
        assert refused(lambda ev, columns=columns: getattr(ev, verb)(**columns)) is not None


@pytest.mark.parametrize("setting", ["resolution", "max_cells", "scale"])
def test_settings(setting):
    """Any object as a setting."""
    others = {"resolution": 8} if setting == "scale" else {}
    for value in REFUSED_EVERYWHERE:
        if value is not None:
            with pytest.raises(InvalidInputError) as error:
                Evaluator(**others, **{setting: value})
            assert 0 < len(str(error.value)) < 300


def test_half_precision_counts_are_added_up_exactly():
    """Their sum exceeds half precision; once it was refused as above the limit."""
    evaluator = Evaluator()
    counts = np.full(20, 60_000, dtype=np.float16)
    evaluator.add_cases(labels=np.ones(20, dtype=bool), scores=np.arange(20.0), counts=counts)
    assert evaluator.num_cases == 20 * int(counts[0])


ARGUMENTS = (
    *(0.0, -0.0, 1.0, 5e-324, 1e-300, 1 - 2**-53, 2.0**63, 1e308, -1e308),
    *(float("nan"), float("inf"), -float("inf"), 0, 1, -1, 2, 2**31, 2**63, 10**400, -(10**400)),
    *(10**5000, True, np.float16(0.5), np.longdouble(2) ** 16000, np.int8(1)),
    *(Decimal("0.5"), Decimal("sNaN"), Fraction(1, 3), OwnFloat(0.5), np.float64(0.25)),
)

NUMERIC = {
    "max_fpr": ("auc_roc",),
    "min_recall": ("auc_roc", "auc_pr"),
    "prevalence": ("auc_pr", "average_precision"),
    "threshold": ("confusion_at", "expected_cost"),
    "precision": ("threshold_for",),
    "recall": ("threshold_for",),
    "fpr": ("threshold_for",),
    "flagged_share": ("threshold_for",),
    "cost_fp": ("best_threshold", "expected_cost"),
    "cost_fn": ("best_threshold", "expected_cost"),
    "beta": ("maximum_f_measure",),
    "fraction": ("lift_at", "recall_at"),
    "bins": ("reliability",),
    "rank": ("precision_at", "recall_at", "lift_at"),
}
"""Numeric arguments of queries."""


@pytest.mark.parametrize("argument", NUMERIC)
@pytest.mark.parametrize("bounded", [False, True])
def test_numeric_arguments_of_queries(argument, bounded):
    """Any number has an answer in range or is refused; numpy emits no warning."""
    evaluator = Evaluator(resolution=6, scale="probability") if bounded else Evaluator()
    evaluator.add_cases(labels=[1, 0, 1, 0, 1], scores=[0.9, 0.8, 0.7, 0.4, 0.1])
    evaluator.add_misses(1)
    costs = {"cost_fp": 1.0, "cost_fn": 1.0}
    others = {"best_threshold": costs, "expected_cost": {"threshold": 0.5, **costs}}
    for name, value in itertools.product(NUMERIC[argument], ARGUMENTS):
        arguments = {**others.get(name, {}), argument: value}
        query = getattr(evaluator, name)
        if refusal(query, **arguments) is None:
            answer = query(**arguments)
            if name == "lift_at" and value == 0:
                assert math.isnan(answer)  # no result without a rank
            elif isinstance(answer, float) and name not in {"best_threshold", "threshold_for"}:
                assert answer >= 0, (name, value)  # which also excludes nan


def test_tiny_prevalences_and_recalls_are_limits():
    """Where the formulas would overflow, the figures are the limits."""
    evaluator = Evaluator()
    evaluator.add_cases(labels=[1, 0, 1, 0, 1], scores=[0.9, 0.8, 0.7, 0.4, 0.1])
    for tiny in (1e-79, 1e-100, 1e-300, 5e-324):
        assert evaluator.average_precision(prevalence=tiny) == pytest.approx(1 / 3, rel=1e-12)
        assert evaluator.auc_pr(prevalence=tiny) == pytest.approx(1 / 3, rel=1e-12)
        assert evaluator.auc_pr(min_recall=tiny) == evaluator.auc_pr()
        interval = evaluator.interval("average_precision", prevalence=tiny)
        assert not math.isnan(interval.lower)


def test_every_function_refuses_hostile_columns():
    """The functions of `functional` accept and refuse the same columns as the evaluator."""
    for _, function in inspect.getmembers(functional, inspect.isfunction):
        parameters = inspect.signature(function).parameters
        if function.__module__ != functional.__name__ or "scores" not in parameters:
            continue
        others = {"name": "auc_roc"} if "name" in parameters else {}
        for value in (EvilArray(), NoArray(), EvilAttributes(), [float("nan")], lazy(), "x", [[1]]):
            with pytest.raises(InvalidInputError):
                function(labels=[1], scores=value, **others)


@pytest.mark.parametrize("anytime", [False, True])
@pytest.mark.parametrize("name", ["auc_roc", "auc_pr", "average_precision", "prevalence"])
def test_intervals_at_any_level(name, anytime):
    """At every level in (0, 1) intervals contain the estimate, and they are nested."""
    evaluator = Evaluator()
    evaluator.add_cases(labels=[1, 0, 1] * 60, scores=[row % 37 / 37 for row in range(180)])
    levels = (5e-324, 1e-300, 1e-17, 1e-10, 0.2, 0.3, 0.5, 0.95, 1 - 1e-10, 1 - 2**-53)
    found = [evaluator.interval(name, level=level, anytime=anytime) for level in levels]
    for inner, outer in itertools.pairwise(found):
        assert 0 <= outer.lower <= inner.lower <= inner.upper <= outer.upper <= 1
