"""Functions that take columns and options by keyword only, and name them when called otherwise.

Python reports ``add_cases(y, s)`` as "takes 1 positional argument but 3 were given",
which does not say what to write.
"""

from __future__ import annotations

import inspect
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound="Callable[..., Any]")

MISSING: Final[Any] = object()
"""The value of a required keyword that the caller did not give: see `reports_keywords`."""


def by_keyword(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function, with a TypeError for extra positional arguments that names keywords.

    Examples
    --------
    >>> @by_keyword
    ... def area(*, labels, scores): ...
    >>> area([1, 0], [0.9, 0.4])
    Traceback (most recent call last):
    TypeError: area() takes keywords: write area(labels=..., scores=...)
    """
    positional = sum(each.kind < each.VAR_POSITIONAL for each in _parameters(function))

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if len(args) > positional:
            raise keywords_error(function)
        return function(*args, **kwargs)

    return call


def reports_keywords(function: F) -> F:
    """Give required keywords the default `MISSING`, which the function itself reports.

    For methods on a hot path, where the wrapper of `by_keyword` would cost 1 to 8 % of
    a small batch. The method takes ``*columns: Never``, and raises `keywords_error` when
    there are any, or when a keyword is `MISSING`. Its signature stays as it is declared.
    """
    signature = inspect.signature(function)
    shown = [each for each in _parameters(function) if each.kind != each.VAR_POSITIONAL]
    function.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
    required = {each.name: MISSING for each in _required(shown)}
    function.__kwdefaults__ = required | (function.__kwdefaults__ or {})
    return function


def keywords_error(function: Callable[..., Any]) -> TypeError:
    """Return the error that has the call to write: with the required keywords, or any of all."""
    parameters = _parameters(function)
    keywords = [each for each in parameters if each.kind == each.KEYWORD_ONLY]
    required = [f"{each.name}=..." for each in _required(parameters)]
    names = [each.name for each in parameters if each.kind < each.VAR_POSITIONAL]
    given = [name for name in names if name not in {"self", "cls"}]
    call = f"{function.__name__}({', '.join([*given, *(required or [f'{keywords[0].name}=...'])])})"
    others = "" if required else ", or with " + ", ".join(f"{each.name}=" for each in keywords[1:])
    return TypeError(f"{function.__name__}() takes keywords: write {call}{others}")


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())


def _required(parameters: list[inspect.Parameter]) -> list[inspect.Parameter]:
    return [
        each
        for each in parameters
        if each.kind == each.KEYWORD_ONLY and each.default is inspect.Parameter.empty
    ]
