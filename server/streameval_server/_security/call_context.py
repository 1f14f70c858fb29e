"""The call that is being served: who made it, and the id that its log lines carry.

Set by the gate that every call passes, for as long as the call's task runs.
"""

from __future__ import annotations

import re
import secrets
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streameval_server._security.access import Access

REQUEST_ID_HEADER = "x-request-id"
"""Header in which a caller may send an id of its own for a call."""

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")


@dataclass(slots=True)
class Call:
    """One call in progress.

    Attributes
    ----------
    method : str
        What was called, for instance ``streameval.v1.QueryService/GetSnapshot``.
    request_id : str
        Names the call in the log and in its error.
    access : Access or None
        What it may do; None until that is known, and where nothing is asked.
    reason : str
        ErrorInfo's reason when it ended with an error.
    """

    method: str
    request_id: str
    access: Access | None = None
    reason: str = ""


current: ContextVar[Call] = ContextVar("streameval_call")
"""The call of this task."""


def current_access() -> Access:
    """Return what the call of this task may do.

    Raises
    ------
    LookupError
        Outside of a call: then nothing is allowed.
    """
    access = current.get().access
    if access is None:
        raise LookupError("nobody was let in")
    return access


def request_id(sent: str | None) -> str:
    """Return the caller's id for a call if it is one, else a new one of 16 digits.

    Examples
    --------
    >>> request_id("job-7"), len(request_id("a b")), len(request_id(None))
    ('job-7', 16, 16)
    """
    if sent is not None and _REQUEST_ID.match(sent) is not None:
        return sent
    return secrets.token_hex(8)
