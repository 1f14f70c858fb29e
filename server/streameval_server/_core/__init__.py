"""The core: durable log entries and the state they add up to; no threads, clocks or sockets.

- `committer` puts submitted items in order and commits them to a storage; `transaction` is
  one commit in preparation, `checkpoint_tasks` the storage work between commits.
- `applier` queues durable entries and feeds them to the `engine`, which holds all streams.
- `replay` turns a storage back into an engine; `recovery` opens a storage at the start and
  puts engine, applier and committer together as a `ServerCore`.
"""
