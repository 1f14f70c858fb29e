"""A real model's predictions, case by case, and live AUC-PR.

A logistic regression separates scikit-learn's handwritten eights from the other
digits. The demo streams its out-of-fold scores into the server, prints the live
metrics as they change, and at the end compares them with scikit-learn's on the
same scores.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from streameval.cli._evaluate import draw

if TYPE_CHECKING:
    from streameval.client import Client

SEED = 8
STREAM = "digits-eight/logistic"
PICTURE = Path("demo-out/digits.png")
PRINT_EVERY = 200
EQUAL_WITHIN = 1e-12

console = Console(highlight=False)


def out_of_fold_scores() -> tuple[np.ndarray, np.ndarray]:
    """Return labels and scores, each from a model that was not trained on its digit."""
    images, digits = load_digits(return_X_y=True)
    is_eight = digits == 8
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.001, max_iter=1000))
    folds = StratifiedKFold(n_splits=5, shuffle=True, random_state=SEED)
    scores = cross_val_predict(model, images, is_eight, cv=folds, method="decision_function")
    order = np.random.default_rng(SEED).permutation(len(scores))
    return is_eight[order], scores[order]


def stream_digits(client: Client) -> bool:
    """Stream the scores; return whether the server's metrics equal scikit-learn's."""
    labels, scores = out_of_fold_scores()
    console.print(f"{'cases':>7} {'positive':>9} {'AUC-PR':>9} {'achievable':>11} {'AUC-ROC':>9}")
    stream = client.stream(STREAM)
    for row, (label, score) in enumerate(zip(labels, scores, strict=True), start=1):
        stream.add_case(bool(label), float(score))
        if row % PRINT_EVERY == 0 or row == len(scores):
            stream.flush()
            live = stream.snapshot()
            console.print(
                f"{row:>7,} {live.num_positive_ref:>9,} {live.auc_pr:>9.4f} "
                f"{live.auc_pr_hull:>11.4f} {live.auc_roc:>9.4f}"
            )
    final = stream.snapshot()
    evaluator = stream.evaluator()

    PICTURE.parent.mkdir(exist_ok=True)
    draw(evaluator, PICTURE, name="is it an 8?")

    table = Table(title="\nThe same scores", title_justify="left", box=None, pad_edge=False)
    for title in ("", "streameval, live", "scikit-learn, batch", "difference"):
        table.add_column(title, justify="right" if title else "left")
    equal = True
    for name, ours, theirs in (
        ("AUC-ROC", final.auc_roc, roc_auc_score(labels, scores)),
        ("average precision", final.average_precision, average_precision_score(labels, scores)),
    ):
        equal &= abs(ours - theirs) <= EQUAL_WITHIN
        table.add_row(name, f"{ours:.12f}", f"{theirs:.12f}", f"{abs(ours - theirs):.1e}")
    table.add_row("AUC-PR, interpolated", f"{final.auc_pr:.12f}", "not offered", "")
    table.add_row("AUC-PR, achievable", f"{final.auc_pr_hull:.12f}", "not offered", "")
    console.print(table)
    console.print(f"\nROC and PR curves with their hulls: {PICTURE}")
    return equal
