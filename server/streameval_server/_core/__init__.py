"""The core: durable log entries and the state they add up to; no threads, clocks or sockets.

- `entries` are rows of the log as decoded, and the items they come from.
- `catalog`, `producer_marks` and `log_time` are what the committer derives from all entries: the
  facts about each stream, how far each producer has come, what falls due.
- `committer` puts submitted items in order and commits them to a storage; `transaction` is
  one commit in preparation, `storage_work` the storage work between commits.
- `applier` queues durable entries and feeds them to the `engine`, which holds all streams;
  `engine_pairs` has its pairs, `engine_clock` the server's time. `id_room` lets predictions wait
  for labels before ids expire early.
- `replay` turns a storage back into an engine; `recovery` opens a storage at the start and
  puts engine, applier and committer together as a `ServerCore`. `state_check` makes one stream
  as the log gives it.
"""
