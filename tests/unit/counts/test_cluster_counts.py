"""Clusters: their hash, the table of their counts, what is refused, and their bytes."""

from __future__ import annotations

import copy
import pickle
import struct
import zlib
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from streameval import (
    CorruptStateError,
    Evaluator,
    InvalidInputError,
    WindowedEvaluator,
)
from streameval._counts.cluster_cells import CLUSTER_BITS, cluster_edges, coarse_cells
from streameval._counts.cluster_counts import (
    counts_of_cells,
    merge_clusters,
)
from streameval._counts.cluster_keys import (
    check_clusters,
    cluster_checksum,
    cluster_checksums,
    group_of,
)
from streameval._counts.run import NegativeCountError
from streameval.kernel import groups_of, quantise

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def columns(size: int = 400, seed: int = 5) -> dict[str, np.ndarray]:
    """Return rows of 60 clusters, some tied."""
    rng = np.random.default_rng(seed)
    labels = rng.random(size) < 0.3
    return {
        "labels": labels,
        "scores": np.round(rng.normal(labels), 2),
        "clusters": rng.integers(0, 60, size),
    }


def evaluator(**kwargs: np.ndarray) -> Evaluator:
    """Return an evaluator with clusters and misses of both classes."""
    ev = Evaluator(cluster_groups=32)
    ev.add_cases(**(kwargs or columns()))
    ev.add_misses(3, cluster=7)
    ev.add_negative_misses(2, cluster="late")
    return ev


def test_the_hash_is_the_documented_one():
    """SplitMix64's finaliser of the CRC-32, written again with Python's integers."""

    def documented(key: bytes, groups: int) -> int:
        z = zlib.crc32(key) + 0x9E3779B97F4A7C15
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            z = (z ^ (z >> shift)) * factor % 2**64
        return (z ^ (z >> 31)) % groups

    for key in (b"", b"user-17", "zoë".encode(), b"\xff\x00"):
        assert group_of(key, 32) == documented(key, 32)
    assert [group_of(b"user-%d" % i, 32) for i in range(4)] == [14, 27, 25, 4]


def test_groups_of_checksums_are_the_groups_of_the_keys():
    """In columns as one by one, for texts, integers and bytes."""
    texts = [f"user-{i}" for i in range(500)]
    for keys in (texts, np.array(texts), [key.encode() for key in texts], list(range(500))):
        encoded = [key if isinstance(key, bytes) else str(key).encode() for key in keys]
        checksums = cluster_checksums(keys)
        assert checksums.tolist() == [zlib.crc32(key) for key in encoded]
        for groups in (8, 32, 1000):
            found = groups_of(checksums, groups)
            assert found.tolist() == [group_of(key, groups) for key in encoded]
    assert cluster_checksum("user-7") == zlib.crc32(b"user-7")


def test_groups_are_even():
    """Consecutive ids fall into all groups alike: chi-square of 32 groups, p > 0.001."""
    for keys in ([f"user-{i}" for i in range(6400)], list(range(6400))):
        hashed = check_clusters(keys, 32, 6400)
        counts = np.bincount(hashed, minlength=32)
        assert ((counts - 200) ** 2 / 200).sum() < 61


def test_a_key_is_its_text():
    """Text, bytes and integers of the same digits are one cluster, in every container."""
    wanted = [group_of(b"17", 32), group_of(b"-3", 32)]
    forms = (
        ["17", "-3"],
        [b"17", b"-3"],
        [17, -3],
        (17, -3),
        [np.int32(17), -3],
        np.array([17, -3]),
        np.array([17, -3], dtype=np.int8),
        np.array(["17", "-3"]),
        np.array([b"17", b"-3"]),
        np.array(["17", "-3"], dtype=object),
    )
    for form in forms:
        assert check_clusters(form, 32, 2).tolist() == wanted
    assert check_clusters(["\ud800"], 32, 1).size == 1


