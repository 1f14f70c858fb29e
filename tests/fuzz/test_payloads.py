"""Payloads changed at random: each way in refuses or reads them, by every mapping, and soon."""

from __future__ import annotations

import random
import time

import pytest

pytest.importorskip("jmespath", reason="needs the extra payloads")
pytest.importorskip("opentelemetry.proto", reason="needs the extra server")
from tests.fuzz.payload_attacks import attacks
from tests.fuzz.payload_ways import MAPPINGS, read

SEEDS = list(attacks(3_000))
CHANGES = 12
"""Of each attack, by the next mapping each time."""
TOKENS = [
    *(b"[", b"]", b"{", b"}", b'"', b"\\u", b",", b":", b"null", b"NaN", b"-", b"1e999", b"\xff"),
    *(b"9" * 5_000, b"[" * 2_000, b'"shape":[2,3]', b'"data":', b"\x00", b"\x0a\x00", b"\x32\xff"),
]


def changed(body: bytes, chance: random.Random) -> bytes:
    """Return a body with some places overwritten, cut, repeated, or with a token in them."""
    data = bytearray(body)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(data) + 1)
        end = min(len(data), at + chance.choice([0, 1, 2, 8, 200]))
        piece = chance.choice([chance.choice(TOKENS), chance.randbytes(3), data[at:end] * 3, b""])
        data[at:end] = piece
    return bytes(data)


@pytest.mark.parametrize("place", range(len(SEEDS)), ids=[f"{e.way}-{e.name}" for e in SEEDS])
def test_a_changed_payload_is_read_or_refused(place: int) -> None:
    """No exception comes out of a way in but its refusals; nor does it take long."""
    attack, chance = SEEDS[place], random.Random(place)
    names = list(MAPPINGS)
    for number in range(CHANGES):
        body = changed(attack.body, chance) if number else attack.body
        mapping = MAPPINGS[names[(place + number) % len(names)]]
        began = time.thread_time()
        assert read(attack.way, attack.headers, body, mapping) != "refused: "
        assert time.thread_time() - began < 1.5, (body, mapping)
