"""Mutations of an evaluator: what they count; a refused one changes nothing."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from streameval import Evaluator, InvalidInputError

NAN = float("nan")
LARGEST = 2**62 - 1


def some_evaluator(**settings) -> Evaluator:
    """Return an evaluator with every kind of count, part of it not yet merged."""
    ev = Evaluator(**settings)
    ev.add_cases(labels=[1, 0, 0, 1], scores=[0.9, 0.4, 0.4, 0.4], counts=[1, 2, 0, 3])
    ev.add_misses(2)
    ev.add_negative_misses(1)
    ev.add_case(True, 0.5)
    ev.add_cases(labels=[0], scores=[0.25])
    return ev


def test_counts_of_everything():
    """Cases, both classes and misses are counted, merged or not."""
    ev = some_evaluator()
    assert (ev.num_cases, ev.num_positive_ref, ev.num_negative_ref) == (11, 7, 4)
    assert ev.num_scored == 8
    assert (ev.num_misses, ev.num_negative_misses) == (2, 1)
    before = ev.revision
    ev._check()
    assert (ev.num_cases, ev.num_positive_ref, ev.num_negative_ref) == (11, 7, 4)
    assert ev.num_scored == 8
    assert ev.num_cells == 4
    assert ev.revision == before == 5


def test_revision_counts_mutations():
    """Each call that changes something is one revision; other calls are none."""
    ev = Evaluator()
    assert ev.revision == 0
    ev.add_case(True, 1)
    ev.add_case(0, np.float32(0.5))
    assert ev.revision == 2
    ev.add_cases(labels=[1, 0, 1], scores=[0.1, 0.2, 0.3])
    assert ev.revision == 3
    ev.auc_roc()
    assert ev.revision == 3
    ev.remove_case(True, 1.0)
    ev.add_misses(1)
    assert ev.revision == 5
    ev.add_cases(labels=[], scores=[])
    ev.add_cases(labels=[1], scores=[0.5], counts=[0])
    ev.remove_cases(labels=[], scores=[])
    ev.remove_cases(labels=[1], scores=[77.0], counts=[0])
    ev.add_misses(0)
    ev.merge()
    assert ev.revision == 5
    ev.merge(Evaluator())
    assert ev.revision == 6


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda ev: ev.add_case(True, NAN), "score must be finite, got nan"),
        (lambda ev: ev.add_case(True, float("inf")), "score must be finite, got inf"),
        (lambda ev: ev.add_case(True, "0.5"), "score must be a number, got '0.5'"),
        (lambda ev: ev.add_case(True, True), "score must be a number, got True"),
        (lambda ev: ev.add_case(2, 0.5), "label must be True, False, 1 or 0, got 2"),
        (lambda ev: ev.add_case(None, 0.5), "label must be True, False, 1 or 0, got None"),
        (
            lambda ev: ev.add_case("yes", 0.5),
            (
                "label must be True, False, 1 or 0, got 'yes'; if 'yes' is the positive class, "
                "pass label == 'yes'"
            ),
        ),
        (
            lambda ev: ev.add_cases(labels=[1, 0, 1], scores=[0.1, 0.2, NAN]),
            "score must be finite, got nan at index 2",
        ),
        (
            lambda ev: ev.add_cases(labels=[1, 0, 3], scores=[0.1, 0.2, 0.3]),
            "label must be True, False, 1 or 0, got 3 at index 2",
        ),
        (
            lambda ev: ev.add_cases(labels=[1, 0], scores=[0.1, 0.2], counts=[1, -1]),
            "count must be a non-negative integer, got -1 at index 1",
        ),
        (
            lambda ev: ev.add_cases(labels=[1, 0], scores=[0.1]),
            "scores must have one row for each of labels, got 1 rows and 2",
        ),
        (
            lambda ev: ev.add_cases(labels=[1], scores=[0.1], counts=[LARGEST]),
            "all counts together must stay below 2**62",
        ),
        (lambda ev: ev.add_misses(-1), "count must be a non-negative integer, got -1"),
        (lambda ev: ev.add_misses(1.5), "count must be a non-negative integer, got 1.5"),
        (lambda ev: ev.add_misses(LARGEST), "all counts together must stay below 2**62"),
        (lambda ev: ev.add_negative_misses(True), "count must be a non-negative integer, got True"),
        (
            lambda ev: ev.remove_misses(3),
            "count must be at most 2, the number of misses, got 3",
        ),
        (
            lambda ev: ev.remove_negative_misses(2),
            "count must be at most 1, the number of misses, got 2",
        ),
        (
            lambda ev: ev.remove_case(False, 0.9),
            "there is no negative case of score 0.9 to remove",
        ),
        (lambda ev: ev.remove_case(True, NAN), "score must be finite, got nan"),
        (
            lambda ev: ev.remove_cases(labels=[1, 1, 1], scores=[0.9, 0.4, 0.9]),
            "there is no positive case of score 0.9 to remove at index 2",
        ),
        (
            lambda ev: ev.remove_cases(labels=[1, 0], scores=[0.9, 0.4], counts=[1, 3]),
            "there is no negative case of score 0.4 to remove at index 1",
        ),
        (
            lambda ev: ev.merge(
                Evaluator(resolution=8), Evaluator(resolution=8, scale="probability")
            ),
            "evaluators on the plain and on the probability scale have no cells in common",
        ),
        (lambda ev: ev.merge(full_evaluator()), "all counts together must stay below 2**62"),
    ],
)
@pytest.mark.parametrize("merged", [False, True])
def test_a_refused_mutation_changes_nothing(call, message, merged):
    """The message says what is wrong, and content and revision are unchanged."""
    ev = some_evaluator()
    if merged:
        ev.auc_roc()
    twin, revision = ev.copy(), ev.revision
    with pytest.raises(InvalidInputError) as caught:
        call(ev)
    assert str(caught.value) == message
    assert ev == twin
    assert ev.revision == revision
    ev._check()


def full_evaluator() -> Evaluator:
    """Return an evaluator with the largest possible total."""
    ev = Evaluator()
    ev.add_misses(LARGEST)
    return ev


def test_counts_up_to_the_limit_are_exact():
    """The largest total is counted exactly, and one more is refused."""
    ev = Evaluator()
    ev.add_cases(labels=[1, 0], scores=[0.9, 0.9], counts=[2**61, 2**61 - 1])
    assert ev.num_cases == LARGEST
    assert ev.auc_roc() == 0.5
    with pytest.raises(InvalidInputError, match="must stay below"):
        ev.add_cases(labels=[1], scores=[0.5])
    with pytest.raises(InvalidInputError, match="must stay below"):
        ev.add_misses(1)
    ev._check()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"resolution": 0}, "resolution must be between 1 and 53, got 0"),
        ({"resolution": 54}, "resolution must be between 1 and 53, got 54"),
        ({"resolution": 8.0}, "resolution must be an integer or None, got 8.0"),
        ({"resolution": True}, "resolution must be an integer or None, got True"),
        ({"max_cells": 0}, f"max_cells must be between 1 and {LARGEST}, got 0"),
        ({"max_cells": "9"}, "max_cells must be an integer or None, got '9'"),
        (
            {"scale": "log", "resolution": 8},
            'scale must be "probability", "plain" or None, got \'log\'',
        ),
        (
            {"scale": "probability"},
            "scale needs a resolution or max_cells: an exact evaluator has no cells",
        ),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    """Settings are checked when an evaluator is created."""
    with pytest.raises(InvalidInputError) as caught:
        Evaluator(**settings)
    assert str(caught.value) == message


def test_settings_can_be_read():
    """What is printed shows the settings."""
    ev = Evaluator(resolution=np.int64(9), scale="probability", max_cells=64)
    assert (ev.resolution, ev.scale, ev.max_cells) == (9, "probability", 64)
    assert str(ev).splitlines()[0].endswith("negative references, 9 bits of each score")
    assert str(ev).splitlines()[-1] == "  scale=probability, max_cells=64"


@pytest.mark.parametrize("settings", [{}, {"resolution": 9, "scale": "probability"}])
def test_reset_forgets_the_cases_and_keeps_the_settings(settings):
    """Merged and buffered cases and misses go; the answers are those of a new evaluator."""
    ev = Evaluator(**settings)
    ev.add_cases(labels=[1, 0], scores=[0.9, 0.4])
    ev.add_misses(3)
    assert ev.auc_roc() < 1
    before = ev.snapshot()
    ev.add_case(True, 0.7)
    ev.reset()
    assert ev == Evaluator(**settings)
    assert ev.resolution == settings.get("resolution")
    assert ev.scale == settings.get("scale", "plain")
    assert ev.revision == 4
    assert before.num_positive_ref == 4
    ev.add_case(True, 0.6)
    ev._check()
    assert ev.num_cases == 1


def test_printing_shows_the_metrics_to_report():
    """print() agrees with `auc_pr`: it does not show the area by the trapezoid."""
    ev = some_evaluator()
    intervals = [ev.interval(name) for name in ("auc_pr", "average_precision", "auc_roc")]
    pr, ap, roc = (f"{each:.4f}" for each in intervals)
    assert str(ev).splitlines()[1:] == [
        f"  AUC-PR             {pr}",
        f"  Average precision  {ap}",
        f"  AUC-ROC            {roc}",
        "  (95 % intervals, if cases are independent)",
    ]
    assert str(ev).splitlines()[0] == str(ev.snapshot()).splitlines()[0]


def test_printing_says_why_there_is_no_number():
    """A value or an interval that does not exist has its reason beside it."""
    ev = Evaluator()
    assert str(ev).splitlines()[1] == "  AUC-PR             undefined (EMPTY)"
    ev.add_cases(labels=[1, 1, 0], scores=[0.9, 0.4, 0.6])
    assert str(ev).splitlines()[3] == "  AUC-ROC            0.5000 (no interval: TOO_FEW)"
    assert "95 %" not in str(ev)


def test_what_was_passed_in_may_change_afterwards():
    """The evaluator keeps no reference to the caller's arrays."""
    labels, scores = np.array([True, False]), np.array([0.9, 0.1])
    counts = np.array([2, 2])
    ev = Evaluator()
    ev.add_cases(labels=labels, scores=scores)
    ev.add_cases(labels=labels, scores=scores, counts=counts)
    labels[:], scores[:], counts[:] = True, 7.0, 9
    assert ev.num_cases == 6
    assert ev.auc_roc() == 1.0


