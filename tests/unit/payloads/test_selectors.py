"""Plain paths as functions: what the JMESPath library gives, for any document."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("jmespath", reason="needs the extra payloads")
import jmespath
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval.payloads import PRESETS, Event
from streameval.payloads._selectors import Selector, plain_path

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
        compiled = jmespath.compile(expression)
        path = plain_path(compiled.parsed)
        if path is None:
            continue
        found, wanted = path(document), compiled.search(document)
        assert found is wanted or (found == wanted and type(found) is type(wanted)), expression


def test_which_expressions_are_plain() -> None:
    """Paths are; what computes, filters or projects is left to the library, and so still right."""
    plain = [each for each in PLAIN if plain_path(jmespath.compile(each).parsed) is not None]
    assert plain == [each for each in PLAIN if "`" not in each]
    assert all(plain_path(jmespath.compile(each).parsed) is None for each in OTHER)
    assert Selector("length(body.a)", "score").select(Event({"a": [1, 2]})._asdict()) == 2


def test_the_paths_of_presets_are_plain() -> None:
    """All but conditions, the JSON in texts of Databricks, and BentoML's roles."""
    others = {
        (preset, key)
        for preset, keys in PRESETS.items()
        for key, value in keys.items()
        if key not in ("types", "time_unit") and plain_path(jmespath.compile(value).parsed) is None
    }
    roles = {("bentoml-otlp", key) for key in ("when", "score", "label")}
    assert others == {("databricks", "when"), ("databricks", "score"), *roles}
