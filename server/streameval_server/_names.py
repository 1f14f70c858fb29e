"""Names, as the client checks them too, and numbers that the log can keep."""

from __future__ import annotations

from streameval._names import id_problem, stream_name_problem

__all__ = ["MAX_UINT", "id_problem", "stream_name_problem"]

MAX_UINT = (1 << 63) - 1
"""Largest epoch or sequence: SQLite's integers are signed."""
