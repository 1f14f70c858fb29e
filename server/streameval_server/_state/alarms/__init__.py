"""A stream's detector.

- `stream_alarms`: waits for its reference (`alarm_reference`), then watches.
- `watched_rows`: rows that it has not observed yet.
"""
