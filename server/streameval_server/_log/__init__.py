"""The log: what it holds and how it is stored.

- `rows` are the rows of the log as stored: columns, numbers, checksums. What they mean to
  streams and producers is the core's.
- `storage` is the interface to a disk, `sqlite` its implementation in a file, with `schema`,
  `wal_copier` and `commit_times`.
- `checkpoint` writes the state in parts, `backup` copies a log that is in use.
- `acked_revision` and `wal_scan` are witnesses of what was acknowledged; `loss_check` compares
  the log with them, `loss` says what is missing, `history` keeps it with the log's number.
- `data_directory` locks a directory for one server; `failpoints` are for tests.
"""
