"""Public names of a package whose modules are imported when a name is first used.

``streameval health`` imports the package for its version and errors only. An eager
import of every public class would load numpy and all metrics: five times the time and
twice the memory of the check itself.
"""

from __future__ import annotations

import importlib
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from streameval._common.extras import needs_extra

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def lazy_exports(
    package: str, exports: Mapping[str, str], *, extra: str | None = None
) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package: it imports a public name on first use.

    Later uses find the name in the package itself and do not call the function.

    Parameters
    ----------
    package : str
        The package's ``__name__``.
    exports : mapping of str to str
        Each public name, and the module that defines it; a public module names itself.
    extra : str, optional
        The extra that the package needs, for the error where it is not installed.

    Examples
    --------
    >>> getattribute = lazy_exports("streameval", {"Interval": "streameval._uncertainty.interval"})
    >>> getattribute("Interval").__name__
    'Interval'
    >>> getattribute("Intervall")
    Traceback (most recent call last):
    AttributeError: module 'streameval' has no attribute 'Intervall'
    """

    def __getattr__(name: str) -> Any:  # noqa: N807 - the hook of modules
        if name not in exports:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with nullcontext() if extra is None else needs_extra(extra):
            module = importlib.import_module(exports[name])
        value = module if module.__name__ == f"{package}.{name}" else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    return __getattr__
