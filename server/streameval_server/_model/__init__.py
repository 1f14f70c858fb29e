"""The ground of the server, which imports nothing above it.

- `errors` end a call or refuse a batch; `limits` bound memory and answers.
- `server_settings`, `stream_settings`, `alarm_settings` and `pair_settings` are checked settings;
  `names` checks names, `crossed_keys` crosses two segment keys.
- `row_kinds` are a batch's decoded columns, `arrays` their types; `stream_info` describes a stream.
- `alarm_change` and `mark` are what the log says of alarms and annotations; `idempotency` makes a
  change that is sent again apply once.
- `connections`: how many a server takes.
- `threads` has a doorbell, a fair lock and other tools for threads.
"""