def test_scalars_and_columns_count_the_same():
    """Case by case, in one column or with counts: the content is the same."""
    rng = np.random.default_rng(3)
    labels = rng.random(500) < 0.3
    scores = np.round(rng.normal(size=500), 1)
    one, two, three = Evaluator(), Evaluator(), Evaluator()
    for label, score in zip(labels.tolist(), scores.tolist()):
        one.add_case(label, score)
    two.add_cases(labels=labels, scores=scores)
    rows, counts = np.unique(np.stack((labels, scores)), axis=1, return_counts=True)
    three.add_cases(labels=rows[0], scores=rows[1], counts=counts)
    assert one == two == three
    assert one.to_bytes() == two.to_bytes() == three.to_bytes()


def test_chunks_may_come_from_a_generator():
    """Data that does not fit memory is added in chunks."""
    rng = np.random.default_rng(4)
    labels, scores = rng.random(1000) < 0.2, rng.normal(size=1000)
    chunks = ((labels[i : i + 64], scores[i : i + 64]) for i in range(0, 1000, 64))
    ev, whole = Evaluator(), Evaluator()
    for some_labels, some_scores in chunks:
        ev.add_cases(labels=some_labels, scores=some_scores)
    whole.add_cases(labels=labels, scores=scores)
    assert ev == whole


