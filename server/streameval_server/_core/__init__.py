"""The core: from batches to a durable log to applied state; no threads, clocks or sockets.

- In: `admission`, `batch`, `batch_columns`, `merge`, `pieces`, `session` check what arrives;
  `rows` is what is in it.
- `committer` decides its order (`draft`, `marks`, `catalog`), writes `entries` to a
  `storage` and hands them to the `applier`.
- `engine` is what the log means; `checkpoint` and `replay` bring it back, and
  `compaction` lets the log begin anew; `importing` takes a stream from elsewhere.
- `core` puts it together; `limits`, `names`, `errors` are shared; `failpoints` is where
  tests end it.
"""
