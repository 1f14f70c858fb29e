"""Plain paths as functions: what the JMESPath library gives, for any document."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("jmespath", reason="needs the extra payloads")
import jmespath
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval import InvalidInputError
from streameval.payloads import PRESETS, Event
from streameval.payloads._selectors import Selector, _row_values, _RowValues, plain_path

PLAIN = [
    "a",
    "a.b",
    "a[0]",
    "a[-1].b",
    "a.b || b",
    "a || b || a.b[1]",
    "(a || b).a",
    "a[0][1]",
    '"a b".a',
    "a.b || `0`",
    "[a]",
    "a.[b, a || b]",
]
OTHER = [
    "a[*].b",
    "length(a)",
    "a && b",
    "!a",
    "a[?b]",
    "a[0:1]",
    "{a: b}",
    "a | b",
    "`7`",
    "@",
    "[0]",
]


def parsed(expression: str) -> Any:
    """Return an expression as the selector of a score has it."""
    return _row_values(jmespath.compile(expression).parsed, keeps_places=True, is_label=False)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.floats() | st.sampled_from(["", "x"]),
    lambda each: (
        st.lists(each, max_size=3) | st.dictionaries(st.sampled_from(["a", "b"]), each, max_size=2)
    ),
    max_leaves=15,
)


@settings(max_examples=300)
@given(document=JSON)
def test_plain_paths_are_the_librarys(document: Any) -> None:
    """Fields of what has none, places beyond the end, and what is empty but a value."""
    for expression in PLAIN:
        path = plain_path(parsed(expression))
        if path is None:
            continue
        found, wanted = path(document), _RowValues().visit(parsed(expression), document)
        assert found is wanted or (found == wanted and type(found) is type(wanted)), expression


def test_which_expressions_are_plain() -> None:
    """Paths are; what computes, filters or projects is left to the library, and so still right."""
    plain = [each for each in PLAIN if plain_path(parsed(each)) is not None]
    assert plain == [each for each in PLAIN if "`" not in each]
    assert all(plain_path(parsed(each)) is None for each in OTHER)
    assert Selector("length(body.a)", "score").select(Event({"a": [1, 2]})._asdict()) == 2


def test_the_paths_of_presets_are_plain() -> None:
    """All but conditions, the JSON in texts of Databricks, and BentoML's roles."""
    others = {
        (preset, key)
        for preset, keys in PRESETS.items()
        for key, value in keys.items()
        if key not in ("types", "time_unit") and plain_path(parsed(value)) is None
    }
    roles = {("bentoml-otlp", key) for key in ("when", "score", "label")}
    assert others == {("databricks", "when"), ("databricks", "score"), *roles}


