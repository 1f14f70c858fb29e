"""The log: what it holds and how it is stored.

- `entries` are the rows of the log, as stored and as decoded, and the items they come from.
- `producer_marks` and `catalog` are what the committer derives from all entries: how far
  each producer has come, and the facts about each stream.
- `storage` is the interface to a disk, `sqlite` its implementation in a file, with `schema`,
  `wal_checkpointer` and `commit_times`.
- `checkpoint` writes the state in parts, `backup` copies a log that is in use.
- `data_directory` locks a directory for one server; `failpoints` are for tests.
"""
