"""Which of several servers has a stream: rendezvous hashing (Thaler and Ravishankar 1998).

Each server has a weight for each stream, a hash of both names, and the server with
the highest weight has the stream. All clients with the same addresses, in any
order, choose the same server without communication. With n servers each has 1/n of
the streams; a server that joins or leaves moves only the streams it gains or had.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from streameval._common.errors import InvalidInputError
from streameval._common.values import shown


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


def _weight(address: str, stream: str) -> bytes:
    # Neither name contains NUL, so different pairs hash different bytes.
    return blake2b(f"{address}\0{stream}".encode(), digest_size=8).digest()


def check_addresses(given: object) -> tuple[str, ...]:
    """Return one or several addresses as a tuple, or refuse them.

    Examples
    --------
    >>> check_addresses("localhost:50051")
    ('localhost:50051',)
    >>> check_addresses(["a:1", "a:1"])
    Traceback (most recent call last):
    streameval.InvalidInputError: each address must be given once, got 'a:1' twice
    """
    several = given if isinstance(given, Sequence) and not isinstance(given, str) else (given,)
    if not several:
        raise InvalidInputError("give at least one address, got none", field="address")
    seen: list[str] = []
    for address in several:
        if not isinstance(address, str):
            message = f"address must be text like 'localhost:50051', got {shown(address)}"
            raise InvalidInputError(message, field="address")
        if not address:
            message = "address must not be empty: give it like 'localhost:50051'"
            raise InvalidInputError(message, field="address")
        if address in seen:
            message = f"each address must be given once, got {shown(address)} twice"
            raise InvalidInputError(message, field="address")
        seen.append(address)
    return tuple(seen)
