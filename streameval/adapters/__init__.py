"""Adapters: an `Evaluator` in the shape that another library's users expect.

- ``streameval.adapters.river``: a metric with ``update``, ``revert`` and ``get``.
- ``streameval.adapters.torchmetrics``: ``update``, ``compute`` and ``reset``.
- ``streameval.adapters.sklearn``: scorers for searches, validation, early stops.

Each needs its host library, which is the user's own; ``import streameval`` imports
none of them. mlflow and wandb need no adapter: docs/adapters.md.
"""
