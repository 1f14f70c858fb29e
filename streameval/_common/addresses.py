"""Addresses of servers, as gRPC writes them."""

from __future__ import annotations

import ipaddress


def is_local(address: str) -> bool:
    """Whether traffic to a gRPC address stays on this machine.

    Names other than localhost are not resolved: their addresses may change.

    Examples
    --------
    >>> is_local("localhost:50051"), is_local("[::1]:50051"), is_local("unix:/run/streameval")
    (True, True, True)
    >>> is_local("10.0.0.7:50051"), is_local("ipv4:127.0.0.1:1,10.0.0.7:1")
    (False, False)
    """
    scheme, _, rest = address.partition(":")
    if scheme in {"unix", "unix-abstract"}:
        return True
    targets = [address]
    if scheme in {"dns", "ipv4", "ipv6"}:
        # An authority between // and / names a DNS server.
        targets = rest.removeprefix("///").split(",")
    return all(map(_is_loopback, targets))


def _is_loopback(target: str) -> bool:
    host = target.rpartition(":")[0] if target.count(":") == 1 else target
    if target.startswith("["):
        host = target[1:].partition("]")[0]
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
