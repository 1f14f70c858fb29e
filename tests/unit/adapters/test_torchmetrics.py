"""The torchmetrics adapter, inside torchmetrics."""

from __future__ import annotations

import copy
import math
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from streameval import Evaluator, InvalidInputError

if TYPE_CHECKING:
    from types import ModuleType

    from streameval.adapters.torchmetrics import BinaryArea

# torchmetrics warns whenever an empty metric is computed.
EMPTY = "ignore:The ``compute`` method of metric:UserWarning"


@pytest.fixture(scope="module")
def torch(require) -> ModuleType:
    """Return torch."""
    return require("torch")


@pytest.fixture(scope="module")
def host(require) -> ModuleType:
    """Return torchmetrics."""
    return require("torchmetrics")


@pytest.fixture
def make(require) -> type[BinaryArea]:
    """Return the adapter's class."""
    require("torchmetrics")
    adapter: type[BinaryArea] = require("streameval.adapters.torchmetrics").BinaryArea
    return adapter


def batches(count: int = 5, size: int = 40, seed: int = 1) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return batches of probabilities, with ties, and of labels."""
    rng = np.random.default_rng(seed)
    drawn = []
    for _ in range(count):
        labels = rng.random(size) < 0.3
        drawn.append((np.round(rng.beta(1 + labels, 2), 2), labels.astype(np.int64)))
    return drawn


def expected(rows: list[tuple[np.ndarray, np.ndarray]]) -> Evaluator:
    """Return an evaluator of such batches."""
    ev = Evaluator()
    for scores, labels in rows:
        ev.add_cases(labels=labels, scores=scores)
    return ev


@pytest.fixture
def feed(torch):
    """Return a function that hands batches to a metric's update."""

    def update(metric, rows) -> None:
        for scores, labels in rows:
            metric.update(torch.from_numpy(scores), torch.from_numpy(labels))

    return update


def test_agrees_with_the_host_s_exact_metrics(torch, make, require) -> None:
    """On probabilities AP and AUC-ROC are those of torchmetrics without thresholds."""
    peers = require("torchmetrics.classification")
    pairs = [
        (make(metric="average_precision"), peers.BinaryAveragePrecision()),
        (make(metric="auc_roc"), peers.BinaryAUROC()),
    ]
    for ours, theirs in pairs:
        for scores, labels in batches():
            for metric in (ours, theirs):
                metric.update(torch.from_numpy(scores), torch.from_numpy(labels))
        assert float(ours.compute()) == pytest.approx(float(theirs.compute()), abs=1e-6)


def test_counts_what_an_evaluator_counts(make, feed) -> None:
    """Its evaluator equals one that was filled directly."""
    metric = make()
    feed(metric, batches())
    assert metric.evaluator() == expected(batches())
    assert float(metric.compute()) == pytest.approx(expected(batches()).auc_pr(), abs=1e-7)


def test_forward_gives_the_batch_and_keeps_the_whole(torch, make) -> None:
    """Calling the metric returns the batch's area and adds the batch."""
    metric = make(metric="auc_roc")
    rows = batches()
    for scores, labels in rows:
        value = metric(torch.from_numpy(scores), torch.from_numpy(labels))
        assert float(value) == pytest.approx(expected([(scores, labels)]).auc_roc(), abs=1e-7)
    assert metric.evaluator() == expected(rows)
    assert metric.update_count == len(rows)


def test_collection(torch, host, make) -> None:
    """In a MetricCollection several areas share one state, beside torchmetrics' own metrics."""
    names = ("auc_pr", "average_precision", "auc_roc")
    figures = {name: make(metric=name) for name in names}
    collection = host.MetricCollection({**figures, "theirs": host.AUROC(task="binary")})
    rows = batches()
    for scores, labels in rows:
        collection.update(torch.from_numpy(scores), torch.from_numpy(labels))
    values = collection.compute()
    assert set(names) in [set(group) for group in collection.compute_groups.values()]
    ev = expected(rows)
    assert float(values["auc_pr"]) == pytest.approx(ev.auc_pr(), abs=1e-6)
    assert float(values["average_precision"]) == pytest.approx(ev.average_precision(), abs=1e-6)
    assert float(values["auc_roc"]) == pytest.approx(float(values["theirs"]), abs=1e-6)
    collection.reset()
    assert collection["auc_pr"].evaluator() == Evaluator()


