"""The parts of a stream: delays, tallies, segment values, ids and join segments."""

from __future__ import annotations

import math
from unittest.mock import patch

import numpy as np
import pytest
from ddsketch import DDSketch

from streameval import CorruptStateError, Evaluator
from streameval._joining.expiry_index import _Bucket
from streameval.checks import OTHER_VALUE
from streameval.kernel import Effect, Effects, State, Tally, UnsortedCases
from streameval.wire import SegmentCodes
from streameval_server._model.stream_settings import HOUR_US, SECOND_US, StreamSettings
from streameval_server._state.counting.coverage import PaneCoverage
from streameval_server._state.counting.delays import Delays, delays_by_group
from streameval_server._state.ids.join_segment import FRAME, decode_segment
from streameval_server._state.ids.join_table import Joins, TrackedTable
from streameval_server._state.segments import ABSENT, Segments, segment_codes

NOW = 1_800_000_000_000_000

# -- delays


@pytest.mark.parametrize("seed", range(20))
def test_delays_are_a_ddsketch(seed):
    """Quantiles are those of a sketch fed one by one, bit for bit, and within 1 % of exact ones."""
    rng = np.random.default_rng(seed)
    size = int(10 ** rng.uniform(0, 3.5))
    delays = np.round(np.exp(rng.normal(rng.uniform(3, 25), rng.uniform(0, 3), size)))
    delays = np.where(rng.random(size) < seed % 4 / 4, 0, delays).astype(np.int64)
    bucketed = Delays.of(delays)
    peer = DDSketch(0.01)
    for delay in delays.tolist():
        peer.add(delay)
    quantiles = [0.0, 0.1, 0.5, 0.9, 0.99, 1.0, *rng.random(20)]
    found = bucketed.quantiles_us(quantiles)
    assert len(bucketed) == size
    # Of a sketch, quantile q is the delay of rank q * (n - 1), rounded down.
    ranks = [max(math.ceil(quantile * size), 1) - 1 for quantile in quantiles]
    peers = [(rank + 0.5) / max(size - 1, 1) for rank in ranks]
    assert found == [peer.get_quantile_value(min(quantile, 1.0)) for quantile in peers]
    exact = np.quantile(delays, quantiles, method="inverted_cdf")
    assert found == pytest.approx(exact.tolist(), rel=0.0101)


def test_a_high_quantile_of_few_delays_is_the_longest():
    """Fewer than 99 of 100 delays do not exceed the shorter of two; exact shares are no more."""
    two = Delays.of(np.array([3_600_000_000, 7_200_000_000]))
    assert two.quantiles_us([0, 0.5, 0.51, 0.99]) == pytest.approx(
        [3.6e9, 3.6e9, 7.2e9, 7.2e9], rel=0.01
    )
    hundred = Delays.of(2 ** np.arange(20).repeat(5))
    shares = [0.05, 0.55, 0.7, 0.95]
    assert hundred.quantiles_us(shares) == pytest.approx([1, 2**10, 2**13, 2**18], rel=0.01)


@pytest.mark.parametrize("seed", range(20))
def test_delays_in_coarse_buckets(seed):
    """Counts are exact but for delays up to 2 % above a bound; the sum is right within 1 %."""
    rng = np.random.default_rng(seed)
    delays = np.exp(rng.normal(rng.uniform(3, 25), rng.uniform(0, 3), 1 + 100 * seed))
    delays = np.where(rng.random(delays.size) < seed % 4 / 4, 0, delays).astype(np.int64)
    bounds = np.unique((10.0 ** rng.uniform(0, 13, 30)).astype(np.int64)).tolist()
    bucketed = Delays.of(delays)
    for bound, count in zip(bounds, bucketed.counts_through(tuple(bounds)), strict=True):
        assert (delays <= bound).sum() <= count <= (delays <= 1.0203 * bound).sum()
    assert bucketed.counts_through((2**62,)) == [delays.size]
    assert bucketed.sum_us() == pytest.approx(int(delays.sum()), rel=0.0101)
    assert Delays.of(delays[:0]).counts_through((1,)) == [0]


