"""The join table: ids, due times, and memory, in any order of operations."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np

from streameval.kernel import Effect, Joiner, JoinSettings, JoinTable

DAY_US = 86_400_000_000


def entries(table: JoinTable) -> int:
    return sum(len(bucket.slots) for bucket in table._buckets.values())


def test_buckets_do_not_grow_with_what_has_left_them() -> None:
    """Buckets do not keep the entries of ids that are labelled long before their ttl."""
    joiner = Joiner(JoinSettings(30 * DAY_US, relabel_ttl_us=60_000_000))
    now_us, number = 10**15, 0
    for _ in range(400):
        ids = [b"%d" % each for each in range(number, number + 100)]
        number += 100
        event_us = np.full(100, now_us)
        joiner.predict(ids, scores=np.zeros(100), event_us=event_us, now_us=now_us)
        joiner.label(ids, positives=np.ones(100, dtype=bool), now_us=now_us)
        now_us += 1_000_000
    joiner._check()
    assert len(joiner) < 7_000
    assert entries(joiner.table) < 3 * len(joiner) + 4_096


def test_seeded_actors() -> None:
    """Add, reschedule, drop and expire ids, in columns and one by one."""
    rng = np.random.default_rng(5)
    table, dues = JoinTable(keys=1), {}
    for step in range(300):
        ids = [b"%d" % number for number in rng.choice(3000, size=40, replace=False)]
        new = [id_ for id_ in ids if id_ not in dues]
        slots = table.add(new)
        table.state[slots] = 1
        due = rng.integers(step, step + 50, size=len(new)).astype(np.uint32)
        table.schedule(slots, due)
        dues |= dict(zip(new, due.tolist(), strict=True))
        there = sorted(dues)
        moved = [there[at] for at in rng.choice(len(there), size=len(there) // 3, replace=False)]
        due = rng.integers(step, step + 500, size=len(moved)).astype(np.uint32)
        if step % 2:
            table.schedule(table.find(moved), due)
        else:
            for id_, bucket in zip(moved, due.tolist(), strict=True):
                table.schedule_one(table.find_one(id_), bucket)
        dues |= dict(zip(moved, due.tolist(), strict=True))
        gone = moved[::7]
        table.drop(table.find(gone))
        for id_ in gone:
            del dues[id_]
        slots = table.pop_due(step)
        late = [dues.pop(id_) for id_ in table.ids(slots)]
        assert late == sorted(late)
        assert all(due < step for due in late)
        table.drop(slots)
        if step % 10 == 0:
            table = table.copy()
            table._check()
        assert len(table) == len(dues)
        assert not dues or min(dues.values()) >= step
    assert entries(table) < 4 * len(table) + 4_096
    assert table.ids(table.slots_by_id()) == sorted(dues)
    assert table.memory_bytes > 100 * len(table)


def test_much_that_is_dropped_leaves_the_dict_later() -> None:
    """Until then the table does not find or count it, and its ids can be added again."""
    table = JoinTable(keys=1)
    ids = [b"%d" % number for number in range(10_000)]
    slots = table.add(ids)
    table.state[slots] = 1
    table.schedule(slots, np.full(slots.size, 7, dtype=np.uint32))
    due = table.pop_due(8)
    table.drop(due)
    assert len(table) == 0
    assert len(table._dropped) > 5_000
    table._check()
    assert table.find_one(ids[0]) == -1
    assert (table.find(ids) == -1).all()
    assert table.slots_by_id().size == 0
    again = table.add(ids[:3])
    table.state[again] = 2
    table.schedule(again, np.full(3, 9, dtype=np.uint32))
    assert table.find(ids[:4]).tolist() == [*again.tolist(), -1]
    assert table.ids(table.slots_by_id()) == sorted(ids[:3])
    table._check()
    twin = table.copy()
    twin._check()
    for number in range(10_000, 12_500):
        slot = table.add([b"%d" % number])
        table.state[slot] = 1
        table.schedule(slot, np.full(1, 9, dtype=np.uint32))
    assert table.state.size < 13_000, "new ids reuse the slots of dropped ones"
    table._check()
    assert table.find(ids[:3]).tolist() == again.tolist()


def test_an_id_that_goes_twice_before_it_is_forgotten() -> None:
    """The dict loses dropped ids later, the newest first."""
    table = JoinTable(0)
    ids = [b"%d" % number for number in range(20_000)]
    slots = table.add(ids)
    table.state[slots] = 1
    table.drop(slots)
    again = table.add(ids[:1])
    table.state[again] = 1
    table.drop(again)
    for start in range(0, 30_000, 1_000):
        table.state[table.add([b"new %d" % (start + each) for each in range(1_000)])] = 1
    assert len(table) == 30_000
    assert table.find_one(ids[0]) == -1


def test_what_buckets_take_is_known_without_going_round_them() -> None:
    """The server reads it after every batch, and there may be as many buckets as ids."""
    table = JoinTable(keys=1)
    slots = table.add([b"%d" % number for number in range(5_000)])
    table.state[slots] = 1
    empty = table.memory_bytes
    table.schedule(slots, np.arange(5_000, dtype=np.uint32))
    table._check()
    grown = table.memory_bytes - empty
    assert 200 * 5_000 < grown < 300 * 5_000, "a bucket of one slot takes 240 B"
    with patch.object(table, "_buckets", None):
        assert table.memory_bytes == empty + grown


def test_many_buckets_that_are_due_are_taken_at_once() -> None:
    """Predictions that arrive overdue, or above `max_pending`, may have a bucket each."""
    rows = 5_000
    ids = [b"%d" % number for number in range(rows)]
    event_us = 10**15 + np.random.default_rng(6).permutation(rows) * 1_000_000
    for now_us, most, left in ((10**16, 10**6, 0), (10**15, 10, 10)):
        joiner = Joiner(JoinSettings(60_000_000, relabel_ttl_us=1_000_000, max_pending=most))
        with (
            patch.object(joiner.table, "drop", wraps=joiner.table.drop) as drop,
            patch.object(joiner.table, "_pop_listed", wraps=joiner.table._pop_listed) as pop,
        ):
            effects = joiner.predict(ids, scores=np.zeros(rows), event_us=event_us, now_us=now_us)
        assert drop.call_count + pop.call_count < 10
        gone = effects.event_us[effects.kinds == Effect.EXPIRED]
        assert gone.tolist() == sorted(event_us)[: rows - left], "the oldest first"
        assert len(joiner) == left
        assert joiner.counts.expired_early == (rows - left if left else 0)
        joiner._check()


def test_a_sweep_removes_the_entries_of_those_that_made_it_begin() -> None:
    """Stale entries are counted as long as they are listed, however early buckets are swept."""
    rng = np.random.default_rng(3)
    table = JoinTable()
    with patch("streameval._joining.expiry_index._MIN_STALE_ENTRIES", 4):
        for step in range(300):
            new = [each for each in ids_below(12, rng) if table.find_one(each) < 0]
            slots = table.add(new)
            table.state[slots] = 1
            table.schedule(slots, np.full(len(new), step // 20, dtype=np.uint32))
            known = table.find(ids_below(12, rng))
            known = known[known >= 0]
            if step % 3:
                table.drop(known)
            else:
                table.schedule(known, rng.integers(step // 20, 20, known.size).astype(np.uint32))
            table._check()


def ids_below(number: int, rng: np.random.Generator) -> list[bytes]:
    """Return about half of these ids."""
    return [b"%d" % each for each in np.flatnonzero(rng.random(number) < 0.5)]


def test_whole_buckets_are_taken_up_to_max_slots() -> None:
    """No bucket more than needed, though buckets have stale entries."""
    table = JoinTable(keys=1)
    slots = table.add([b"%d" % number for number in range(300)])
    table.state[slots] = 1
    due = np.arange(300, dtype=np.uint32) // 3
    table.schedule(slots, due)
    table.schedule(slots[::3], np.full(100, 1_000, dtype=np.uint32))
    popped = table.pop_due(10**6, max_slots=5)
    assert table.ids(popped) == [b"1", b"2", b"4", b"5", b"7", b"8"]
    table.drop(popped)
    table._check()
    assert table.oldest_bucket() == 3
    assert table.pop_due(3).size == 0
    assert table.pop_due(10**6).size == 294
    assert table.oldest_bucket() is None
