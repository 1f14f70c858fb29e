"""Selectors: JMESPath over the document ``{"body": ..., "headers": {...}}`` of an event.

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
from streameval._common.values import shown
from streameval.payloads._body import parse_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from streameval.payloads._event import Event


class _Functions(functions.Functions):
    """The functions of JMESPath, and ours."""

    @functions.signature({"types": ["string", "null"]})
    def _func_parse_json(self, text: str | None) -> Any:
        """Return the value of JSON that is kept as text."""
        return None if text is None else parse_json(text)


_OPTIONS = jmespath.Options(custom_functions=_Functions())


def plain_path(node: Mapping[str, Any]) -> Callable[[Any], Any] | None:
    """Return a parsed expression of fields, places and ``||`` as a function; None for others."""
    kind, children = node["type"], node["children"]
    if kind == "field":
        return partial(_field, node["value"])
    if kind == "index":
        return partial(_element, node["value"])
    if kind not in ("subexpression", "index_expression", "or_expression"):
        return None
    steps = [step for step in map(plain_path, children) if step is not None]
    if len(steps) < len(children):
        return None
    return partial(_either if kind == "or_expression" else _along, steps)


def _field(name: str, value: Any) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _element(place: int, value: Any) -> Any:
    if not isinstance(value, list) or not -len(value) <= place < len(value):
        return None
    return value[place]


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

    Raises
    ------
    InvalidInputError
        When the expression is not JMESPath.
    """

    __slots__ = ("_compiled", "_field", "_plain", "expression")

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
        self._plain = plain_path(self._compiled.parsed)

    def select(self, event: Event) -> Any:
        """Return what the expression selects of an event; None for nothing.

        Raises
        ------
        InvalidInputError
            When a function of the expression is given another type than it takes.
        """
        document = {"body": event.body, "headers": event.headers}
        if self._plain is not None:
            return self._plain(document)
        try:
            return self._compiled.search(document, _OPTIONS)
        except JMESPathError as error:
            problem = str(error).partition("\n")[0]
            message = f"{self._field} {self.expression!r} cannot be applied: {problem}"
            raise InvalidInputError(message, field=self._field) from None
