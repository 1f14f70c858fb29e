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
    from collections.abc import Callable, Mapping, Sequence


def lazy_exports(
    package: str, exports: Mapping[str, Sequence[str]], *, extra: str | None = None
) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package: it imports a public name on first use.

    Later uses find the name in the package itself and do not call the function.

    Parameters
    ----------
    package : str
        The package's ``__name__``.
    exports : mapping of str to sequence of str
        Each module, and the public names that it defines; of the package itself, its modules.
    extra : str, optional
        The extra that the package needs, for the error where it is not installed.

    Examples
    --------
    >>> getattribute = lazy_exports("streameval", {"streameval._snapshot": ["Snapshot"]})
    >>> getattribute("Snapshot").__name__
    'Snapshot'
    >>> getattribute("Snapshots")
    Traceback (most recent call last):
    AttributeError: module 'streameval' has no attribute 'Snapshots'
    """
    modules = {name: module for module, names in exports.items() for name in names}

    def __getattr__(name: str) -> Any:  # noqa: N807 - the hook of modules
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with nullcontext() if extra is None else needs_extra(extra):
            if modules[name] == package:
                return importlib.import_module(f"{package}.{name}")
            value = getattr(importlib.import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return __getattr__
