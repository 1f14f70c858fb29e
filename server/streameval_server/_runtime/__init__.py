"""The threads around the core, and the event loop's side of them.

- `runtime`: starts and stops everything; what services call. `core_threads`: the committer
  and the applier.
- `query_threads`: waits for revisions and computes answers; `watch`, `watch_summaries`: streams
  of answers.
- `open_calls`: the calls that a stop waits for; `server_status`: the server's own report;
  `early_expiry`: what it says of ids that expired early.
- `state_checks`: compares the state with the log; `machine_time`: the machine's clocks.
"""
