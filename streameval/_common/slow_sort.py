"""Keeps the server's process off numpy's AVX-512 sort on processors on which it is slow.

On AMD's Zen 4 the compressing stores of AVX-512 are slow, so numpy's AVX-512 sort takes five
times as long as its AVX2 sort (numpy/x86-simd-sort#6). numpy chooses when it is imported, by
features that only the environment can disable, and the names of the features are its own: a
program asks numpy for them, and then starts again without them.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

VARIABLE = "NPY_DISABLE_CPU_FEATURES"

_ZEN_4 = ("AuthenticAMD", "25")
"""Vendor and family of Zen 3 and Zen 4, of which only the latter has AVX-512."""

_AVX_512 = ("X86_V4", "AVX512")
"""How numpy's names of what it needs begin, since 2.4 and before."""

_PROCESSORS = Path("/proc/cpuinfo")
_MAX_PROCESSOR_BYTES = 4_096
"""Enough for the first processor; the file has an entry for each, which take time to make."""


def restart_with_fast_sort() -> None:
    """Start this program again where numpy sorts faster without some features of the processor.

    For a program that begins, before it has read or written anything: process id, arguments and
    open files stay. Returns if nothing is to be gained, if the variable is set, to whatever, and
    if `sys.argv` has not the arguments that the process was started with, as where another program
    calls the command. 0.1 s on a Zen 4, below 1 ms elsewhere.
    """
    is_own_process = sys.executable and sys.orig_argv[-len(sys.argv) :][1:] == sys.argv[1:]
    if VARIABLE in os.environ or not is_own_process:
        return
    names = slow_sort_features()
    if names:
        os.environ[VARIABLE] = names
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - itself


def slow_sort_features() -> str:
    """Return the features that numpy should not use on this machine, as `VARIABLE` has them."""
    try:
        with _PROCESSORS.open("rb") as file:
            processor = file.read(_MAX_PROCESSOR_BYTES).decode(errors="replace")
    except OSError:
        return ""
    if not _is_zen_4(processor):
        return ""
    from numpy import __version__, show_config  # noqa: PLC0415 - most processors need no look at it

    if __version__.startswith(
        "1."
    ):  # it has no AVX2 sort, and its sort for any processor is slower
        return ""
    extensions = (show_config(mode="dicts") or {}).get("SIMD Extensions", {})
    names = [name for name in extensions.get("found", ()) if name.startswith(_AVX_512)]
    return " ".join(names)


def _is_zen_4(processor: str) -> bool:
    r"""Return whether the first processor of /proc/cpuinfo is one.

    >>> _is_zen_4("vendor_id : AuthenticAMD\ncpu family : 25\n\nprocessor : 1\n")
    True
    >>> _is_zen_4("vendor_id : GenuineIntel\ncpu family : 6\n")
    False
    """
    fields: dict[str, str] = {}
    for line in processor.split("\n\n", 1)[0].splitlines():
        name, _, value = line.partition(":")
        fields[name.strip()] = value.strip()
    return (fields.get("vendor_id"), fields.get("cpu family")) == _ZEN_4