@pytest.mark.parametrize(
    ("expression", "body", "found"),
    [
        ("body.label || body.outcome", {"label": False}, False),
        ("body.label || body.outcome", {"label": False, "outcome": True}, False),
        ("body.label || body.outcome", {"label": 0, "outcome": 1}, 0),
        ("body.label || body.outcome", {"label": "", "outcome": False}, False),
        ("body.label || body.outcome", {"label": None, "outcome": False}, False),
        ("body.a || body.b || body.c", {"c": False}, False),
        ("body.a || body.b || body.c", {"b": False, "c": True}, False),
        ("(body.a || body.b).label", {"b": {"label": False}}, False),
        ("body.label || `true`", {"label": False}, False),
        ("body.x && (body.label || body.y)", {"x": 1, "label": False, "y": 1}, False),
        ("{l: body.label || body.y}.l", {"label": False, "y": 1}, False),
        ("[body.label || body.y]", {"label": False, "y": 1}, [False]),
        ("body[*].label || body[*].y", [{"y": False}, {"y": True}], [False, True]),
        ("body[*].label", [{"label": False}, {}, {"label": True}], [False, None, True]),
        ("body[*].[label || y][]", [{"label": False, "y": 1}, {}], [False, None]),
        ("body[?label || y].label", [{"label": False, "y": 1}, {"y": False}], [False]),
        # jmespath.py#204: what is null keeps its place
        ("body.grid[*].col", {"grid": [{"col": None}, {"col": "x"}]}, [None, "x"]),
        ("body.*.label", {"a": {"label": 1}, "b": {}}, [1, None]),
        ("body.label == 'fraud'", {}, None),
        ("body.label == 'fraud'", {"label": "x"}, False),
        ("body.label > `3`", {}, None),
        ("body.label != `null`", {}, False),
        ("!(body.label)", {}, None),
        ("contains(['fraud', 'chargeback'], body.label)", {}, None),
        ("contains(['fraud', 'chargeback'], body.label)", {"label": None}, None),
        ("contains(['fraud', 'chargeback'], body.label)", {"label": "legit"}, False),
        ("contains(body.tags, 'fraud')", {}, None),
        ("!contains(['legit'], body.label)", {}, None),
        ("!(body.label == 'legit')", {}, None),
        ("!(body.label == 'legit')", {"label": "fraud"}, True),
        ("body.label == 'a' || body.label == 'b'", {"label": "b"}, True),
        ("body.label == 'a' || body.label == 'b'", {"label": "c"}, False),
        ("body.label == 'a' || body.label == 'b'", {}, None),
        ("body.days > `30` || body.status == 'default'", {"days": 3, "status": "default"}, True),
        ("body.days > `30` || body.status == 'default'", {"days": 3}, None),
        ("body.label == 'a' && body.sum > `3`", {}, None),
        ("body.label == 'a' && body.sum > `3`", {"label": "a"}, None),
        ("body.label == 'a' && body.sum > `3`", {"label": "b"}, False),
        ("body.label == 'a' && body.sum > `3`", {"label": "a", "sum": 4}, True),
        (
            "body[*].[label == 'a' || label == 'b'][]",
            [{"label": "b"}, {}, {"label": "c"}],
            [True, None, False],
        ),
        ("!(body.a) || !(body.b)", {"a": True, "b": False}, True),
        ("!(body.a || body.b)", {"a": False, "b": True}, False),
        ("starts_with(body.label, 'fraud')", {}, None),
        ("ends_with(body.label, 'fraud')", {"label": "no fraud"}, True),
        ("body[*].contains(['fraud'], label)", [{"label": "fraud"}, {}], [True, None]),
        ("!(body.label)", {"label": False}, True),
        ("not_null(body.label, body.y)", {"label": False, "y": 1}, False),
        ("length(body[*].label)", [{"label": 1}, {}], 1),
        ("body[*].label | [0]", [{}, {"label": 1}], 1),
    ],
)
def test_false_and_places_are_kept(expression: str, body: Any, found: Any) -> None:
    """Nothing of a row is lost to `||` or to a list; what is missing is no label.

    Met in kyverno#9743, kyverno/website#1164, jmespath.py#83 and #281 (0.0), jqlang/jq#2042 and
    #1275 (empty texts), lowdefy#819.
    """
    assert Selector(expression, "label").select(Event(body)._asdict()) == found


@pytest.mark.parametrize("expression", ["!body.legit", "body.a && !body.b.c", "body.a[?!b.c].d"])
@pytest.mark.parametrize("field", ["label", "when"])
def test_a_negation_that_is_always_null_is_refused(expression: str, field: str) -> None:
    """JMESPath reads ``!a.b`` as ``(!a).b``: no row would have a label, and no event be taken."""
    with pytest.raises(InvalidInputError, match=r"is always null: .* write !\(a\.b\) for !a\.b"):
        Selector(expression, field)


def test_a_list_is_not_compared_with_one_value() -> None:
    """It would be one false for all rows."""
    selector = Selector("body[*].label == 'fraud'", "label")
    with pytest.raises(InvalidInputError, match="compares a list with one value"):
        selector.select(Event([{"label": "fraud"}, {"label": "x"}])._asdict())


def test_conditions_are_the_librarys() -> None:
    """There false is false."""
    document = Event({"a": False, "b": True})._asdict()
    assert Selector("body.a || body.b", "when").select(document) is True
    assert Selector("body.c == `1`", "when").select(document) is False
