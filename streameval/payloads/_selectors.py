"""Selectors: JMESPath over the document of an event: its body, headers, attributes, resource.

Plain paths, such as ``body.outputs[0].data`` and ``body.id || headers.id``, are what most
selectors are: they become functions, which do without the library's interpreter. Every other
expression is evaluated by the library, in three places not by its rules, since a value and a row
must not be lost: false is a value to ``||``, ``[*]`` keeps the places of rows that lack a value,
and a label that asks a question of what is missing is none: ``a == 'b' || a == 'c'`` is a question,
true if either is. Conditions (``when``,
``[?...]``) are JMESPath's own.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import jmespath
from jmespath import functions, visitor
from jmespath.exceptions import JMESPathError

from streameval._common.errors import InvalidInputError
from streameval._common.values import shown, truncated
from streameval.payloads._body import parse_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class _Functions(functions.Functions):
    """The functions of JMESPath, and ours."""

    @functions.signature({"types": ["string", "null"]})
    def _func_parse_json(self, text: str | None) -> Any:
        """Return the value of JSON that is kept as text."""
        if text is None:
            return None
        try:
            return parse_json(text)
        except InvalidInputError:
            message = f"parse_json was given what is not JSON: {shown(text)}"
            raise InvalidInputError(message, field="body") from None

    @functions.signature({"types": []}, {"types": ["string"]})
    def _func_of_role(self, record: Any, role: str) -> Any:
        """Return what a record of BentoML's monitoring logged in a role; None for nothing.

        Its ``bento_meta.schema`` has a role and a type for each name. Numbers come first: a
        service may log both the predicted class and its probability.
        """
        schema = _field("schema", _field("bento_meta", record))
        names = [
            (not str(_field("type", each)).startswith("numerical"), place, name)
            for place, (name, each) in enumerate(schema.items() if isinstance(schema, dict) else ())
            if _field("role", each) == role
        ]
        return _field(min(names)[2], record) if names else None


_OPTIONS = jmespath.Options(custom_functions=_Functions())


_ALIKE = frozenset({"subexpression", "index_expression", "multi_select_list", "multi_select_dict"})
"""Nodes whose children's values are the values of rows, where their own is."""

_PROJECTIONS = frozenset({"projection", "value_projection", "filter_projection"})


def _row_values(node: Mapping[str, Any], *, keeps_places: bool, is_label: bool) -> dict[str, Any]:
    """Return a parsed expression whose value belongs to rows, with the nodes of `_RowValues`.

    A list loses its places in a pipe or in a function, which take it as JMESPath has it.
    """
    kind, children = node["type"], node["children"]
    reads: list[bool | None] = [None] * len(children)  # None: a condition, as it is
    if kind in _ALIKE or kind in ("or_expression", "key_val_pair"):
        reads = [keeps_places] * len(children)
    elif kind in _PROJECTIONS:
        reads[:2] = keeps_places, keeps_places
    elif kind in ("pipe", "and_expression"):
        reads[-1] = keeps_places
        reads[0] = False if kind == "pipe" else None
    elif kind in ("function_expression", "expref", "comparator", "flatten"):
        reads = [False] * len(children)
    asks = is_label and _asks(node)
    if asks and (kind != "not_expression" or _asks(children[0])):
        reads = [False] * len(children)
    if kind == "or_expression" and not asks:
        kind = "first_value"
    elif kind in _PROJECTIONS and keeps_places:
        kind = f"row_{kind}"
    changed = [
        child if reads_as is None else _row_values(child, keeps_places=reads_as, is_label=is_label)
        for child, reads_as in zip(children, reads, strict=True)
    ]
    found = {**node, "type": kind, "children": changed}
    return {"type": "known", "children": [found]} if asks else found


def _asks(node: Mapping[str, Any]) -> bool:
    """Whether an expression is true or false of values, of which null is none it names."""
    kind, children = node["type"], node["children"]
    if kind in ("or_expression", "and_expression"):
        return _asks(children[0])
    if kind == "function_expression":
        return node["value"] in ("contains", "starts_with", "ends_with")
    names_null = any(each["type"] == "literal" and each["value"] is None for each in children)
    return kind in ("comparator", "not_expression") and not names_null


def _cuts_negation(node: Mapping[str, Any]) -> bool:
    """Whether an expression has ``!a.b``, which JMESPath takes as ``(!a).b``: always null."""
    children = node["children"]
    cuts = node["type"] == "subexpression" and children[0]["type"] == "not_expression"
    return cuts or any(map(_cuts_negation, children))


def _is_true(value: Any) -> bool:
    """Whether JMESPath takes a value as true: 0 is, what is empty is not."""
    return not (value is None or value is False or value in ("", [], {}))