def test_cells_do_not_depend_on_the_whole():
    """Eight bits from both ends of [0, 1], eight significant bits elsewhere, misses below."""
    scores = np.array([-np.inf, -3.01, -1e-9, 0.0, 1e-9, 0.3, 0.999, 1.0, 1.5, 1e300])
    edges = cluster_edges(scores)
    inside = (scores >= 0) & (scores <= 1)
    assert np.array_equal(edges[inside], quantise(scores[inside], CLUSTER_BITS, "probability"))
    outside = ~inside & np.isfinite(scores)
    assert np.array_equal(edges[outside], quantise(scores[outside], CLUSTER_BITS))
    assert edges[0] == -np.inf
    many = np.sort(np.random.default_rng(1).normal(size=5000) * 3)
    assert (np.diff(cluster_edges(many)) >= 0).all()
    assert np.array_equal(cluster_edges(cluster_edges(many)), cluster_edges(many))


def test_groups_add_up_to_the_whole():
    """The table has every case once, in the group of its cluster."""
    rows = columns()
    ev = evaluator(**rows)
    table = ev._view().clusters
    groups = check_clusters(rows["clusters"], 32, 400)
    for group in range(32):
        here = (table.groups == group) & np.isfinite(table.edges)
        for label in (True, False):
            counted = int(table.counts[here & (table.is_positive == label)].sum())
            assert counted == int(((groups == group) & (rows["labels"] == label)).sum())
    missed = ~np.isfinite(table.edges)
    assert sorted(zip(table.codes[missed].tolist(), table.counts[missed].tolist())) == sorted(
        [
            (2 * group_of(b"7", 32) + 1, 3),
            (2 * group_of(b"late", 32), 2),
        ]
    )
    ev._check()


def test_every_way_of_adding_is_the_same():
    """One by one, in columns, with counts, in another order, and with less in between."""
    rows = columns()
    ev = evaluator(**rows)
    single = Evaluator(cluster_groups=32)
    order = np.random.default_rng(2).permutation(400)
    for i in order.tolist():
        single.add_case(
            bool(rows["labels"][i]), float(rows["scores"][i]), cluster=str(rows["clusters"][i])
        )
    single.add_negative_misses(2, cluster="late")
    single.add_misses(1, cluster="7")
    single.add_misses(4, cluster=b"7")
    single.remove_misses(2, cluster=7)
    counted = evaluator(**{k: np.repeat(v, 1) for k, v in rows.items()}, counts=np.ones(400, int))
    assert ev == single == counted
    assert ev.to_bytes() == single.to_bytes() == counted.to_bytes()
    assert ev.revision == counted.revision
    twice = Evaluator(cluster_groups=32)
    twice.add_cases(**rows, counts=np.full(400, 2))
    twice.remove_cases(**{k: v[order] for k, v in rows.items()})
    i = int(order[0])
    twice.remove_case(rows["labels"][i], rows["scores"][i], cluster=int(rows["clusters"][i]))
    twice.add_case(rows["labels"][i], rows["scores"][i], cluster=int(rows["clusters"][i]))
    ev.remove_misses(3, cluster=7)
    ev.remove_negative_misses(2, cluster="late")
    assert twice == ev
    twice._check()


@pytest.mark.parametrize("settings", [{}, {"resolution": 4}, {"max_cells": 30}])
def test_parts_merge_in_any_order(settings):
    """To the bit, whatever the parts, their order and what the whole keeps."""
    rows = columns()
    whole = Evaluator(cluster_groups=32, **settings)
    whole.add_cases(**rows)
    part_of = np.random.default_rng(3).integers(0, 5, 400)
    parts = []
    for part in range(5):
        parts.append(Evaluator(cluster_groups=32, **settings))
        parts[-1].add_cases(**{k: v[part_of == part] for k, v in rows.items()})
    for order in ((0, 1, 2, 3, 4), (4, 2, 0, 1, 3)):
        total = Evaluator(cluster_groups=32, **settings)
        total.merge(*(parts[i] for i in order))
        assert total == whole
        assert total.to_bytes() == whole.to_bytes()
        total._check()


def test_copies_are_equal_and_apart():
    """Copies, pickles and bytes have the groups; a reset keeps their number only."""
    ev = evaluator()
    for twin in (
        ev.copy(),
        copy.deepcopy(ev),
        pickle.loads(pickle.dumps(ev)),
        Evaluator.from_bytes(ev.to_bytes()),
    ):
        assert twin == ev
        assert twin.cluster_groups == 32
        twin.add_case(True, 0.5, cluster="new")
        assert twin != ev
    other = Evaluator(cluster_groups=32)
    other.add_cases(**{**columns(), "clusters": np.arange(400)})
    plain = Evaluator()
    plain.add_cases(labels=columns()["labels"], scores=columns()["scores"])
    assert other != plain
    ev.reset()
    assert ev == Evaluator(cluster_groups=32)
    assert "cluster_groups=32" in repr(ev)


