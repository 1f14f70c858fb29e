"""The table of routes: which path calls which method. `_security.rules` has the access rules.

Reads are GET, with the request's fields as parameters; changes are POST, PATCH or
DELETE, with the request in the body. The name in a path is the stream's or the pair's.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

_QUERY = "streameval.v1.QueryService"
_STREAMS = "streameval.v1.StreamService"
_ADMIN = "streameval.v1.AdminService"
_INGEST = "streameval.v1.IngestService"
_PAIRS = "streameval.v1.PairService"


class Answer(enum.Enum):
    """How a method's answers are sent."""

    JSON = enum.auto()
    """One message."""
    EVENTS = enum.auto()
    """Each message as an event, as it comes."""
    BYTES = enum.auto()
    """The data of all messages, joined."""


@dataclass(frozen=True, slots=True)
class Route:
    """One path.

    Attributes
    ----------
    verb : str
        The HTTP method.
    path : str
        ``{name}`` is the name of a stream or pair; it may contain slashes.
    method : str
        The full name of the method.
    name : str
        The request's field for the name in the path.
    answer : Answer
    event : str
        The name of the events.
    """

    verb: str
    path: str
    method: str
    name: str = ""
    answer: Answer = Answer.JSON
    event: str = ""


_SELECTED = "selection.stream"

# Starlette takes the first match, so more specific paths come first.
ROUTES = (
    Route("GET", "/v1/server", f"{_ADMIN}/GetServerStatus"),
    Route("GET", "/v1/streams", f"{_STREAMS}/ListStreams"),
    Route("POST", "/v1/streams", f"{_STREAMS}/CreateStream"),
    Route("GET", "/v1/streams:snapshots", f"{_QUERY}/BatchGetSnapshots"),
    Route("GET", "/v1/streams:compare", f"{_QUERY}/CompareStreams"),
    Route(
        "GET",
        "/v1/streams:watch",
        f"{_QUERY}/WatchSnapshots",
        answer=Answer.EVENTS,
        event="snapshots",
    ),
    Route("GET", "/v1/pairs", f"{_PAIRS}/ListPairs"),
    Route("POST", "/v1/pairs", f"{_PAIRS}/CreatePair"),
    Route("GET", "/v1/pairs/{name}:compare", f"{_PAIRS}/GetPairComparison", "name"),
    Route("GET", "/v1/pairs/{name}:windows", f"{_PAIRS}/ListPairComparisons", "name"),
    Route("GET", "/v1/pairs/{name}", f"{_PAIRS}/GetPair", "name"),
    Route("DELETE", "/v1/pairs/{name}", f"{_PAIRS}/DeletePair", "name"),
    Route("GET", "/v1/streams:summaries", f"{_QUERY}/ListStreamSummaries"),
    Route(
        "GET",
        "/v1/streams:watchSummaries",
        f"{_QUERY}/WatchStreamSummaries",
        answer=Answer.EVENTS,
        event="summaries",
    ),
    Route("GET", "/v1/alarms", f"{_STREAMS}/ListAlarms"),
    Route("POST", "/v1/streams/{name}:acknowledge", f"{_STREAMS}/AcknowledgeAlarm", "stream"),
    Route("GET", "/v1/streams/{name}:marks", f"{_STREAMS}/ListMarks", "stream"),
    Route("POST", "/v1/streams/{name}:marks", f"{_STREAMS}/CreateMark", "stream"),
    Route("DELETE", "/v1/streams/{name}:marks", f"{_STREAMS}/DeleteMark", "stream"),
    Route("POST", "/v1/streams/{name}:ingest", f"{_INGEST}/IngestBatch", "batch.stream"),
    Route("GET", "/v1/streams/{name}:snapshot", f"{_QUERY}/GetSnapshot", _SELECTED),
    Route("GET", "/v1/streams/{name}:verdict", f"{_QUERY}/GetVerdict", "stream"),
    Route("POST", "/v1/streams/{name}:acceptNormal", f"{_STREAMS}/AcceptNormal", "stream"),
    Route("GET", "/v1/streams/{name}:curve", f"{_QUERY}/GetCurve", _SELECTED),
    Route("GET", "/v1/streams/{name}:histogram", f"{_QUERY}/GetHistogram", _SELECTED),
    Route("GET", "/v1/streams/{name}:reliability", f"{_QUERY}/GetReliability", _SELECTED),
    Route("GET", "/v1/streams/{name}:decision", f"{_QUERY}/GetDecision", _SELECTED),
    Route("GET", "/v1/streams/{name}:windows", f"{_QUERY}/ListWindows", _SELECTED),
    Route("GET", "/v1/streams/{name}:rank", f"{_QUERY}/RankSegments", _SELECTED),
    Route("GET", "/v1/streams/{name}:sample", f"{_QUERY}/SampleForLabels", _SELECTED),
    Route("GET", "/v1/streams/{name}:state", f"{_QUERY}/GetState", _SELECTED, Answer.BYTES),
    Route(
        "GET",
        "/v1/streams/{name}:watch",
        f"{_QUERY}/WatchSnapshot",
        _SELECTED,
        Answer.EVENTS,
        "snapshot",
    ),
    Route("GET", "/v1/streams/{name}", f"{_STREAMS}/GetStream", "name"),
    Route("PATCH", "/v1/streams/{name}", f"{_STREAMS}/UpdateStream", "stream.name"),
    Route("DELETE", "/v1/streams/{name}", f"{_STREAMS}/DeleteStream", "name"),
)