def test_buffers_are_merged_unasked():
    """The buffered rows stay a fraction of the state, without any query."""
    ev = Evaluator(resolution=4)
    for i in range(20_000):
        ev.add_case(i % 2 == 0, float(i % 100))
    assert len(ev._positives) + len(ev._negatives) < 20_000
    scores = np.arange(1000.0)
    for _ in range(200):
        ev.add_cases(labels=scores > 500, scores=scores)
    assert ev._accumulator._waiting.rows < 100_000
    assert ev.num_cases == 220_000
    ev._check()


def test_rows_of_clusters_are_joined_while_they_wait():
    """A row that comes alone takes some 700 B, joined with others 11 B."""
    one_by_one, together = Evaluator(cluster_groups=8), Evaluator(cluster_groups=8)
    scores = np.random.default_rng(8).random(300).round(2)
    for row, score in enumerate(scores.tolist()):
        one_by_one.add_case(row % 3 == 0, score, cluster=row % 20)
        assert one_by_one._accumulator._tally.num_pieces <= 64
    together.add_cases(labels=np.arange(300) % 3 == 0, scores=scores, clusters=np.arange(300) % 20)
    assert one_by_one == together


def test_removal_of_what_waits_and_of_what_is_merged():
    """Cases can be removed at once or much later, one by one or in columns."""
    ev = Evaluator()
    ev.add_case(True, 0.9)
    ev.remove_case(1, 0.9)
    assert ev.num_cases == 0
    assert ev == Evaluator()
    ev.add_cases(labels=[1, 1, 0], scores=[0.5, 0.5, 0.25])
    ev.auc_roc()
    ev.add_case(True, 0.5)
    for left in (3, 2, 1):
        ev.remove_case(True, 0.5)
        assert ev.num_cases == left
    with pytest.raises(InvalidInputError, match="no positive case of score"):
        ev.remove_case(True, 0.5)
    ev.add_case(True, 0.75)
    ev.remove_cases(labels=[0, 1], scores=[0.25, 0.75])
    assert ev == Evaluator()
    ev.add_misses(2)
    ev.add_negative_misses(1)
    ev.remove_misses(2)
    ev.remove_negative_misses(1)
    assert ev == Evaluator()
    ev._check()