def test_delays_merge_exactly():
    """The delays of all panes together are those of one."""
    rng = np.random.default_rng(2)
    parts = [rng.integers(0, 10**9, 100) for _ in range(5)]
    merged = Delays.merged(map(Delays.of, parts))
    whole = Delays.of(np.concatenate(parts))
    assert merged.to_bytes() == whole.to_bytes()
    again = Delays.from_bytes(merged.to_bytes())
    assert again.to_bytes() == merged.to_bytes()
    assert Delays.merged([]).quantiles_us([0.5, 1]) == []


def test_delays_of_none_and_of_a_microsecond_merge():
    """Parts with and without labels that came at once."""
    parts = [np.array([0, 0]), np.array([0]), np.array([1]), np.array([0, 1, 10**15])]
    for chosen in (parts[:2], parts[1:3], parts):
        whole = Delays.of(np.concatenate(chosen))
        assert Delays.merged(map(Delays.of, chosen)).to_bytes() == whole.to_bytes()


def test_labels_that_come_at_once_have_no_delay():
    """The same holds for labels before their prediction."""
    delays = Delays.of(np.array([0, -5, 0]))
    assert (len(delays), delays.quantiles_us([0, 0.5])) == (3, [0.0, 0.0])


@pytest.mark.parametrize("data", [b"x", bytes(20), Delays.of(np.array([5])).to_bytes() * 2])
def test_damaged_delays_are_refused(data):
    """A truncated column is refused, and one that is not ascending."""
    with pytest.raises(CorruptStateError):
        Delays.from_bytes(data)


def test_delays_are_those_of_labels_by_group():
    """Other effects have no delay."""
    kinds = [Effect.PREDICTED, Effect.LABELLED_POSITIVE, Effect.LABELLED_NEGATIVE, Effect.EXPIRED]
    effects = Effects(
        kinds=np.array(kinds, dtype=np.uint8),
        event_us=np.array([0, 0, 10, 0]),
        at_us=np.array([1, 1000, 1000, 10**9]),
        scores=np.zeros(4),
        codes=np.zeros((4, 0), dtype=np.uint16),
    )
    found = delays_by_group(effects, np.array([1, 1, 2, 2]))
    assert set(found) == {1, 2}
    assert found[1].quantiles_us([1]) == [pytest.approx(1000, rel=0.01)]
    assert found[2].quantiles_us([1]) == [pytest.approx(990, rel=0.01)]
    assert delays_by_group(effects, np.zeros(4, dtype=np.int64))[0].counts.sum() == 2


def test_coverage_merges_to_the_same_object_when_there_is_one():
    """An unchanged part is the same object, so that answers stay cached."""
    part = PaneCoverage()
    assert PaneCoverage.merged([part]) is part
    assert PaneCoverage.merged([]).is_empty


# -- cells


@pytest.mark.parametrize("looks", [7, 1_000], ids=["looked at", "left alone"])
@pytest.mark.parametrize("max_cells", [40, 100_000])
@pytest.mark.parametrize("bits", [None, 6])
def test_a_tally_counts_as_an_evaluator(bits, max_cells, looks):
    """For any changes, pending or merged, with reads and removals in between."""
    rng = np.random.default_rng(3)
    cells = Tally(State.empty(resolution=bits, scale=None, max_cells=max_cells))
    peer = Evaluator(resolution=bits, max_cells=max_cells)
    for step in range(60):
        scores, labels = rng.normal(size=300).round(2), rng.random(300) < 0.3
        counts = rng.integers(1, 4, 300) if step % 5 == 4 else None
        change = UnsortedCases(labels, scores, counts)
        if step % 3 == 1:
            change = change.sorted()
        cells.add(change)
        peer.add_cases(labels=labels, scores=scores, counts=counts)
        if step % looks == 0:
            frozen = cells.frozen()
            assert cells.frozen() is frozen
            assert Evaluator._of(frozen.state) == peer
            assert frozen.state is frozen.state
        if step % 20 == 10:
            gone = np.concatenate([scores[labels][:5], scores[~labels][:5]])
            cells.remove(UnsortedCases(np.arange(10) < 5, gone, None))
            peer.remove_cases(labels=[True] * 5, scores=scores[labels][:5])
            peer.remove_cases(labels=[False] * 5, scores=scores[~labels][:5])
        if step == 30:
            cells.miss(2, 3)
            peer.add_misses(2)
            peer.add_negative_misses(3)
            assert Evaluator._of(frozen.state).num_misses == 0
    assert Evaluator._of(cells.state()) == peer
    cells.state()._check()


