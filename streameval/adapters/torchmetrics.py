"""A torchmetrics metric that is exact, for AUC-PR, average precision and AUC-ROC.

Its state is two columns of scores, one for each class. torchmetrics concatenates
them across the processes of a job, across batches in ``forward``, and in
``merge_state``. A case takes 8 B on the metric's device; ``update`` is O(n) for a
batch of n, ``compute`` sorts: O(N log N) for N cases in all.

Needs torch and torchmetrics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from streameval._counts.columns import check_columns
from streameval._evaluator import Evaluator
from streameval.adapters._areas import area_of

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray

__all__ = ["BinaryArea"]


class BinaryArea(Metric):
    """An area under the PR or ROC curve, as a torchmetrics metric.

    Parameters
    ----------
    metric : str
        "auc_pr", "average_precision", "auc_roc", or the optimistic areas of
        the hull, "auc_pr_hull" and "auc_roc_hull".
    **kwargs
        Passed to :class:`torchmetrics.Metric`.

    Raises
    ------
    InvalidInputError
        For an unknown metric.

    Notes
    -----
    Scores may be logits: no sigmoid is applied. There is no ``ignore_index``:
    leave such rows out. ``compute()`` is nan while a class that the area needs is
    absent, where torchmetrics returns 0. Several areas in one ``MetricCollection``
    share one state.

    Examples
    --------
    >>> import torch
    >>> from streameval.adapters.torchmetrics import BinaryArea
    >>> metric = BinaryArea(metric="average_precision")
    >>> metric.update(torch.tensor([0.9, 0.7, 0.4, 0.1]), torch.tensor([1, 0, 1, 0]))
    >>> metric.compute()
    tensor(0.8333)
    """

    is_differentiable = False
    higher_is_better = True
    full_state_update = False  # forward may update an empty state and concatenate
    plot_lower_bound = 0.0
    plot_upper_bound = 1.0

    positives: list[torch.Tensor] | torch.Tensor
    negatives: list[torch.Tensor] | torch.Tensor

    def __init__(self, metric: str = "auc_pr", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.metric = area_of(metric).name
        # The empty column of a process without data needs this type, too.
        self.set_dtype(torch.float64)
        self.add_state("positives", default=[], dist_reduce_fx="cat")
        self.add_state("negatives", default=[], dist_reduce_fx="cat")

    def update(self, preds: torch.Tensor, target: torch.Tensor) -> None:
        """Add a batch.

        Parameters
        ----------
        preds : tensor
            Finite scores of any shape; higher means more positive.
        target : tensor
            As many labels, 0 or 1, or booleans.

        Raises
        ------
        InvalidInputError
            With the first invalid value. The metric is unchanged then.
        """
        # Columns are checked as numpy arrays on the CPU; numpy has no bfloat16.
        scores, targets = (column.detach().flatten().cpu() for column in (preds, target))
        labels, values, _ = check_columns(
            labels=targets.numpy(),
            scores=(scores.double() if scores.is_floating_point() else scores).numpy(),
        )
        self.positives.append(self._column(values[labels]))
        self.negatives.append(self._column(values[~labels]))

    def compute(self) -> torch.Tensor:
        """Return the area as a scalar tensor; nan where it is undefined."""
        return torch.tensor(area_of(self.metric).value(self.evaluator()), device=self.device)

    def evaluator(self) -> Evaluator:
        """Return an evaluator of this process's cases, for intervals, curves and bounds.

        Within ``sync_context()`` it has the cases of all processes. O(N log N).
        """
        counted = Evaluator()
        for positive, column in ((True, self.positives), (False, self.negatives)):
            if len(column):
                scores = dim_zero_cat(column).cpu().numpy()
                counted.add_cases(labels=np.full(scores.size, positive), scores=scores)
        return counted

    def _column(self, scores: FloatArray) -> torch.Tensor:
        return torch.from_numpy(scores).to(self.device)
