"""The service over HTTP: JSON, server-sent events, the page, what Prometheus scrapes.

- `http_server` listens (`patience`: not for ever), `app` is what is served.
- `routes` is the table of paths and methods; `transcoding` turns URLs and JSON into
  messages and back, `endpoints` calls the methods that gRPC calls, `events` streams.
- `gate`, `refusals`, `guarding` are what every request passes, `intake` what bodies do.
- `files` serves the page, of which `metric_table` writes one module.
- `metrics`, `stream_metrics`, `call_metrics` are for Prometheus.
"""
