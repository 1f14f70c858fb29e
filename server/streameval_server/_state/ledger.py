"""What the parts of a stream write down together.

They share it and it knows none of them: so nothing of a stream refers to what owns it, and
one that is deleted leaves memory at once, not when Python next looks for cycles.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class StreamUsage:
    """One stream's.

    Attributes
    ----------
    revision : int
        Log revision that is being applied.
    memory_bytes : int
        Memory that what has been counted takes, at most about; whoever changes a part
        adds to it.
    """

    revision: int
    memory_bytes: int = 0