@pytest.mark.filterwarnings(EMPTY)
def test_reset(make, feed) -> None:
    """After a reset nothing is counted, and the area is undefined."""
    metric = make()
    feed(metric, batches())
    metric.compute()
    metric.reset()
    assert metric.evaluator() == Evaluator()
    assert math.isnan(metric.compute())


def test_clone_copy_pickle(make, feed) -> None:
    """Clones, copies and pickles keep the counts and are independent."""
    metric = make(metric="auc_roc")
    feed(metric, batches())
    for other in (metric.clone(), copy.deepcopy(metric), pickle.loads(pickle.dumps(metric))):
        assert other.evaluator() == metric.evaluator()
        assert other.compute() == metric.compute()
        feed(other, batches(1, seed=2))
        assert other.evaluator() != metric.evaluator()


def test_state_dict(make, feed) -> None:
    """Made persistent, the state goes into a checkpoint and comes back."""
    metric, restored = make(), make()
    assert not metric.state_dict()
    metric.persistent(True)
    restored.persistent(True)
    feed(metric, batches())
    restored.load_state_dict(metric.state_dict())
    assert restored.evaluator() == metric.evaluator()


def test_merge_state(make, feed) -> None:
    """`merge_state` adds the cases of another metric."""
    one, other = make(), make()
    feed(one, batches(2))
    feed(other, batches(3, seed=2))
    one.merge_state(other)
    assert one.evaluator() == expected([*batches(2), *batches(3, seed=2)])


def test_lower_precision_is_kept_as_it_is(torch, make) -> None:
    """float16 and bfloat16 scores are widened, not rounded further; half() changes nothing."""
    scores = torch.tensor([0.1, 0.2, 0.30001, 0.3])
    for dtype in (torch.float16, torch.bfloat16):
        metric = make().half()
        metric.update(scores.to(dtype), torch.tensor([True, False, True, False]))
        direct = Evaluator()
        direct.add_cases(labels=[1, 0, 1, 0], scores=scores.to(dtype).double().numpy())
        assert metric.evaluator() == direct


def test_shapes_gradients_integers(torch, make) -> None:
    """Any shape is flattened, gradients are detached, integer scores are taken."""
    metric = make()
    preds = torch.tensor([[0.9, 0.7], [0.4, 0.1]], requires_grad=True)
    metric.update(preds, torch.tensor([[1, 0], [1, 0]]))
    metric.update(torch.tensor([3, 1]), torch.tensor([1.0, 0.0]))
    direct = Evaluator()
    direct.add_cases(labels=[1, 0, 1, 0], scores=preds.detach().double().flatten().numpy())
    direct.add_cases(labels=[1, 0], scores=[3, 1])
    assert metric.evaluator() == direct
    assert not metric.compute().requires_grad


@pytest.mark.parametrize(
    ("preds", "target", "message"),
    [
        ([0.5, math.nan], [1, 0], "score must be finite, got nan at index 1"),
        ([0.5, 0.4], [1, 2], "label must be True, False, 1 or 0, got 2 at index 1"),
        ([0.5, 0.4, 0.3], [1, 0], "scores must have one row for each of labels, got 3 rows and 2"),
        ([True, False], [1, 0], "score must be a number, got True at index 0"),
    ],
)
def test_what_is_refused_changes_nothing(torch, make, preds, target, message) -> None:
    """A bad value is refused with its index, and no row of the batch is counted."""
    metric = make()
    with pytest.raises(InvalidInputError, match=message):
        metric.update(torch.tensor(preds), torch.tensor(target))
    assert metric.evaluator() == Evaluator()


def weighted(rows: list[tuple[np.ndarray, np.ndarray]], seed: int = 3) -> list[np.ndarray]:
    """Return weights of such batches, which float32 does not hold, and some of 0."""
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 5, scores.size) * 70_000.25 + 2.0**-16 for scores, _ in rows]


