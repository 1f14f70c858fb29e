"""The service over gRPC: thin handlers around the core and the queries.

- `server` starts and stops: services, health, reflection.
- `ingest_service`, `stream_service`, `query_service`, `admin_service` are the handlers.
- `answered_stream` moves requests and answers of `Ingest`; `merge_calls` serves merges.
- `interceptor` wraps every call: authorise, check, log, answer errors.
- `call_log` writes a line per call; `status` turns errors into gRPC's status.
- `methods` calls the same handlers from HTTP, in this process.
"""
