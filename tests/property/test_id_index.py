"""Ids and their slots: a dict, and cells of hashes that may be the worst, against plain dicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b
from unittest.mock import patch

import numpy as np
import pytest

from streameval._joining import codec, id_cells
from streameval._joining.id_cells import IdCells
from streameval._joining.id_dict import IdDict
from streameval.kernel import IdColumn, Joiner, JoinSettings, JoinTable

S = 1_000_000

HASHES: dict[str, Callable[[bytes], int]] = {
    "of python": hash,
    "all equal": lambda _: -1,
    "of four values": lambda id_: id_[-1] % 4 - 2,
    "equal but for the leading bits": lambda id_: id_[0] << 12,
    "equal but for the low bits": lambda id_: id_[0] << 12 + 18,
}


@pytest.fixture(params=HASHES)
def hashes(request: pytest.FixtureRequest) -> Iterator[None]:
    """Hashes that are not chosen well."""
    with patch.object(id_cells, "_hash", HASHES[request.param]):
        yield


def an_id(number: int) -> bytes:
    """Return an id of 1 to 128 bytes: short, long, with zeros in it and behind it, not ASCII."""
    forms = (
        b"%d" % number,
        b"%d\0" % number,
        b"%d\0\0" % (number - 1),
        b"\0%d" % number,
        b"%016d" % number,
        b"%017d" % number,
        b"%016d\0" % (number - 1),
        f"é{number}ß\N{GRINNING FACE}".encode(),
        b"%d-" % number + b"x" * (128 - len(b"%d-" % number)),
        b"\0" * (number % 40 + 1) if number < 200 else b"%d" % number,
    )
    return forms[number % len(forms)]


def ids_of(numbers: np.ndarray) -> list[bytes]:
    """Return distinct ids."""
    return list(dict.fromkeys(an_id(number) for number in numbers.tolist()))


class Model:
    """Ids by slot, and slots by id."""

    def __init__(self) -> None:
        self.kept: dict[int, bytes] = {}
        self.found: dict[bytes, int] = {}

    def check(self, index: IdDict | IdCells, sought: list[bytes]) -> None:
        index._check()
        assert len(index) == len(self.found)
        assert index.text_bytes == sum(map(len, self.kept.values()))
        expected = [self.found.get(id_, -1) for id_ in sought]
        assert index.find(sought).tolist() == expected
        assert [index.find_one(id_) for id_ in sought] == expected
        slots = index.used()
        assert slots.tolist() == sorted(self.kept)
        ids = [self.kept[slot] for slot in slots.tolist()]
        assert index.at(slots) == ids
        assert index.encoded(slots) == (bytes(map(len, ids)), b"".join(ids))
        ordered = [ids[at] for at in index.order(slots).tolist()]
        assert ordered == sorted(ids)
        assert index.taken(slots).at(np.arange(slots.size)[::-1]) == ids[::-1]


@pytest.mark.usefixtures("hashes")
@pytest.mark.parametrize("most", [6, 60])
def test_seeded_actors_in_cells(most: int) -> None:
    """Add, forget, remove, copy and find: after each step everything is as in dicts."""
    check_actors(IdCells(), most)


def test_seeded_actors_in_a_dict() -> None:
    """The same in the index of few ids."""
    check_actors(IdDict(), 20)


def check_actors(index: IdDict | IdCells, most: int) -> None:
    """Do to an index what may be done, to at most `most` ids at a time."""
    rng = np.random.default_rng(most)
    model, capacity = Model(), 0
    for step in range(60):
        new = [id_ for id_ in ids_of(rng.integers(0, 400, most)) if id_ not in model.found]
        free = [slot for slot in range(capacity) if slot not in model.kept]
        if len(free) < len(new):
            capacity += 2 * len(new)
            index.grow(capacity)
            free = [slot for slot in range(capacity) if slot not in model.kept]
        slots = rng.permutation(free)[: len(new)].astype(np.int64)
        index.add(new, slots)
        for id_, slot in zip(new, slots.tolist(), strict=True):
            model.kept[slot] = id_
            model.found[id_] = slot
        gone = ids_of(rng.integers(0, 400, most // 3))
        index.forget(gone)
        for id_ in gone:
            model.found.pop(id_, None)
        out = rng.permutation(sorted(model.kept))[: rng.integers(0, most)].astype(np.int64)
        index.remove(out)
        for slot in out.tolist():
            id_ = model.kept.pop(slot)
            if model.found.get(id_) == slot:
                del model.found[id_]
        if step % 7 == 0:
            before, index = index, index.copy()
            before.remove(before.used())
            before._check()
        model.check(index, ids_of(rng.integers(0, 500, most)))


@pytest.mark.usefixtures("hashes")
def test_many_ids_at_once_and_none_left() -> None:
    """Segments fill and are split, ids without a place are kept too, and all can go."""
    ids = ids_of(np.arange(9_000))
    index = IdCells()
    index.grow(len(ids))
    slots = np.random.default_rng(1).permutation(len(ids))
    index.add(ids[:5_000], slots[:5_000])
    index.add(ids[5_000:], slots[5_000:])
    assert index.find(ids).tolist() == slots.tolist()
    assert (index.find([b"no%d" % number for number in range(3_000)]) == -1).all()
    index.remove(slots[::2])
    assert index.find(ids[1::2]).tolist() == slots[1::2].tolist()
    assert (index.find(ids[::2]) == -1).all()
    index._check()
    index.remove(slots[1::2])
    index._check()
    assert len(index) == index.text_bytes == index._spilled_bytes == 0
    assert not index._cells.any()


def fixed_hash(id_: bytes) -> int:
    """Return a hash like Python's, the same in each process."""
    return int.from_bytes(blake2b(id_, digest_size=8).digest(), "little", signed=True)