def test_misses_keep_what_was_merged():
    """With misses in between, pending scores stay bounded by the state."""
    rng = np.random.default_rng(5)
    cells = Tally(State.empty(resolution=12, scale=None, max_cells=16_384))
    for step in range(50):
        cells.add(UnsortedCases(rng.random(5_000) < 0.5, rng.random(5_000), None))
        if cells.is_due:
            cells.frozen().merge()
        cells.miss(1, 2)
        assert not cells.is_due or step == 0
    assert cells.state().counts.total == 250_000
    assert (cells.state().missed_positives, cells.state().missed_negatives) == (50, 100)


def test_merged_counts_are_not_merged_again():
    """The next read merges only newer changes; earlier frozen counts stay as they were."""
    cells = Tally(State.empty(resolution=None, scale=None, max_cells=None))
    cells.add(UnsortedCases(np.array([True, False]), np.array([0.7, 0.2]), None))
    first = cells.frozen()
    seen = Evaluator._of(first.state)._view()
    cells.add(UnsortedCases(np.array([False]), np.array([0.4]), None))
    assert cells._state is seen
    assert Evaluator._of(cells.frozen().state).num_cases == 3
    assert Evaluator._of(first.state).num_cases == 2


# -- segments


def column(values, codes) -> SegmentCodes:
    return SegmentCodes("country", tuple(values), np.array(codes, dtype=np.uint32))


def test_values_are_numbered_as_they_come():
    """Values without rows get no code; beyond the maximum they share one, and are counted."""
    segments = Segments(["plan", "country"], max_values=2)
    first = segment_codes([segments.read((column(["US", "", "XX", "DE"], [0, 1, 3, 0]),), 4)])
    assert first.tolist() == [[0, 0, 0, 0], [2, 0, 3, 2]]
    second = segment_codes([segments.read((column(["FR", "DE", "US", "FR"], [0, 1, 2, 3]),), 4)])
    assert second[1].tolist() == [1, 3, 2, 1]
    assert segments.values == [["", OTHER_VALUE], ["", OTHER_VALUE, "US", "DE"]]
    assert segments.overflowed == 2
    assert segments.row_codes([("country", "DE"), ("plan", "x")]) == [2, 3]
    assert segments.row_codes([("country", "IT")]) == [0, 1]
    assert segments.overflowed == 3
    assert Segments([], 5).read((), 3) is None


def test_segment_codes_of_many_batches_are_those_of_each():
    """For batches with equal or different values, and without a column for some key."""
    one = column(["US", "DE"], [0, 1, 1])
    batches = [(one,), (one,), (column(["DE", "FR"], [1, 0]),), (), (column(["US"], [0]),)]
    sizes = [3, 3, 2, 2, 1]
    for last in range(1, 6):
        segments = Segments(["plan", "country"], max_values=5)
        read = [segments.read(*each) for each in zip(batches[:last], sizes, strict=False)]
        together = segment_codes(read).tolist()
        assert together[0] == [0] * sum(sizes[:last])
        assert together[1] == [2, 3, 3, 2, 3, 3, 4, 3, 0, 0, 2][: sum(sizes[:last])]
        assert together == np.concatenate([segment_codes([each]) for each in read], axis=1).tolist()


