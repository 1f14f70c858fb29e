"""Adapters: an `Evaluator` behind the interfaces of other libraries.

- ``streameval.adapters.river``: a metric with ``update``, ``revert`` and ``get``.
- ``streameval.adapters.torchmetrics``: ``update``, ``compute`` and ``reset``.
- ``streameval.adapters.sklearn``: scorers for searches, validation, early stopping.

Each needs its host library, which the user installs; ``import streameval`` imports
none of them. mlflow and wandb need no adapter: docs/adapters.md.
"""
