"""The service over HTTP: JSON, server-sent events, the page, what Prometheus scrapes.

- `http_server` listens, `connection_limits` bounds connections, `head_timeout` limits how long
  a request's head may take; `app` is the ASGI application.
- `routes` is the table of paths and methods. `transcoding` converts URLs and JSON to
  messages and back, `endpoints` calls the methods that gRPC calls, `events` streams;
  `openapi` describes them.
- `cloud_events` and `otlp_logs` take payloads by a `payload_endpoint`, and from senders without
  tokens by the `intake_app`.
- `call_runner` authorises and logs every request for data. `request_bodies` reads
  bodies within limits, `error_responses` are the answers to failed requests, and
  `security_headers` are on every response.
- `files` serves the page, of which `metrics_script` writes one module.
- `metrics`, `stream_metrics`, `alarm_metrics`, `projection_metrics`, `pair_metrics`,
  `call_metrics` serve Prometheus, `histogram_metrics` adds histograms of durations.
"""
