"""The figures of a Spark DataFrame; needs the extra ``streameval[spark]``.

Spark distributes the rows and recovers from failures; the states that tasks exchange
are the library's own. Any number of them merge, in any order, to the counts of one
process that had read every row.

- `evaluate`: one row of figures for each group of a DataFrame; with ``shards``,
  exact also where a group's distinct scores fit no single node.
- `states`: evaluators as bytes for each group and pane, to keep in a table or to
  `push` to servers.
- `push_stream`: Structured Streaming into servers, each micro-batch once.

Its modules: `_columns` (checks and selects the columns), `_arrow` (Spark's types as
Arrow's), `_partial` (rows to states, in each task), `_result_rows` (states to metrics),
`_evaluate` and `_sharded` (with whole groups, and with ranges of scores), `_push`
(states to servers). Tasks import streameval on the executors, so it must be
installed on every node.
"""

from streameval._common.extras import needs_extra as _needs_extra

with _needs_extra("spark"):
    from streameval.spark._evaluate import evaluate, states
    from streameval.spark._push import push, push_stream

__all__ = ["evaluate", "push", "push_stream", "states"]