def test_a_long_column_is_not_kept():
    """The last batch's values are cached if there are few; the codes are right either way."""
    segments = Segments(["plan", "country"], max_values=3)
    short, long = (column(["US", "DE", *[""] * more], [1, 0]) for more in (8, 9))
    for each in (long, short, long, short):
        assert segment_codes([segments.read((each,), 2)])[1].tolist() == [3, 2]
        assert max(len(values) for values, _ in segments._tables) <= 10
    assert segments._tables[1][0] == short.values


def test_names_of_slices():
    """Each value has a slice number of its own."""
    segments = Segments(["a"], max_values=2)
    segments.row_codes([("a", "x")])
    segments.declare(["a", "b"])
    names = segments.names()
    assert set(names) == {("a", ""), ("a", OTHER_VALUE), ("a", "x"), ("b", ""), ("b", OTHER_VALUE)}
    assert len(set(names.values())) == len(names)


# -- joins


SETTINGS = StreamSettings(label_ttl_us=HOUR_US, relabel_ttl_us=HOUR_US, segment_keys=("k",))


def predict(joins: Joins, ids: list[bytes], now: int = NOW, code: int = 2) -> None:
    joins.joiner.predict(
        ids,
        scores=np.arange(len(ids), dtype=np.float64),
        event_us=np.full(len(ids), now),
        now_us=now,
        codes=np.full((len(ids), 1), code, dtype=np.uint16),
    )


def restored(revision: int, parts: dict[int, bytes], tally: bytes) -> Joins:
    joins = Joins(SETTINGS)
    joins.restore(revision, parts)
    joins.state_from_bytes(tally)
    joins.joiner._check()
    return joins


def test_join_segments_list_added_and_removed_ids():
    """They are rewritten once half of the listed rows are dead."""
    rng = np.random.default_rng(4)
    joins, parts, since = Joins(SETTINGS), {}, 0
    sizes = []
    for revision in range(1, 40):
        now = NOW + revision * 60 * SECOND_US
        ids = [b"%d" % n for n in rng.integers(0, 4000, 300)]
        predict(joins, ids, now)
        labelled = [b"%d" % n for n in rng.integers(0, 4000, 100)]
        joins.joiner.label(labelled, positives=rng.random(100) < 0.5, now_us=now)
        joins.joiner.retract([b"%d" % n for n in rng.integers(0, 4000, 200)], now_us=now)
        data = joins.take_segment(revision, since)
        since = revision
        parts = {number: parts[number] for number in joins.segments if number != revision}
        if data is not None:
            parts[revision] = data
        again = restored(revision, parts, joins.state_to_bytes())
        assert again.to_bytes() == joins.to_bytes()
        assert again.segments == joins.segments
        sizes.append(len(parts))
    assert max(sizes) > 3
    assert min(sizes[5:]) == 1
    assert joins.take_segment(40, 39) is None, "nothing changed"


def test_a_checkpoint_that_was_not_written_is_included_in_the_next():
    """Ids of a checkpoint that was not written must be in the next one."""
    joins = Joins(SETTINGS)
    predict(joins, [b"a", b"b"])
    assert joins.take_segment(1, 0) is not None
    joins.joiner.retract([b"a"], now_us=NOW)
    joins.take_segment(2, 1)  # but the write failed
    predict(joins, [b"c"])
    data = joins.take_segment(3, 1)
    assert list(joins.segments) == [3]
    assert restored(3, {3: data}, joins.state_to_bytes()).to_bytes() == joins.to_bytes()


