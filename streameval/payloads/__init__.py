"""Rows out of the payloads that model servers log: KServe, Seldon, BentoML, SageMaker, ...

A `PayloadMapping` says where in a payload the score, the label, the id, the time and the
segments are; `read_rows` returns the rows of one event, and the reason for each row that
cannot be counted. Every way in uses it: CloudEvents and OpenTelemetry's logs over HTTP, files,
and ``streameval mapping try``. Needs the extra ``payloads``.
"""

from streameval.payloads._body import (
    MAX_UNPACKED_BYTES,
    TooLongError,
    UnknownEncodingError,
    check_parts,
    unpack,
)
from streameval.payloads._event import (
    Event,
    UnreadableEvent,
    is_cloud_event,
    iter_events,
    read_event,
    read_events,
)
from streameval.payloads._extraction import MAX_EVENT_ROWS, read_rows
from streameval.payloads._log_records import (
    MAX_LOG_RECORDS,
    log_record_event,
    read_log_records,
    readable,
    too_many_log_records,
)
from streameval.payloads._mapping import PayloadMapping, mappings_of, wanted_types
from streameval.payloads._presets import PRESETS
from streameval.payloads._rows import Extraction, PayloadRow, Reason, Refusal
from streameval.payloads._wire_fields import MAX_FIELDS, check_fields, fields_of

__all__ = [
    "MAX_EVENT_ROWS",
    "MAX_FIELDS",
    "MAX_LOG_RECORDS",
    "MAX_UNPACKED_BYTES",
    "PRESETS",
    "Event",
    "Extraction",
    "PayloadMapping",
    "PayloadRow",
    "Reason",
    "Refusal",
    "TooLongError",
    "UnknownEncodingError",
    "UnreadableEvent",
    "check_fields",
    "check_parts",
    "fields_of",
    "is_cloud_event",
    "iter_events",
    "log_record_event",
    "mappings_of",
    "read_event",
    "read_events",
    "read_log_records",
    "read_rows",
    "readable",
    "too_many_log_records",
    "unpack",
    "wanted_types",
]
