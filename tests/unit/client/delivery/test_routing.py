"""Which server has a stream: balanced, stable, and the same for all clients."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from streameval import InvalidInputError
from streameval.client import Client, UnavailableError
from streameval.client._delivery.routing import Places, check_addresses, owner

SERVERS = [f"eval-{i}.example:50051" for i in range(5)]
STREAMS = [f"model-{i}/v{i % 7}" for i in range(20_000)]


def test_streams_are_balanced() -> None:
    """Each of n servers has 1/n of the streams, within five standard deviations."""
    share = Counter(owner(stream, SERVERS) for stream in STREAMS)
    expected = len(STREAMS) / len(SERVERS)
    spread = (expected * (1 - 1 / len(SERVERS))) ** 0.5
    assert set(share) == set(SERVERS)
    assert all(abs(count - expected) < 5 * spread for count in share.values()), share


def test_order_of_addresses_makes_no_difference() -> None:
    """Clients with the same addresses in any order choose the same server."""
    shuffled = random.Random(1).sample(SERVERS, len(SERVERS))
    assert all(owner(s, SERVERS) == owner(s, shuffled) for s in STREAMS[:1000])


def test_server_that_joins_takes_only_what_it_wins() -> None:
    """A sixth server gets about a sixth; nothing moves between the others."""
    after = {stream: owner(stream, [*SERVERS, "eval-5.example:50051"]) for stream in STREAMS}
    moved = [stream for stream in STREAMS if after[stream] != owner(stream, SERVERS)]
    assert {after[stream] for stream in moved} == {"eval-5.example:50051"}
    assert abs(len(moved) - len(STREAMS) / 6) < 5 * (len(STREAMS) * 5 / 36) ** 0.5


def test_server_that_leaves_moves_only_what_it_had() -> None:
    """The streams of the others stay where they are."""
    left = SERVERS[1:]
    for stream in STREAMS:
        before = owner(stream, SERVERS)
        assert before == SERVERS[0] or owner(stream, left) == before


def test_hash_is_part_of_the_interface() -> None:
    """Clients of all versions must agree: these assignments never change."""
    servers = ["eval-1:50051", "eval-2:50051", "eval-3:50051"]
    found = [owner(stream, servers) for stream in ("fraud/v1", "fraud/v2", "fraud/v3", "fraud/v4")]
    assert [address[5] for address in found] == ["2", "1", "3", "3"]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ([], r"^give at least one address, got none$"),
        (["a:1", ""], r"^address must be HOST:PORT, got '': for instance 127\.0\.0\.1:50051$"),
        ("ftp://a", r"^address must be HOST:PORT, got 'ftp://a': leave out ftp://$"),
        (["a", "https://a:50051/"], r"^each address must be given once, got 'a:50051' twice$"),
        (["a:1", 7], r"^address must be text like 'localhost:50051', got 7$"),
        (["a:1", "b:1", "a:1"], r"^each address must be given once, got 'a:1' twice$"),
    ],
)
def test_refused_addresses(given: object, text: str) -> None:
    """Duplicates, empty lists and other types are refused."""
    with pytest.raises(InvalidInputError, match=text) as caught:
        Client(given)  # type: ignore[arg-type]
    assert caught.value.field == "address"


def test_one_address_stays_one() -> None:
    """A string is one address, not a sequence of characters."""
    assert check_addresses("localhost:1") == {"localhost:1": False}


def test_an_address_of_a_client_is_read_as_the_commands_read_it() -> None:
    """A URL means its host and port, https:// asks for TLS: a token may travel."""
    with Client(["https://Eval/#/fraud", "https://[::1]:7"], token="sv1.x.y") as client:
        assert client.addresses == ("eval:50051", "[::1]:7")
    with pytest.raises(InvalidInputError, match="plain text to eval:50051"):
        Client(["https://other", "http://eval"], token="sv1.x.y")


class Servers:
    """Stands in for servers that have streams, or are away."""

    def __init__(self, streams: dict[str, str]) -> None:
        self.streams = streams
        self.away: set[str] = set()
        self.asked: list[str] = []
        self.now_s = 100.0

    def has_stream(self, address: str, stream: str) -> bool:
        self.asked.append(address)
        if address in self.away:
            raise UnavailableError("away")
        return self.streams.get(stream) == address

    def places(self) -> Places:
        return Places(SERVERS, self.has_stream, now_s=lambda: self.now_s)


def test_a_stream_stays_where_it_is_and_is_looked_up_once() -> None:
    """The owner is asked first; a stream that no server has goes to its owner."""
    first = owner("s", SERVERS)
    other = next(each for each in SERVERS if each != first)
    for place, most in ((first, 1), (other, len(SERVERS)), (None, len(SERVERS))):
        servers = Servers({} if place is None else {"s": place})
        places = servers.places()
        assert [places.server_of("s") for _ in range(3)] == [place or first] * 3
        assert servers.asked[0] == first
        assert len(servers.asked) <= most


def test_a_server_that_is_away_is_asked_again_later() -> None:
    """Until it answers, a stream that no other server has is taken for new, and not remembered."""
    first = owner("s", SERVERS)
    other = next(each for each in SERVERS if each != first)
    servers = Servers({"s": other})
    servers.away.add(other)
    places = servers.places()
    assert [places.server_of("s") for _ in range(2)] == [first] * 2
    assert servers.asked.count(other) == 1
    servers.away.clear()
    servers.now_s += 10
    assert places.server_of("s") == other


def test_one_server_is_never_asked() -> None:
    """Its streams are on it."""
    servers = Servers({})
    assert Places(["a:1"], servers.has_stream).server_of("s") == "a:1"
    assert not servers.asked
