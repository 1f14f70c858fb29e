"""The ground of the server, which imports nothing above it.

- `errors` end a call or refuse a batch; `limits` bound memory and answers.
- `server_settings` and `stream_settings` are checked settings; `names` checks names.
- `rows` are a batch's decoded columns; `stream_info` describes a stream.
- `threads` has a doorbell, a fair lock and other tools for threads.
"""
