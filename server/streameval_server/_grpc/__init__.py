"""The service over gRPC: thin handlers around the core and the queries.

- `server` starts and stops: services, health, `reflection`.
- `ingest_service`, `stream_service` (with `alarm_methods` and `mark_methods`), `pair_service`,
  `query_service`, `admin_service` are the handlers; `pages` has the tokens of their pages.
- `answered_stream` moves requests and answers of `Ingest`; `merge_calls` serves merges, whose
  pieces `merge_pieces` reads. `open_requests` reads the requests that need no token.
- `interceptor` wraps every call: authorise, check, log, answer errors.
- `call_log` writes a line per call; `status` turns errors into gRPC's status.
- `methods` calls the same handlers from HTTP, in this process.
"""
