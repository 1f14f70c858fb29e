"""How many connections a server takes: fewer than the system lets it open files.

A process that has no descriptor left accepts no probe, cannot open its log's files, and looks
dead. So the descriptors are shared out beforehand: a reserve for the log and all else that the
server opens, some connections for probes, and the rest in equal parts for the ports.
"""

from __future__ import annotations

from typing import NamedTuple

MAX_CONNECTIONS = 1_000
"""Open connections of a port that are served."""

MAX_PROBE_CONNECTIONS = 50
"""Further ones of each HTTP port, on which only the probes are answered."""

MAX_BACKLOG = 128
"""Connections of an HTTP port that wait to be accepted: all of them are, before the limit acts."""

_RESERVED_FILES = 64
"""A server without connections has 25 open files; backups, checks and a webhook open some more."""

_MIN_CONNECTIONS = 8
"""Where the system allows fewer than these, they are tried nevertheless."""


class ConnectionLimits(NamedTuple):
    """The limits of each port.

    Attributes
    ----------
    connections : int
        That are served.
    probes : int
        Further ones of each HTTP port for probes.
    backlog : int
        Connections to an HTTP port that may wait to be accepted.
    """

    connections: int = MAX_CONNECTIONS
    probes: int = MAX_PROBE_CONNECTIONS
    backlog: int = MAX_BACKLOG


def connection_limits(http_ports: int) -> ConnectionLimits:
    """Return the limits for gRPC's port and some of HTTP.

    Where the system sets no limit on open files, or a high one, they are the highest.
    """
    try:
        import resource  # noqa: PLC0415 - not available on every platform
    except ModuleNotFoundError:
        return ConnectionLimits()
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return ConnectionLimits()
    return limits_within(allowed, http_ports)


def limits_within(open_files: int, http_ports: int) -> ConnectionLimits:
    """Return the limits for a number of open files.

    Examples
    --------
    >>> limits_within(4_096, 1), limits_within(256, 1).connections
    (ConnectionLimits(connections=1000, probes=50, backlog=128), 70)
    """
    backlog = min(MAX_BACKLOG, max(open_files // 8, 4))
    left = max(open_files - _RESERVED_FILES - backlog * http_ports, 0)
    probes = min(MAX_PROBE_CONNECTIONS, max(left // 8 // max(http_ports, 1), 2))
    connections = (left - probes * http_ports) // (1 + http_ports)
    connections = min(MAX_CONNECTIONS, max(connections, _MIN_CONNECTIONS))
    return ConnectionLimits(connections, probes, backlog)