def test_states_with_clusters_have_a_flag_and_a_table_more():
    """The columns of the whole are the same, byte for byte."""
    rows = columns()
    plain = Evaluator()
    plain.add_cases(labels=rows["labels"], scores=rows["scores"])
    clustered = Evaluator(cluster_groups=32)
    clustered.add_cases(**rows)
    assert struct.unpack_from("<4sHB", plain.to_bytes()) == (b"SVEE", 1, 0)
    assert struct.unpack_from("<4sHB", clustered.to_bytes()) == (b"SVEE", 1, 8)
    assert plain.to_bytes()[44:-4] in clustered.to_bytes()


def test_altered_bytes_are_refused():
    """Every flipped byte, every truncation, and tables that no writer makes."""
    ev = Evaluator(cluster_groups=32)
    ev.add_cases(labels=[1, 0, 0], scores=[0.5, 0.25, 0.25], clusters=["a", "b", "b"])
    data = ev.to_bytes()
    for position in range(len(data)):
        altered = bytearray(data)
        altered[position] ^= 0x41
        with pytest.raises(CorruptStateError):
            Evaluator.from_bytes(altered)
        with pytest.raises(CorruptStateError):
            Evaluator.from_bytes(data[:position])
    table = len(data) - 4 - 2 * (8 + 2 + 1)  # two rows, then the checksum
    for at, value in (
        (6, b"\x01\x00"),  # one group
        (table, struct.pack("<d", 0.2501)),  # not the edge of a cell
        (table, struct.pack("<d", 0.75)),  # descending
        (table + 16, b"\xff\xff"),  # no such group
        (len(data) - 5, b"\x07"),  # more cases than the whole has
        (len(data) - 5, b"\x00"),
    ):
        altered = bytearray(data)
        altered[at : at + len(value)] = value
        altered[-4:] = struct.pack("<I", zlib.crc32(altered[:-4]))
        with pytest.raises(CorruptStateError):
            Evaluator.from_bytes(bytes(altered))


BAD_COLUMNS = (
    (None, {"clusters": ["a", "b"]}, "clusters needs an evaluator that declares clusters"),
    (32, {}, "declares clusters, so every case needs one: give clusters="),
    (32, {"clusters": ["a"]}, "clusters must have one row for each of labels"),
    (32, {"clusters": ["a", 5]}, "all be of one type, got int after str at index 1"),
    (32, {"clusters": [b"a", "a"]}, "all be of one type, got str after bytes at index 1"),
    (32, {"clusters": ["a", None]}, "must be str, int or bytes, got None at index 1"),
    (32, {"clusters": [True, False]}, "must be str, int or bytes, got True at index 0"),
    (32, {"clusters": np.array([1.0, 2.0])}, "must be str, int or bytes, got 1.0 at index 0"),
    (32, {"clusters": [["a"], ["b"]]}, "one-dimensional"),
    (32, {"clusters": "ab"}, "must be a column"),
)


@pytest.mark.parametrize(("groups", "given", "message"), BAD_COLUMNS)
def test_refusals_of_columns_change_nothing(groups, given, message):
    """One clear line, from adding and removing, with and without time."""
    ev = Evaluator(cluster_groups=groups)
    windowed = WindowedEvaluator(cluster_groups=groups)
    known = {} if groups is None else {"clusters": ["a", "b"]}
    ev.add_cases(labels=[1, 0], scores=[0.9, 0.4], **known)
    windowed.add_cases(labels=[1, 0], scores=[0.9, 0.4], at=NOON, **known)
    before = ev.to_bytes(), ev.revision, windowed.to_bytes()
    later = {"at": NOON + timedelta(hours=1)}
    for verb, time in (
        (ev.add_cases, {}),
        (ev.remove_cases, {}),
        (windowed.add_cases, later),
        (windowed.remove_cases, {"at": NOON}),
    ):
        with pytest.raises(InvalidInputError, match=message) as caught:
            verb(labels=[1, 0], scores=[0.9, 0.4], **time, **given)
        assert caught.value.field == "clusters"
        assert "\n" not in str(caught.value)
    assert (ev.to_bytes(), ev.revision, windowed.to_bytes()) == before


