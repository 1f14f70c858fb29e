"""Makes the environment of the image small, and equal to the byte at each build.

Run by the image's build, in the environment's own Python. It removes files that only tests,
compilers and type checkers read, and compiles the modules that the commands and the server import.
"""

from __future__ import annotations

import compileall
import importlib
import pkgutil
import shutil
import sys
import sysconfig
from pathlib import Path
from py_compile import PycInvalidationMode

PACKAGES = Path(sysconfig.get_path("purelib"))
EXTENSIONS = ("a", "c", "h", "proto", "pxd", "pxi", "pyi", "pyx")
TESTS = ("**/tests", "numpy/_core/_simd*.so", "numpy/_core/*_tests*.so")
SOURCES = ("numpy/f2py", *(f"**/*.{each}" for each in EXTENSIONS))
# Typer shows help through rich, whose colours of code samples no text of ours uses.
LEXERS = "pygments/lexers/[!_]*.py"
HELP = ("rich.markdown", "typer.rich_utils")
OURS = ("streameval", "streameval_server")


def remove() -> None:
    """Remove what is only for tests, compilers and type checkers."""
    for pattern in (*TESTS, *SOURCES, LEXERS):
        for path in sorted(PACKAGES.glob(pattern)):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)  # in a folder that went before


def import_ours() -> None:
    """Import our modules, except parts whose extras the image lacks, and what shows help."""
    for name in (*OURS, *HELP):
        importlib.import_module(name)
    for package in OURS:
        folders = importlib.import_module(package).__path__
        # A part without its extra has nothing below it that can be imported.
        for each in pkgutil.walk_packages(folders, f"{package}.", onerror=lambda _: None):
            if each.name.endswith("__main__"):
                continue
            try:
                importlib.import_module(each.name)
            except ModuleNotFoundError as error:
                print(f"not compiled: {each.name}, {error}")


def compile_imported() -> None:
    """Compile what is imported now; the bytecode holds no time of its source."""
    paths = {getattr(module, "__file__", None) for module in [*sys.modules.values()]}
    for path in sorted(path for path in paths if path and Path(path).is_relative_to(PACKAGES)):
        if path.endswith(".py") and not compileall.compile_file(
            path, quiet=1, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH
        ):
            sys.exit(f"{path} cannot be compiled")


if __name__ == "__main__":
    sys.dont_write_bytecode = True  # an import would write the time of its source
    remove()
    import_ours()
    compile_imported()
