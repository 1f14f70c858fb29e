"""Selectors: JMESPath over the document ``{"body": ..., "headers": {...}}`` of an event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jmespath
from jmespath import functions
from jmespath.exceptions import JMESPathError

from streameval._common.errors import InvalidInputError
from streameval._common.values import shown
from streameval.payloads._body import parse_json

if TYPE_CHECKING:
    from streameval.payloads._event import Event


class _Functions(functions.Functions):
    """The functions of JMESPath, and ours."""

    @functions.signature({"types": ["string", "null"]})
    def _func_parse_json(self, text: str | None) -> Any:
        """Return the value of JSON that is kept as text."""
        return None if text is None else parse_json(text)


_OPTIONS = jmespath.Options(custom_functions=_Functions())


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

    __slots__ = ("_compiled", "_field", "expression")

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

    def select(self, event: Event) -> Any:
        """Return what the expression selects of an event; None for nothing.

        Raises
        ------
        InvalidInputError
            When a function of the expression is given another type than it takes.
        """
        document = {"body": event.body, "headers": event.headers}
        try:
            return self._compiled.search(document, _OPTIONS)
        except JMESPathError as error:
            problem = str(error).partition("\n")[0]
            message = f"{self._field} {self.expression!r} cannot be applied: {problem}"
            raise InvalidInputError(message, field=self._field) from None
