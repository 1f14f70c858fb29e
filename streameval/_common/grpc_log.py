"""Keeps gRPC's own lines off a process's stderr."""

from __future__ import annotations

import os

VARIABLE = "GRPC_VERBOSITY"


def silence_grpc_log() -> None:
    """Stop gRPC's C code from writing to stderr, unless GRPC_VERBOSITY says what it writes.

    It writes past Python's log: a line for each failed handshake, so that any stranger could
    fill the log, in a format of its own. Whatever concerns a call is in the call's status as
    well. gRPC reads the variable when it is imported, so a program calls this before.
    """
    os.environ.setdefault(VARIABLE, "NONE")
