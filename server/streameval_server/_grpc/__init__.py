"""The service over gRPC: thin handlers around the core and the queries.

- `server`: services, health, reflection, an orderly end.
- `ingest_service`, `stream_service`, `query_service`, `admin_service`, `calls`, `handlers`.
- `methods`: the same methods, for callers in this process.
- `gate`, `call_log`, `current`, `status`: what every call passes.
"""
