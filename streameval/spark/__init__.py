"""Past one machine: the figures of a Spark DataFrame; needs the extra ``streameval[spark]``.

Spark moves rows and survives failures; the states that it moves are the
library's own. Any number of them add up, in any order, to what one process that
had seen every row would have counted.

- `evaluate`: one row of figures for each group of a DataFrame; with ``shards``,
  exact also where a group's distinct scores fit no single node.
- `states`: evaluators as bytes for each group and pane, to keep in a table or to
  `push` to servers.
- `push_stream`: Structured Streaming into servers, each micro-batch once.

Its modules: `_columns` (which columns, and what is in them), `_partial` (rows to
states, where the rows are), `_result_rows` (states to metrics), `_evaluate` and
`_sharded` (the two ways), `_push` (states to servers). What runs on executors
imports streameval there: it must be installed on every node.
"""

from streameval.spark._evaluate import evaluate, states
from streameval.spark._push import push, push_stream

__all__ = ["evaluate", "push", "push_stream", "states"]
