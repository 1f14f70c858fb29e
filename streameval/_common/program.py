"""What a program does first, before it imports gRPC or numpy."""

from __future__ import annotations

import os

from streameval._common.slow_sort import restart_with_fast_sort

VARIABLE = "GRPC_VERBOSITY"


def begin_program(*, sorts: bool) -> None:
    """Stop gRPC's own lines, and start again where numpy sorts faster without some features.

    gRPC's C code writes past Python's log: a line for each failed handshake, so that any stranger
    could fill the log, in a format of its own. Whatever concerns a call is in the call's status
    as well. gRPC reads GRPC_VERBOSITY when it is imported; a value that is set stays.

    Parameters
    ----------
    sorts : bool
        Whether the program sorts much: see `restart_with_fast_sort`.
    """
    os.environ.setdefault(VARIABLE, "NONE")
    if sorts:
        restart_with_fast_sort()