def test_settings_change_between_checkpoints():
    """Older rows are in no slice of new keys; with other buckets ids are due no earlier."""
    joins = Joins(SETTINGS)
    predict(joins, [b"a"])
    joins.take_segment(1, 0)
    longer = StreamSettings(
        label_ttl_us=100 * HOUR_US, relabel_ttl_us=90 * HOUR_US, segment_keys=("k", "l")
    )
    joins.reconfigure(longer)
    joins.joiner._check()
    assert joins.table.codes[joins.table.find([b"a"])].tolist() == [[2, ABSENT]]
    assert joins.due_us >= NOW + HOUR_US
    data = joins.take_segment(2, 1)
    assert list(joins.segments) == [2]
    again = Joins(longer)
    again.restore(2, {2: data})
    again.state_from_bytes(joins.state_to_bytes())
    assert again.to_bytes() == joins.to_bytes()
    assert len(joins.expire(joins.due_us, 10)) == 1


def test_expiry_takes_no_more_than_its_budget():
    """All ids expire in the end."""
    joins = Joins(SETTINGS)
    predict(joins, [b"%d" % n for n in range(100)])
    due = joins.due_us
    sizes = []
    while joins.due_us is not None and joins.due_us <= due:
        sizes.append(len(joins.expire(due, 30)))
        joins.table._check()
    assert sizes == [30, 30, 30, 10]
    assert len(joins) == 0


def test_a_split_bucket_is_sorted_once():
    """It is sorted once, however many steps its ids take to expire."""
    joins = Joins(SETTINGS)
    predict(joins, [b"%d" % n for n in range(1_000)])
    due = joins.due_us
    with patch.object(_Bucket, "distinct", autospec=True, side_effect=_Bucket.distinct) as distinct:
        sizes = [len(joins.expire(due, 7)) for _ in range(143)]
    assert sizes == [7] * 142 + [6]
    assert distinct.call_count == 1
    assert len(joins) == 0
    assert joins.due_us is None


@pytest.mark.slow
def test_a_split_bucket_may_change():
    """Slots of a split bucket are dropped, reused and rescheduled: each falls due once."""
    rng = np.random.default_rng(8)
    table = TrackedTable()
    dues, number = {}, 0
    for step in range(600):
        ids = [b"%d" % n for n in range(number, number + int(rng.integers(0, 40)))]
        number += len(ids)
        slots = table.add(ids)
        table.state[slots] = 1
        due = rng.integers(5, 9, len(ids)).astype(np.uint32)
        table.schedule(slots, due)
        dues |= dict(zip(ids, due.tolist(), strict=True))
        there = sorted(dues)
        moved = [there[at] for at in rng.integers(0, len(there), 6)] if there and step % 3 else []
        for id_ in moved:
            dues[id_] = int(rng.integers(5, 9))
            table.schedule_one(table.find_one(id_), dues[id_])
        gone = {there[at] for at in rng.integers(0, len(there), 6)} if there and step % 4 else set()
        table.drop(table.find(sorted(gone)))
        for id_ in gone:
            del dues[id_]
        table.budget = int(rng.choice([1, 5, 30]))
        before = int(rng.integers(5, 10))
        popped = table.pop_due(before)
        expected = sorted(due for due in dues.values() if due < before)[: table.budget]
        assert [dues.pop(id_) for id_ in table.ids(popped)] == expected
        table.drop(popped)
        table._check()
        assert len(table) == len(dues)
    table.budget = None
    assert table.pop_due(9).size == len(dues)


def test_damaged_segments_are_refused():
    """They are truncated, altered, or remove ids that do not exist."""
    joins = Joins(SETTINGS)
    predict(joins, [b"a", b"b"])
    data = joins.take_segment(1, 0)
    for bad in (data[:-1], data[:20] + b"x" + data[21:], FRAME.sealed(b""), b""):
        with pytest.raises(CorruptStateError):
            decode_segment(Joins(SETTINGS).table, bad)
    joins.joiner.retract([b"a"], now_us=NOW)
    gone = joins.take_segment(2, 1)
    with pytest.raises(CorruptStateError, match="no earlier segment has"):
        decode_segment(Joins(SETTINGS).table, gone)