def expected_weighted(rows, weights) -> Evaluator:
    """Return an evaluator of batches with weights."""
    ev = Evaluator()
    for (scores, labels), column in zip(rows, weights, strict=True):
        ev.add_cases(labels=labels, scores=scores, weights=column)
    return ev


def test_weights_agree_with_scikit_learn(torch, make, require) -> None:
    """Fractional weights, some of 0: the areas with `sample_weight`."""
    peers = require("sklearn.metrics")
    rows = batches()
    scores, labels = (np.concatenate(column) for column in zip(*rows, strict=True))
    rng = np.random.default_rng(8)
    weights = rng.integers(0, 64, scores.size) / 16
    for name, theirs in (
        ("average_precision", peers.average_precision_score),
        ("auc_roc", peers.roc_auc_score),
    ):
        metric = make(metric=name)
        metric.update(*(torch.from_numpy(each) for each in (scores, labels, weights)))
        truth = theirs(labels, scores, sample_weight=weights)
        assert float(metric.compute()) == pytest.approx(truth, abs=1e-6)
    assert metric.evaluator().auc_roc() == pytest.approx(truth, rel=1e-9)


def test_weights_beside_cases_without(torch, make, feed) -> None:
    """Batches with and without weights are counted together; merging keeps each weight."""
    rows, more = batches(2), batches(2, seed=5)
    weights = weighted(more)
    one, other = make(), make()
    feed(one, rows)
    for (scores, labels), column in zip(more, weights, strict=True):
        other.update(*(torch.from_numpy(each) for each in (scores, labels)), torch.tensor(column))
    assert other.evaluator() == expected_weighted(more, weights)
    one.merge_state(other)
    everything = expected_weighted(more, weights)
    everything.merge(expected(rows))
    assert one.evaluator() == everything
    assert pickle.loads(pickle.dumps(one)).evaluator() == everything


def test_forward_with_weights(torch, make) -> None:
    """Calling the metric with weights returns the batch's area and adds the batch."""
    metric = make(metric="auc_roc")
    rows = batches()
    weights = weighted(rows)
    for (scores, labels), column in zip(rows, weights, strict=True):
        value = metric(
            torch.from_numpy(scores),
            torch.from_numpy(labels),
            sample_weight=torch.from_numpy(column),
        )
        of_batch = expected_weighted([(scores, labels)], [column])
        assert float(value) == pytest.approx(of_batch.auc_roc(), abs=1e-7)
    assert metric.evaluator() == expected_weighted(rows, weights)


def test_weights_of_one_are_none(torch, make, feed) -> None:
    """They leave the state of cases without weights."""
    plain, ones = make(), make()
    feed(plain, batches())
    for scores, labels in batches():
        ones.update(torch.from_numpy(scores), torch.from_numpy(labels), torch.ones(scores.size))
    assert ones.evaluator().to_bytes() == plain.evaluator().to_bytes()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, -0.5], "weight must be .* got -0.5 at index 1"),
        ([1.0, math.nan], "weight must be .* got nan at index 1"),
        ([1.0], "sample_weight must have one row for each of target, got 1 row"),
    ],
)
def test_refused_weights_change_nothing(torch, make, weights, message) -> None:
    """A bad weight is refused with its index, and no row of the batch is counted."""
    metric = make()
    with pytest.raises(InvalidInputError, match=message):
        metric.update(torch.tensor([0.5, 0.4]), torch.tensor([1, 0]), torch.tensor(weights))
    assert metric.evaluator() == Evaluator()


def test_unknown_figure(make) -> None:
    """An unknown area is refused with the known ones."""
    with pytest.raises(InvalidInputError, match=r"metric must be one of auc_pr, .* got 'f1'"):
        make(metric="f1")


