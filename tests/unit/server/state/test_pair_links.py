"""Links from a stream's slots to its pair's: as a look-up of each id, whatever happened before."""

from __future__ import annotations

import numpy as np
import pytest

from streameval_server._model.pair_settings import PairSettings
from streameval_server._state.ids.join_table import TrackedTable
from streameval_server._state.pairs.pair_links import SlotLinks
from streameval_server._state.pairs.pair_table import BY_A, PairIds, PairTable


def ids_of(numbers: np.ndarray) -> list[bytes]:
    return [b"id-%d" % number for number in numbers.tolist()]


def found_or_added(table: TrackedTable, ids: list[bytes], due: int = 0) -> np.ndarray:
    """Do as a joiner does with distinct ids."""
    slots = table.find(ids)
    new = np.flatnonzero(slots < 0)
    if new.size:
        slots[new] = table.add([ids[row] for row in new.tolist()])
        table.state[slots[new]] = BY_A
        table.score[slots[new]] = 0.5
        if isinstance(table, PairTable):
            table.score_b[slots[new]] = np.nan
        table.event_us[slots[new]] = 0
        table.schedule(slots[new], np.full(new.size, due, dtype=np.uint32))
    return slots


@pytest.fixture
def pair() -> PairTable:
    """Return the empty table of a pair."""
    settings = PairSettings(
        max_cells=256,
        max_pending=10_000,
        prevalence=None,
        pane_us=60_000_000,
        retention_us=3_600_000_000,
        label_ttl_us=3_600_000_000,
        relabel_ttl_us=60_000_000,
    )
    return PairIds(settings).table


@pytest.mark.parametrize("seed", range(4))
def test_links_are_as_look_ups_while_both_tables_lose_and_reuse_slots(
    pair: PairTable, seed: int
) -> None:
    """Ids come, leave either table and come again; some are linked and some are not."""
    rng = np.random.default_rng(seed)
    stream, links = TrackedTable(), SlotLinks()
    assert links.found(stream) is None
    num_linked = 0
    for step in range(60):
        ids = ids_of(rng.choice(300, size=int(rng.integers(1, 80)), replace=False))
        found_or_added(stream, ids, step)
        found = links.found(stream)
        assert found is not None
        assert found.ids is ids
        linked = links.pair_slots(found.slots, pair)
        num_linked += int((linked >= 0).sum())
        known = pair.find_linked(ids, linked.copy())
        assert known.tolist() == pair.find(ids).tolist()
        assert linked[linked >= 0].tolist() == known[linked >= 0].tolist()
        if rng.random() < 0.7:
            links.put(found.slots, found_or_added(pair, ids, step), pair)
        for table in (stream, pair):
            used = table.used()
            gone = used[rng.random(used.size) < rng.choice([0.0, 0.1, 0.6])]
            table.drop(gone)
        links._check(pair)
        pair._check()
    assert num_linked > 100


def test_a_label_of_linked_ids_needs_no_look_up(
    pair: PairTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pair's own index of ids is not read for them."""
    stream, links = TrackedTable(), SlotLinks()
    links.found(stream)
    ids = ids_of(np.arange(50))
    slots = found_or_added(stream, ids)
    links.put(slots, found_or_added(pair, ids), pair)
    monkeypatch.setattr(pair, "find", None)
    linked = links.pair_slots(stream.find(ids), pair)
    assert pair.ids(pair.find_linked(ids, linked)) == ids


def test_another_table_and_a_deleted_pair_leave_no_links(pair: PairTable) -> None:
    """What belonged to the table before is forgotten, and its table no longer keeps them."""
    first, second, links = TrackedTable(), TrackedTable(), SlotLinks()
    links.found(first)
    ids = ids_of(np.arange(50))
    links.put(found_or_added(first, ids), found_or_added(pair, ids), pair)
    assert links.memory_bytes == 12 * first.state.size
    assert links.found(second) is None
    assert (first.links, second.links, links.memory_bytes) == ([], [links], 0)
    links.detach()
    assert second.links == []
    assert (links.pair_slots(found_or_added(second, ids), pair) == -1).all()