@patch.object(id_cells, "_hash", fixed_hash)
def test_cells_take_few_bytes_and_grow_in_small_steps() -> None:
    """Segments are split one by one, and hardly any id is without a place."""
    index, steps = IdCells(), []
    index.grow(200_000)
    empty = index.memory_bytes
    for start in range(0, 200_000, 1_000):
        before = index.memory_bytes
        ids = [b"order-%06x" % number for number in range(start, start + 1_000)]
        index.add(ids, np.arange(start, start + 1_000))
        steps.append(index.memory_bytes - before)
    # A sixteenth of all that there is, at most, and a segment of 2,048 cells.
    assert max(steps) < (index.memory_bytes - empty) / 8 + 2 * 2_048 * 8
    assert index.memory_bytes - empty < 20 * 200_000
    spilled = sum(map(len, index._spilled.values()))
    assert spilled < 200_000 / 100, spilled
    index._check()


def test_a_column_has_no_more_than_its_ids() -> None:
    """What is encoded and taken is what was put, for more rows than are encoded at once."""
    ids = [b"%d" % number for number in range(70_000)]
    for some in (ids, [*ids, b"ends with zero\0"], [*ids, b"x" * 40]):
        column = IdColumn.of(some)
        slots = np.arange(len(some))
        assert column.encoded(slots) == (bytes(map(len, some)), b"".join(some))
        assert column.taken(slots[5:9]).at(np.arange(4)) == some[5:9]
        column._check()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.usefixtures("hashes")
def test_a_joiner_is_the_same_with_any_index(seed: int) -> None:
    """Effects, counters and bytes do not depend on where ids are found, at any step."""
    rng = np.random.default_rng(seed)
    settings = JoinSettings(
        40 * S,
        relabel_ttl_us=30 * S,
        max_pending=int(rng.choice([90, 10_000])),
        expired="negative" if seed % 2 else "drop",
    )
    now_us = 10**15
    plain, cells = Joiner(settings), Joiner(settings)
    with patch("streameval._joining.table._MAX_PURGED_IDS_PER_DROP", 3):
        for step in range(40):
            rows = int(rng.choice([1, 5, 40, 90]))
            # With repeats in a batch, and of batches before.
            ids = [an_id(number) for number in rng.integers(0, 300, rows).tolist()]
            now_us += int(rng.integers(0, 4)) * S
            verb = int(rng.integers(0, 5))
            made = now_us - rng.integers(0, 50, rows) * S
            scores, positives = rng.random(rows).round(2), rng.random(rows) < 0.5
            effects = []
            for joiner, most in ((plain, 10**9), (cells, int(step > 2) - 1)):
                with patch("streameval._joining.table._MAX_DICT_IDS", most):
                    if verb <= 1:
                        found = joiner.predict(ids, scores=scores, event_us=made, now_us=now_us)
                    elif verb == 2:
                        found = joiner.label(ids, positives=positives, now_us=now_us)
                    elif verb == 3:
                        full = {"scores": scores, "event_us": made}
                        found = joiner.label(ids, positives=positives, now_us=now_us, **full)
                    else:
                        found = joiner.retract(ids, now_us=now_us)
                # Those of one moment are in the order of slots, which a copy does not keep.
                columns = (found.kinds, found.event_us, found.at_us, found.scores)
                rows_found = zip(*(column.tolist() for column in columns), strict=True)
                effects.append(sorted(map(repr, rows_found)))
                joiner._check()
            assert effects[0] == effects[1]
            assert isinstance(plain.table._ids, IdDict)
            assert codec.encode_joiner(plain) == codec.encode_joiner(cells)
            assert plain.counts == cells.counts
            if step % 8 == 0:
                with patch("streameval._joining.table._MAX_DICT_IDS", 0):
                    cells = codec.decode_joiner(codec.encode_joiner(cells))
                    cells = cells.copy()
                cells._check()
    assert isinstance(cells.table._ids, IdCells)


def test_a_table_takes_cells_when_it_has_many_ids() -> None:
    """Also while dropped ids have yet to be removed, some of which are added again."""
    table = JoinTable()
    ids = ids_of(np.arange(7_500))[:7_000]
    put(table, ids, 1)
    table.drop(table.find(ids[:6_000]))
    assert isinstance(table._ids, IdDict)
    assert table._dropped
    put(table, ids[100:200], 2)
    table._check()
    more = [b"more %d" % number for number in range(9_000)]
    put(table, more, 3)
    assert isinstance(table._ids, IdCells)
    table._check()
    found = table.find(ids)
    states = np.where(found < 0, JoinTable.FREE_SLOT, table.state[found]).tolist()
    expected = [JoinTable.FREE_SLOT] * 6_000 + [1] * 1_000
    expected[100:200] = [2] * 100
    assert states == expected
    table.drop(table.find(more))
    assert table._dropped
    for start in range(0, 9_000, 90):
        put(table, more[start : start + 90], 4)
    table._check()
    assert (table.state[table.find(more)] == 4).all()


def put(table: JoinTable, ids: list[bytes], state: int) -> None:
    """Add ids in a state."""
    slots = table.add(ids)
    table.state[slots] = state
    table.schedule(slots, np.full(slots.size, 7, dtype=np.uint32))
