"""Which of several servers has a stream: rendezvous hashing (Thaler and Ravishankar 1998).

Each server has a weight for each stream, a hash of both names, and the server with
the highest weight has the stream. All clients with the same addresses, in any
order, choose the same server. With n servers each has 1/n of the streams.

A stream that another server has already stays there (`Places`): its ids wait for labels there.
So a server that joins gets new streams only, and clients with a shorter and a longer list of
servers send to the same one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from hashlib import blake2b

from streameval._common.addresses import read_address
from streameval._common.errors import InvalidInputError
from streameval._common.values import shown
from streameval.client._errors import ClientError

_log = logging.getLogger("streameval.client")

_SILENCE_S = 5.0
"""A server that did not answer is not asked for a stream again within this time."""


def owner(stream: str, addresses: Sequence[str]) -> str:
    """Return the address of the server that has a stream. O(servers), about 1 us each.

    Parameters
    ----------
    stream : str
        Name of the stream.
    addresses : sequence of str
        At least one. All clients must spell them in the same way, because the
        spelling is hashed.

    Examples
    --------
    >>> servers = ["eval-1:50051", "eval-2:50051", "eval-3:50051"]
    >>> owner("fraud/v3", servers), owner("fraud/v4", servers)
    ('eval-3:50051', 'eval-3:50051')
    """
    return max(addresses, key=lambda address: (_weight(address, stream), address))


class Places:
    """Where the streams of one client are, for as long as the client lives.

    Parameters
    ----------
    addresses : sequence of str
        At least one.
    has_stream : callable
        Asks a server, by its address, whether it has a stream; raises ClientError when there is
        no answer.
    now_s : callable
        A monotonic clock in seconds.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        has_stream: Callable[[str, str], bool],
        *,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._addresses = tuple(addresses)
        self._has_stream = has_stream
        self._now_s = now_s
        self._known: dict[str, str] = {}
        # Servers that did not answer, until when they are not asked again, and why.
        self._silent: dict[str, tuple[float, ClientError]] = {}

    def server_of(self, stream: str) -> str:
        """Return the address of the server that has a stream, or is to have it.

        With several addresses the first look-up of a stream asks its owner, and all others if
        the owner does not have it. A server that does not answer is not asked again for a while;
        where it matters, a warning says so, and the next look-up asks again.
        """
        if len(self._addresses) == 1:
            return self._addresses[0]
        place = self._known.get(stream)
        if place is not None:
            return place
        ranked = sorted(self._addresses, key=lambda each: (_weight(each, stream), each))[::-1]
        unknown = []
        for address in ranked:
            try:
                if self._asked(address, stream):
                    self._known[stream] = address
                    return address
            except ClientError as error:
                unknown.append((address, error))
        if not [address for address, _ in unknown if address != ranked[0]]:
            self._known[stream] = ranked[0]
        return ranked[0]

    def _asked(self, address: str, stream: str) -> bool:
        """Ask a server whether it has a stream. Raises ClientError without an answer."""
        until_s, error = self._silent.get(address, (0.0, None))
        if error is not None and self._now_s() < until_s:
            raise error
        try:
            found = self._has_stream(address, stream)
        except ClientError as failure:
            self._silent[address] = (self._now_s() + _SILENCE_S, failure)
            _log.warning(
                "streameval client: %s does not say whether it has stream %s, so streams that "
                "other servers do not have are taken for new, and their labels for predictions "
                "that wait there are not joined: %s",
                address,
                stream,
                failure,
            )
            raise
        self._silent.pop(address, None)
        return found


def _weight(address: str, stream: str) -> bytes:
    # Neither name contains NUL, so different pairs hash different bytes.
    return blake2b(f"{address}\0{stream}".encode(), digest_size=8).digest()


def check_addresses(given: object) -> dict[str, bool]:
    """Return one or several addresses, and whether each asks for TLS, or refuse them.

    Examples
    --------
    >>> check_addresses("https://localhost")
    {'localhost:50051': True}
    >>> check_addresses(["a:1", "a:1"])
    Traceback (most recent call last):
    streameval.InvalidInputError: each address must be given once, got 'a:1' twice
    """
    several = given if isinstance(given, Sequence) and not isinstance(given, str) else (given,)
    if not several:
        raise InvalidInputError("give at least one address, got none", field="address")
    found: dict[str, bool] = {}
    for each in several:
        if not isinstance(each, str):
            message = f"address must be text like 'localhost:50051', got {shown(each)}"
            raise InvalidInputError(message, field="address")
        address, is_https = read_address(each, "address")
        if address in found:
            message = f"each address must be given once, got {shown(address)} twice"
            raise InvalidInputError(message, field="address")
        found[address] = is_https
    return found
