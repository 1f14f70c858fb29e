"""Selectors: JMESPath over the document of an event: its body, headers, attributes, resource.

Plain paths, such as ``body.outputs[0].data`` and ``body.id || headers.id``, are what most
selectors are: they become functions, which do without the library's interpreter. Every other
expression is evaluated by the library.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import jmespath
from jmespath import functions
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
        service may log the predicted class beside its probability.
        """
        schema = _field("schema", _field("bento_meta", record))
        names = [
            (not str(_field("type", each)).startswith("numerical"), place, name)
            for place, (name, each) in enumerate(schema.items() if isinstance(schema, dict) else ())
            if _field("role", each) == role
        ]
        return _field(min(names)[2], record) if names else None


_OPTIONS = jmespath.Options(custom_functions=_Functions())


def plain_path(node: Mapping[str, Any]) -> Callable[[Any], Any] | None:
    """Return a parsed expression of fields, places and ``||`` as a function; None for others."""
    steps = _steps(node)
    if steps is not None:
        return partial(_walk, steps)
    kind, children = node["type"], node["children"]
    if kind not in ("subexpression", "index_expression", "or_expression"):
        return None
    parts = [part for part in map(plain_path, children) if part is not None]
    if len(parts) < len(children):
        return None
    return partial(_either if kind == "or_expression" else _along, parts)


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
    """Return the first that is not empty, as JMESPath has it: 0 is a value."""
    found = None
    for choice in choices:
        found = choice(value)
        if not (found is None or found is False or found in ("", [], {})):
            break
    return found


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
        When the expression is not JMESPath.
    """

    __slots__ = ("_compiled", "_field", "expression", "select")

    def __init__(self, expression: object, field: str) -> None:
        self._field = field
        if not isinstance(expression, str) or not expression.strip():
            message = f"{field} must be a JMESPath expression, got {shown(expression)}"
            raise InvalidInputError(message, field=field)
        self.expression = expression
        try:
            self._compiled = jmespath.compile(expression)
        except JMESPathError as error:
            problem = str(error).partition("\n")[0]
            message = f"{field} is not a JMESPath expression: {problem}"
            raise InvalidInputError(message, field=field) from None
        self.select: Callable[[Mapping[str, Any]], Any] = (
            plain_path(self._compiled.parsed) or self._evaluate
        )

    def _evaluate(self, document: Mapping[str, Any]) -> Any:
        try:
            return self._compiled.search(document, _OPTIONS)
        except JMESPathError as error:
            # The library quotes the payload's values: long ones, and halves of surrogate pairs.
            problem = truncated(str(error).partition("\n")[0]).encode(errors="replace").decode()
            message = f"{self._field} {self.expression!r} cannot be applied: {problem}"
            raise InvalidInputError(message, field=self._field) from None