def test_refusals_of_single_cases_change_nothing():
    """Also of misses, and of removing what the cluster does not have."""
    ev = evaluator()
    plain = Evaluator()
    windowed = WindowedEvaluator(cluster_groups=32)
    before = ev.to_bytes(), plain.to_bytes(), windowed.to_bytes()
    here = {"at": NOON}
    for call, message in (
        (lambda: plain.add_case(True, 0.5, cluster="a"), "cluster needs an evaluator"),
        (lambda: plain.remove_case(True, 0.5, cluster="a"), "cluster needs an evaluator"),
        (lambda: plain.add_misses(1, cluster="a"), "cluster needs an evaluator"),
        (lambda: ev.add_case(True, 0.5), "give cluster="),
        (lambda: ev.remove_case(True, 0.5), "give cluster="),
        (lambda: ev.add_misses(1), "give cluster="),
        (lambda: ev.remove_negative_misses(1), "give cluster="),
        (lambda: ev.add_case(True, 0.5, cluster=0.5), "must be str, int or bytes, got 0.5"),
        (lambda: ev.add_case(True, 0.5, cluster=True), "must be str, int or bytes, got True"),
        (lambda: ev.remove_misses(1, cluster="other"), "misses of the cluster's group"),
        (lambda: windowed.add_case(True, 0.5, **here), "give cluster="),
        (lambda: windowed.add_misses(2, **here), "give cluster="),
        (lambda: ev.merge(plain), "same cluster_groups to merge, got 32 and none"),
        (lambda: plain.merge(ev), "same cluster_groups to merge, got 32 and none"),
        (lambda: ev.merge(Evaluator(cluster_groups=64)), "to merge, got 32 and 64"),
        (lambda: windowed.merge(WindowedEvaluator()), "cluster_groups .* must be the same"),
        (lambda: ev.interval("auc_pr", method="bootstrap"), "takes cases as independent"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            call()
    with pytest.raises(InvalidInputError, match="that its cluster does not have"):
        ev.remove_cases(
            labels=columns()["labels"][:1], scores=columns()["scores"][:1], clusters=["other"]
        )
    assert (ev.to_bytes(), plain.to_bytes(), windowed.to_bytes()) == before


@pytest.mark.parametrize("groups", [0, 7, 1025, 2.5, "32", True, -32])
def test_numbers_of_groups_out_of_range(groups):
    """An integer from 8 to 1024, or None."""
    with pytest.raises(InvalidInputError, match="cluster_groups must be"):
        Evaluator(cluster_groups=groups)


@pytest.mark.parametrize("size", [1, 40, 3_000])
@pytest.mark.parametrize("groups", [8, 1_024])
def test_tables_are_those_of_a_dict(groups: int, size: int):
    """Counted in a dense table or by a sort, and merged, as by a dict of edge, group and class."""
    rng = np.random.default_rng(size)
    ends = [-np.inf, -1e300, -0.0, 0.0, 5e-324, 1 - 2**-53, 1.0, 1 + 2**-52]
    expected: dict[tuple[float, int], int] = {}
    tables = []
    for part in range(3):
        scores = np.concatenate([rng.normal(0.5, 1, size), rng.random(size), ends])
        labels = rng.random(scores.size) < 0.3
        counts = rng.integers(1, 5, scores.size) if part else None
        own = rng.integers(0, groups, scores.size).astype(np.uint16)
        codes = 2 * own + labels
        tables.append(counts_of_cells(groups, *coarse_cells(scores), codes, counts))
        tables[-1]._check()
        repeats = np.ones(scores.size, np.int64) if counts is None else counts
        columns = (cluster_edges(scores).tolist(), codes.tolist(), repeats.tolist())
        for edge, code, count in zip(*columns, strict=True):
            expected[edge, code] = expected.get((edge, code), 0) + count
    merged = merge_clusters(tables)
    merged._check()
    columns = (merged.edges.tolist(), merged.codes.tolist(), merged.counts.tolist())
    found = {(edge, code): count for edge, code, count in zip(*columns, strict=True)}
    assert found == expected
    assert merge_clusters([merged, tables[0].negated()]).same_content(merge_clusters(tables[1:]))
    with pytest.raises(NegativeCountError):
        merge_clusters([tables[1], merged.negated()])