def test_removal_at_a_resolution_takes_any_case_of_the_cell():
    """A bounded evaluator removes any case of the score's cell."""
    ev = Evaluator(resolution=2)
    ev.add_cases(labels=[1, 1], scores=[1.01, 1.02])
    ev.remove_case(True, 1.4)
    ev.remove_cases(labels=[1], scores=[1.3])
    assert ev.num_cases == 0


def test_merging_leaves_the_others_alone():
    """Merged evaluators keep their content, and a sum shares nothing mutable with them."""
    a, b = some_evaluator(), some_evaluator()
    both = a + b
    assert (both.num_cases, both.num_scored) == (22, 16)
    assert both.num_misses == 4
    assert a == b == some_evaluator()
    a += b
    assert a == both
    a.add_case(True, 9.0)
    assert a != both
    both.merge(both)
    assert (both.num_cases, both.num_scored) == (44, 32)
    both._check()
    with pytest.raises(TypeError):
        both + 1
    with pytest.raises(TypeError):
        both += 1


@pytest.mark.parametrize("bits", [None, 12, 5])
def test_merging_many_equals_the_whole(bits):
    """Sixty panes merged at once, one by one or in pairs give the same bytes."""
    rng = np.random.default_rng(5)
    panes = [Evaluator(resolution=bits) for _ in range(60)]
    whole = Evaluator(resolution=bits)
    for pane in panes:
        size = int(rng.integers(0, 50))
        labels, scores = rng.random(size) < 0.4, np.round(rng.normal(size=size), 2)
        pane.add_cases(labels=labels, scores=scores)
        whole.add_cases(labels=labels, scores=scores)
    at_once, one_by_one = Evaluator(), Evaluator()
    at_once.merge(*panes)
    for pane in reversed(panes):
        one_by_one.merge(pane)
    assert at_once == one_by_one == whole
    assert at_once.to_bytes() == whole.to_bytes()
    at_once._check()


def test_merging_takes_the_lower_resolution():
    """Exact counts as the highest, and the smaller cap on cells holds for both."""
    fine, coarse = Evaluator(resolution=20), Evaluator(resolution=6, max_cells=100)
    exact = Evaluator(max_cells=500)
    for ev in (fine, coarse, exact):
        ev.add_cases(labels=[1, 0, 1], scores=[0.123456, 0.1234561, 7.0])
    for sum_of in (fine + coarse, coarse + fine, exact + coarse + fine):
        assert (sum_of.resolution, sum_of.max_cells) == (6, 100)
        sum_of._check()
    assert (exact + fine).resolution == 20


def test_an_exact_evaluator_takes_the_scale_of_what_it_merges():
    """Then scores outside [0, 1] can neither be merged nor added."""
    ends = Evaluator(resolution=8, scale="probability")
    ends.add_cases(labels=[1, 0], scores=[0.999, 0.001])
    total = Evaluator()
    total.add_case(True, 0.5)
    total.merge(ends)
    assert (total.scale, total.resolution, total.num_cases) == ("probability", 8, 3)
    with pytest.raises(InvalidInputError, match="between 0 and 1 on the probability scale"):
        total.add_case(True, 1.5)
    with pytest.raises(InvalidInputError, match="between 0 and 1 on the probability scale"):
        total.add_cases(labels=[1], scores=[-0.5])
    outside = Evaluator()
    outside.add_cases(labels=[1, 0], scores=[0.5, -2.5])
    message = (
        r"an evaluator on the probability scale takes scores between 0 and 1, the other has -2\.5"
    )
    with pytest.raises(InvalidInputError, match=message):
        total.merge(outside)
    with pytest.raises(InvalidInputError, match=message):
        outside.merge(total)
    assert total.num_cases == 3


