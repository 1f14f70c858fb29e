"""Addresses of servers, as gRPC writes them."""

from __future__ import annotations

import ipaddress
import re

from streameval._common.errors import InvalidInputError

DEFAULT_PORT = 50051

_GRPC_SCHEMES = re.compile(r"(unix|unix-abstract|dns|ipv4|ipv6|vsock|xds):")
"""What begins a target of gRPC that is no host and port alone."""

_HOST_AND_PORT = re.compile(r"([\w.-]+|\[[0-9A-Fa-f:.]+(?:%[\w.-]+)?\])(?::([0-9]{0,5}))?")

_URL_SCHEMES = {"http": False, "grpc": False, "https": True, "grpcs": True}
"""The beginnings of URLs that mean a server, and whether they ask for TLS."""


def read_address(text: str, source: str) -> tuple[str, bool]:
    """Return the ``host:port`` that a text means, and whether it asks for TLS.

    A URL means its host and port, and without a port the default one. Names that gRPC resolves
    itself (``unix:``, ``dns:``, ...) stay as they are.

    Parameters
    ----------
    text : str
    source : str
        The option, variable or argument that holds the address, for messages.

    Raises
    ------
    InvalidInputError
        For a text that has no host, or whose port is no port.

    Examples
    --------
    >>> read_address("eval.example.org", "--server")
    ('eval.example.org:50051', False)
    >>> read_address("https://[::1]:7/#/fraud", "--server")
    ('[::1]:7', True)
    """
    if _GRPC_SCHEMES.match(text):
        return text, False
    scheme, is_url, rest = text.strip().partition("://")
    if is_url and scheme.lower() not in _URL_SCHEMES:
        message = f"{source} must be HOST:PORT, got {text!r:.80}: leave out {scheme:.20}://"
        raise InvalidInputError(message, field="address")
    location = rest if is_url else scheme
    target = re.split("[/?#]", location, maxsplit=1)[0]
    is_more = target != location and not is_url
    if target.count(":") > 1 and not target.startswith("["):
        target = f"[{target}]"  # an IPv6 address without a port
    found = _HOST_AND_PORT.fullmatch(target)
    port = int(found[2] or DEFAULT_PORT) if found is not None else 0
    if found is None or not 0 < port < 1 << 16 or is_more:
        given = f"{source} " if source.startswith("--") else ""
        example = f"for instance {given}127.0.0.1:{DEFAULT_PORT}"
        message = f"{source} must be HOST:PORT, got {text!r:.80}: {example}"
        raise InvalidInputError(message, field="address")
    return f"{found[1].lower()}:{port}", bool(is_url) and _URL_SCHEMES[scheme.lower()]


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
