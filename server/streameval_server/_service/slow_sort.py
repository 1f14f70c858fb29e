"""Detects processors on which numpy's chosen sort is slow, and names the remedy.

On AMD's Zen 4 the compressing stores of AVX-512 are slow, so numpy's AVX-512 sort takes five
times as long as its AVX2 sort (numpy/x86-simd-sort#6). numpy chooses when it is imported, by
features that only the environment can disable, so a process can say so but not change it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

VARIABLE = "NPY_DISABLE_CPU_FEATURES"

_ZEN_4_FAMILY = "25"
"""Of Zen 3 and Zen 4, of which only the latter has AVX-512."""


def slow_sort_advice() -> str | None:
    """Return what to set on this machine before the process starts; None if nothing."""
    try:
        processor = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return None
    found = np.show_config(mode="dicts") or {}
    return advice(processor, found.get("SIMD Extensions", {}).get("found", ()))


def advice(processor: str, features: Iterable[str]) -> str | None:
    r"""Return what to set, given the text of /proc/cpuinfo and the features that numpy uses.

    Examples
    --------
    >>> zen_4 = "vendor_id : AuthenticAMD\ncpu family : 25\n"
    >>> print(advice(zen_4, ["X86_V3", "X86_V4"]).split(": ")[1])
    start with NPY_DISABLE_CPU_FEATURES="X86_V4"
    >>> advice(zen_4, ["X86_V3"]) is advice("vendor_id : GenuineIntel", ["X86_V4"]) is None
    True
    """
    fields: dict[str, str] = {}
    for line in processor.split("\n\n", 1)[0].splitlines():
        name, _, value = line.partition(":")
        fields[name.strip()] = value.strip()
    slow = [each for each in features if each == "X86_V4" or each.startswith("AVX512")]
    is_zen_4 = (fields.get("vendor_id"), fields.get("cpu family")) == (
        "AuthenticAMD",
        _ZEN_4_FAMILY,
    )
    if not slow or not is_zen_4:
        return None
    return (
        "numpy sorts five times faster on this processor without AVX-512: start with "
        f'{VARIABLE}="{" ".join(slow)}"'
    )