def test_a_cap_on_cells_drops_bits_and_never_counts():
    """Beyond the cap bits are dropped until the cells fit; every case stays counted."""
    ev = Evaluator(max_cells=64)
    rng = np.random.default_rng(6)
    seen = []
    for _ in range(20):
        ev.add_cases(labels=rng.random(50) < 0.5, scores=rng.normal(size=50))
        seen.append(ev.resolution)
        assert ev.num_cells <= 64
        ev._check()
    assert ev.num_cases == 1000
    assert seen[0] is None
    dropped = [53 if bits is None else bits for bits in seen]
    assert dropped == sorted(dropped, reverse=True)


def test_asking_changes_no_answer_where_cells_are_capped():
    """The bits that are left do not depend on the times of queries, removals included."""
    rng = np.random.default_rng(7)
    steps = []
    there: list[tuple[bool, float]] = []
    for _ in range(600):
        if there and rng.random() < 0.4:
            steps.append(("remove", *there.pop(int(rng.integers(len(there))))))
        else:
            there.append((bool(rng.random() < 0.5), float(np.round(rng.normal(), 1))))
            steps.append(("add", *there[-1]))
    results = set()
    for every in (1, 7, 10_000):
        ev = Evaluator(max_cells=12)
        for number, (verb, label, score) in enumerate(steps):
            (ev.add_case if verb == "add" else ev.remove_case)(label, score)
            if number % every == 0:
                ev.auc_roc()
        results.add(ev.to_bytes())
    assert len(results) == 1


def test_copies_are_equal_and_independent():
    """copy, deepcopy, pickle and bytes keep the content; copies keep the revision too."""
    ev = some_evaluator(resolution=30)
    for twin in (ev.copy(), copy.copy(ev), copy.deepcopy(ev), pickle.loads(pickle.dumps(ev))):
        assert twin == ev
        assert twin.revision == ev.revision
        assert twin.snapshot() == ev.snapshot()
        twin.add_case(True, 0.1)
        assert twin != ev
    assert Evaluator.from_bytes(ev.to_bytes()) == ev
    assert Evaluator.from_bytes(ev.to_bytes()).revision == 0


def test_equality_is_of_content():
    """Settings and counts are compared; revisions and other types are not."""
    assert some_evaluator() == some_evaluator()
    assert Evaluator() != Evaluator(resolution=8)
    assert Evaluator(resolution=8) != Evaluator(resolution=8, max_cells=9)
    assert Evaluator() != "Evaluator"
    a, b = Evaluator(), Evaluator()
    a.add_cases(labels=[1, 1], scores=[0.5, 0.25])
    b.add_case(True, 0.25)
    assert a != b
    b.add_case(True, 0.5)
    assert a == b
    with pytest.raises(TypeError, match="unhashable"):
        hash(a)


def test_subclasses_stay_themselves():
    """Copies and sums of a subclass are of that subclass."""

    class Named(Evaluator):
        pass

    assert type(Named().copy()) is Named
    assert type(Named() + Evaluator()) is Named
    assert type(Named.from_bytes(Named().to_bytes())) is Named


def test_no_way_leads_past_the_limit_of_counts() -> None:
    """Scalars, columns and misses in any order: the last case that fits is accepted, no more."""
    evaluator = Evaluator()
    evaluator.add_case(True, 0.5)
    evaluator.add_misses(2**62 - 4)
    evaluator.add_case(True, 0.5)
    evaluator.add_cases(labels=[0], scores=[0.1])
    for add in (
        lambda: evaluator.add_case(True, 0.5),
        lambda: evaluator.add_case(1, 0),
        lambda: evaluator.add_misses(1),
        lambda: evaluator.add_cases(labels=[0], scores=[0.1]),
    ):
        with pytest.raises(InvalidInputError, match=r"2\*\*62|4611686018427387904"):
            add()
    evaluator._check()
    assert evaluator.num_scored == 3
    assert Evaluator.from_bytes(evaluator.to_bytes()) == evaluator
