"""The process around the core: threads, the disk, settings, logs.

- `service`: gRPC and HTTP as one. `runtime`, `threads`, `answering`: who runs what;
  `open_calls`: whom a stop waits for.
- `sqlite_log`: the log and its checkpoints on disk, with `wal_copier` beside it; `lock`
  keeps others out.
- `server_status`, `commit_times`, `backup`: of a server that runs; `verification`,
  `restoring`, `offline`: of a data directory without one; `history`: as it was.
- `configuration`, `settings`, `logs`, `serve`: from the command line to an exit.
"""