def work(rank: int, address: str) -> None:
    """Run as one of three processes, the second of which has no data."""
    import torch
    import torch.distributed as dist

    from streameval.adapters.torchmetrics import BinaryArea

    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=3)
    try:
        rows = [batches(3), [], batches(1, size=7, seed=2)]
        everything = expected([each for part in rows for each in part])
        metric = BinaryArea()
        for scores, labels in rows[rank]:
            metric.update(torch.from_numpy(scores), torch.from_numpy(labels))
        assert abs(float(metric.compute()) - everything.auc_pr()) < 1e-6
        assert metric.evaluator() == expected(rows[rank])
        with metric.sync_context():
            assert metric.evaluator() == everything
        weights = [weighted(part, seed=rank) for rank, part in enumerate(rows)]
        if rank == 0:  # The others have cases without weights, and none.
            metric.reset()
            for (scores, labels), column in zip(rows[0], weights[0], strict=True):
                metric.update(
                    torch.from_numpy(scores), torch.from_numpy(labels), torch.from_numpy(column)
                )
        everything = expected_weighted(rows[0], weights[0])
        everything.merge(expected(rows[2]))
        with metric.sync_context():
            assert metric.evaluator() == everything
    finally:
        dist.destroy_process_group()


@pytest.mark.heavy
@pytest.mark.usefixtures("host")
def test_distributed(tmp_path) -> None:
    """Real processes, one of them without data, compute the area of all data."""
    code = (
        "import importlib.util, sys;"
        "spec = importlib.util.spec_from_file_location('work', sys.argv[1]);"
        "module = importlib.util.module_from_spec(spec);"
        "spec.loader.exec_module(module);"
        "module.work(int(sys.argv[2]), sys.argv[3])"
    )
    address = (tmp_path / "meeting").as_uri()
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, __file__, str(rank), address],
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(3)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=100)
        assert process.returncode == 0, errors


CONVERSIONS = ["bfloat16", "float16", "float32", "half", "float", "double", "set_dtype", "to_empty"]


@pytest.mark.parametrize("conversion", CONVERSIONS)
def test_the_state_keeps_its_type(torch, make, feed, conversion: str) -> None:
    """Of a model that is converted with the metric in it: rounded scores would tie.

    Met in torchmetrics#484, #1561 and #2314 (DeepSpeed), eora-ai/torchok#103 (bfloat16).
    """
    rows = [(scores + 1e-9 * np.arange(scores.size), labels) for scores, labels in batches()]
    model = torch.nn.ModuleDict({"net": torch.nn.Linear(1, 1), "area": make(metric="auc_roc")})
    area = model["area"]
    area.persistent(True)
    feed(area, rows[:3])
    weighted = torch.tensor([0.3, 0.7]), torch.tensor([0, 1]), torch.tensor([0.5, 1.5])
    area.update(*weighted)
    if conversion == "set_dtype":
        area.set_dtype(torch.float16)
    elif conversion == "to_empty":
        model.to(device="cpu", dtype=torch.bfloat16, non_blocking=True)
    elif hasattr(torch.nn.Module, conversion):
        getattr(model, conversion)()
    else:
        model.to(getattr(torch, conversion))
    feed(area, rows[3:])
    whole = make(metric="auc_roc")
    feed(whole, rows)
    whole.update(*weighted)
    assert area.compute() == whole.compute()
    assert area.evaluator() == whole.evaluator()
    assert area.dtype == torch.float64
    assert {each.dtype for each in area.positives + area.weighted_positives} == {torch.float64}
    loaded = make(metric="auc_roc")
    loaded.load_state_dict(area.state_dict())
    assert loaded.evaluator() == whole.evaluator()


def test_a_state_of_fewer_bits_is_read(torch, make) -> None:
    """It was rounded by its user; nothing that was counted is unreadable."""
    metric = make(metric="auc_roc")
    metric.persistent(True)
    metric.update(torch.tensor([0.75, 0.25]), torch.tensor([1, 0]))
    state = {
        name: [each.to(torch.bfloat16) for each in columns]
        for name, columns in metric.state_dict().items()
    }
    loaded = make(metric="auc_roc")
    loaded.persistent(True)
    loaded.load_state_dict(state)
    assert loaded.evaluator() == metric.evaluator()


def test_labels_that_are_missing_are_refused(torch, make) -> None:
    """They are no negatives; nothing is counted."""
    metric = make()
    with pytest.raises(InvalidInputError, match="label must be True, False, 1 or 0, got nan"):
        metric.update(torch.tensor([0.5, 0.4]), torch.tensor([1.0, float("nan")]))
    assert not metric.evaluator().num_cases