class _RowValues(visitor.TreeInterpreter):
    """Evaluates the nodes that `_row_values` makes, all others as the library does."""

    def visit_first_value(self, node: Any, value: Any) -> Any:
        found = self.visit(node["children"][0], value)
        return self.visit(node["children"][1], value) if _is_absent(found) else found

    def visit_row_projection(self, node: Any, value: Any) -> Any:
        base = self.visit(node["children"][0], value)
        if not isinstance(base, list):
            return None
        return [self.visit(node["children"][1], each) for each in base]

    def visit_row_value_projection(self, node: Any, value: Any) -> Any:
        base = self.visit(node["children"][0], value)
        if not isinstance(base, dict):
            return None
        return [self.visit(node["children"][1], each) for each in base.values()]

    def visit_row_filter_projection(self, node: Any, value: Any) -> Any:
        base = self.visit(node["children"][0], value)
        if not isinstance(base, list):
            return None
        kept = [each for each in base if _is_true(self.visit(node["children"][2], each))]
        return [self.visit(node["children"][1], each) for each in kept]

    def visit_known(self, node: Any, value: Any) -> Any:
        (asked,) = node["children"]
        kind = asked["type"]
        found = [self.visit(each, value) for each in asked["children"]]
        if kind == "or_expression" and any(map(_is_true, found)):
            return True
        if kind == "and_expression" and found[0] is not None and not _is_true(found[0]):
            return False
        if any(each is None for each in found):
            return None
        if kind == "comparator" and len({isinstance(each, list) for each in found}) > 1:
            message = f"label compares a list with one value, got {shown(found[0])}"
            raise InvalidInputError(
                f"{message}: compare in each row, as [*].[a == 'b'][]", field="label"
            )
        literals = [{"type": "literal", "value": each, "children": []} for each in found]
        known: Any = {**asked, "children": literals}
        return self.visit(known, value)


def plain_path(node: Mapping[str, Any]) -> Callable[[Any], Any] | None:
    """Return an expression of fields, places, lists and ``||`` as a function; None for others."""
    steps = _steps(node)
    if steps is not None:
        return partial(_walk, steps)
    kind, children = node["type"], node["children"]
    if kind not in _PLAIN:
        return None
    parts = [part for part in map(plain_path, children) if part is not None]
    if len(parts) < len(children):
        return None
    return partial(_PLAIN[kind], parts)


def _steps(node: Mapping[str, Any]) -> tuple[str | int, ...] | None:
    """Return the fields and places of a path without ``||``; None for other expressions."""
    if node["type"] in ("field", "index"):
        return (node["value"],)
    if node["type"] not in ("subexpression", "index_expression"):
        return None
    steps: tuple[str | int, ...] = ()
    for child in node["children"]:
        found = _steps(child)
        if found is None:
            return None
        steps += found
    return steps


def _walk(steps: Sequence[str | int], value: Any) -> Any:
    for step in steps:
        if isinstance(value, dict):
            value = value.get(step)  # a place is no key: those are texts
        elif isinstance(value, list) and isinstance(step, int) and -len(value) <= step < len(value):
            value = value[step]
        else:
            return None
    return value


def _field(name: str, value: Any) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _along(steps: Sequence[Callable[[Any], Any]], value: Any) -> Any:
    for step in steps:
        value = step(value)
    return value


def _either(choices: Sequence[Callable[[Any], Any]], value: Any) -> Any:
    """Return the first that is a value, else the last."""
    found = None
    for choice in choices:
        found = choice(value)
        if not _is_absent(found):
            break
    return found


def _list(parts: Sequence[Callable[[Any], Any]], value: Any) -> Any:
    return None if value is None else [part(value) for part in parts]


_PLAIN = {
    "subexpression": _along,
    "index_expression": _along,
    "first_value": _either,
    "multi_select_list": _list,
}
"""What evaluates the nodes that are plain if their children are."""


def _is_absent(value: Any) -> bool:
    """Whether a value is none: 0 and false are values, rows without any are not."""
    if isinstance(value, list):
        return all(each is None for each in value)
    return value is None or value in ("", {})


class Selector:
    """A compiled expression.

    Parameters
    ----------
    expression : str
    field : str
        The key of the mapping that has it, for errors.

    Attributes
    ----------
    select : callable
        Returns what the expression selects of an event's document; None for nothing. Raises
        InvalidInputError when a function of the expression is given another type than it takes.

    Raises
    ------
    InvalidInputError
        When the expression is not JMESPath, or has ``!a.b``.
    """

    __slots__ = ("_field", "_parsed", "expression", "select")

    def __init__(self, expression: object, field: str) -> None:
        self._field = field
        if not isinstance(expression, str) or not expression.strip():
            message = f"{field} must be a JMESPath expression, got {shown(expression)}"
            raise InvalidInputError(message, field=field)
        self.expression = expression
        try:
            parsed: Any = jmespath.compile(expression).parsed
        except JMESPathError as error:
            problem = str(error).partition("\n")[0]
            message = f"{field} is not a JMESPath expression: {problem}"
            raise InvalidInputError(message, field=field) from None
        if _cuts_negation(parsed):
            message = (
                f"{field} {expression!r} is always null: ! takes the name before the dot alone"
            )
            raise InvalidInputError(f"{message}: write !(a.b) for !a.b", field=field)
        if field != "when":
            parsed = _row_values(parsed, keeps_places=True, is_label=field == "label")
        self._parsed = parsed
        self.select: Callable[[Mapping[str, Any]], Any] = plain_path(parsed) or self._evaluate

    def _evaluate(self, document: Mapping[str, Any]) -> Any:
        try:
            return _RowValues(_OPTIONS).visit(self._parsed, document)
        except JMESPathError as error:
            # The library quotes the payload's values: long ones, and halves of surrogate pairs.
            problem = truncated(str(error).partition("\n")[0]).encode(errors="replace").decode()
            message = f"{self._field} {self.expression!r} cannot be applied: {problem}"
            raise InvalidInputError(message, field=self._field) from None
