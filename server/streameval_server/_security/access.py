"""Decides what a caller may do: one place, for gRPC and for HTTP.

The checks, by `_grpc.interceptor` and `_web.call_runner` alike:

1. `authorise_call`, once per call, before anything of the request is decoded: the
   token must be known and have the scope of the method's rule.
2. `CallCheck.check_request`, for each request of the call: the token must cover every
   stream that the request names.
3. `CallCheck.check_answer`, for each answer of a stream and for the one answer of a
   call that only reads: the token must still cover all that the requests named. Once a
   second `Guard.refresh` does the same for streams that have no answer to send.

The reader of an Ingest stream, whose requests are encoded frames, calls `Access.need`
and `Access.forbids` for each batch.

Every check looks the token up in the `Guard` again, so it notices a token that was
revoked or narrowed, or has expired, during the call. Without a tokens file every caller may do
everything; that is meant for servers that only their own machine reaches.
"""

from __future__ import annotations

import logging
import re
import secrets
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from streameval_server._model.errors import Code, RequestError
from streameval_server._model.pair_settings import no_pair
from streameval_server._model.server_settings import SettingsError
from streameval_server._security.answer_streams import AnswerStreams
from streameval_server._security.file_signature import file_signature
from streameval_server._security.tokens import Scope, covers, find_grant, read_tokens

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from streameval_server._model.pair_settings import PairInfo
    from streameval_server._security.rules import Rule
    from streameval_server._security.tokens import Grant

_log = logging.getLogger(__name__)

TOKEN_HEADER = "authorization"  # noqa: S105 - its name
REQUEST_ID_HEADER = "x-request-id"
"""Header in which a caller may send an id of its own for a call."""

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")
_SCHEME = "bearer "
_MAX_SHOWN_CHARACTERS = 128


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Guard:
    """Authorises calls by a tokens file, and follows its changes.

    Parameters
    ----------
    path
        The tokens file; None lets every caller do everything.
    now
        The clock that tells which tokens have expired.

    Attributes
    ----------
    streams : AnswerStreams
        The open answer streams of all calls.

    Raises
    ------
    SettingsError
        When the file cannot be read.
    """

    def __init__(self, path: Path | None, now: Callable[[], datetime] = _utc_now) -> None:
        self._path = path
        self._now = now
        self.streams = AnswerStreams()
        self._grants: dict[str, Grant] = {}
        self._signature = file_signature()
        if path is not None:
            self._signature = file_signature(path)
            self._read(path)

    @property
    def is_open(self) -> bool:
        """Whether there are no tokens, so that every caller may do everything."""
        return self._path is None

    def refresh(self) -> None:
        """Read the file again if it has changed; end streams that are no longer covered.

        When the file is missing or invalid, the tokens stay as they were and the
        log says so: a half-finished edit must not lock every caller out. O(open streams).
        """
        self._read_if_changed()
        self.streams.end_refused()

    def _read_if_changed(self) -> None:
        path = self._path
        if path is None:
            return
        signature = file_signature(path)
        if signature == self._signature:
            return
        self._signature = signature
        try:
            self._read(path)
        except SettingsError as error:
            _log.error("the tokens stay as they were: %s", error)
        else:
            _log.warning("the tokens file was read again: %d tokens", len(self._grants))

    def _read(self, path: Path) -> None:
        """Replace the tokens by the file's valid ones; warn of each invalid one."""
        self._grants, refused = read_tokens(path)
        for problem in refused.values():
            _log.warning("%s", problem)
        for grant in self._grants.values():
            if self._has_expired(grant):
                _log.warning("%s: the token %s has expired", path, grant.id)

    def authorise(
        self, token: str | None, scope: Scope | None = None, stream: str | None = None
    ) -> Access:
        """Return what a caller may do, or refuse the call.

        Parameters
        ----------
        token
            The caller's token; None when it sent none.
        scope
            The scope that the call requires; None when any known token will do.
        stream
            The stream that the call is about, if it is known yet.

        Raises
        ------
        RequestError
            UNAUTHENTICATED when the token is missing or unknown, or has expired;
            PERMISSION_DENIED when it lacks the scope or the stream.
        """
        if self._path is None:
            return Access(self, None)
        if token is None:
            raise RequestError(
                Code.UNAUTHENTICATED,
                "this server requires a token: send the header 'authorization: Bearer TOKEN'",
                reason="TOKEN_MISSING",
            )
        grant = find_grant(self._grants, token)
        if grant is None:
            raise RequestError(
                Code.UNAUTHENTICATED,
                "the token is not known to this server: it is mistyped, or was revoked",
                reason="TOKEN_UNKNOWN",
            )
        access = Access(self, grant)
        access.need(scope, stream)
        return access

    def current_grant(self, grant: Grant) -> Grant:
        """Return what the token of an authorised call is granted now.

        Raises
        ------
        RequestError
            UNAUTHENTICATED when the token was revoked or has expired.
        """
        now = self._grants.get(grant.id)
        if now is None or now.digest != grant.digest:
            raise RequestError(
                Code.UNAUTHENTICATED,
                f"the token {grant.id} was revoked",
                reason="TOKEN_REVOKED",
            )
        if self._has_expired(now):
            raise RequestError(
                Code.UNAUTHENTICATED,
                f"the token {now.id} expired at {now.expires:%Y-%m-%d %H:%M:%S %Z}: "
                "use a new one, which 'streameval admin token' makes",
                reason="TOKEN_EXPIRED",
            )
        return now

    def _has_expired(self, grant: Grant) -> bool:
        return grant.expires is not None and grant.expires <= self._now()


class Access:
    """What one call may do; made by `Guard.authorise`."""

    __slots__ = ("_grant", "_guard")

    def __init__(self, guard: Guard, grant: Grant | None) -> None:
        self._guard = guard
        self._grant = grant

    @property
    def token_id(self) -> str:
        """The id of the token; empty on a server without tokens."""
        return "" if self._grant is None else self._grant.id

    @property
    def is_limited(self) -> bool:
        """Whether there is a token, so that a check may refuse."""
        return self._grant is not None

    @property
    def streams(self) -> tuple[str, ...] | None:
        """The streams that the token is limited to; None for all. Raises as `need`."""
        return None if self._grant is None else self._guard.current_grant(self._grant).streams

    def need(self, scope: Scope | None = None, stream: str | None = None) -> None:
        """Return when the token covers the scope and the stream now.

        Raises
        ------
        RequestError
            UNAUTHENTICATED when the token was revoked or has expired; PERMISSION_DENIED when it
            lacks the scope or the stream.
        """
        if self._grant is None:
            return
        grant = self._guard.current_grant(self._grant)
        if scope is not None and scope not in grant.scopes:
            raise RequestError(
                Code.PERMISSION_DENIED,
                f"this needs the scope {scope}; the token {grant.id} has "
                f"{', '.join(sorted(grant.scopes))}",
                reason="SCOPE_MISSING",
                metadata={"scope": scope, "scopes": ", ".join(sorted(grant.scopes))},
            )
        if stream is not None and not grant.covers(stream):
            raise RequestError(
                Code.PERMISSION_DENIED, _forbidden(grant, stream), reason="STREAM_FORBIDDEN"
            )

    def has(self, scope: Scope, stream: str) -> bool:
        """Whether `need` would return. Raises as `need` when the token is no longer valid."""
        if self._grant is None:
            return True
        grant = self._guard.current_grant(self._grant)
        return scope in grant.scopes and grant.covers(stream)

    def need_everything(self) -> None:
        """Return when the token covers all streams now. Raises as `need`."""
        streams = self.streams
        if streams is not None:
            raise RequestError(
                Code.PERMISSION_DENIED,
                f"this is about all streams; the token {self.token_id} is for {', '.join(streams)} "
                "and below",
                reason="STREAM_FORBIDDEN",
            )

    def covers_pair(self, info: PairInfo) -> bool:
        """Whether the token covers both streams of a pair now. Raises as `need`."""
        streams = self.streams
        return covers(streams, info.a) and covers(streams, info.b)

    def check_pair(self, info: PairInfo | None, name: str) -> PairInfo:
        """Return the pair of a name that the token covers now, with both of its streams.

        Raises
        ------
        RequestError
            NOT_FOUND when there is none, or the token does not cover it: the caller may not
            know that it exists. As `need` when the token is no longer valid.
        """
        if info is None or not self.covers_pair(info):
            raise no_pair(name)
        return info

    def forbids(self, stream: str) -> str | None:
        """Return why the token does not cover a stream; None when it does. Raises as `need`."""
        if self._grant is None:
            return None
        grant = self._guard.current_grant(self._grant)
        return None if grant.covers(stream) else _forbidden(grant, stream)


def _forbidden(grant: Grant, stream: str) -> str:
    shown = stream
    if len(stream) > _MAX_SHOWN_CHARACTERS:
        shown = stream[:_MAX_SHOWN_CHARACTERS] + "..."
    streams = ", ".join(grant.streams or ())
    return f"the token {grant.id} is not for the stream {shown!r}, but for {streams} and below"


# --- The call in progress ---------------------------------------------------------------------


@dataclass(slots=True)
class CallInProgress:
    """One call in progress.

    Attributes
    ----------
    method : str
        The full name of the method, for instance ``streameval.v1.QueryService/GetSnapshot``.
    request_id : str
        Names the call in the log and in its error.
    access : Access or None
        What the caller may do; None before it is authorised, and for methods that
        need no token.
    reason : str
        ErrorInfo's reason when the call ended with an error.
    """

    method: str
    request_id: str
    access: Access | None = None
    reason: str = ""


current_call: ContextVar[CallInProgress] = ContextVar("streameval_call")
"""The call that this task serves; set for as long as the task runs."""


def current_access() -> Access:
    """Return what the caller of this task's call may do.

    Raises
    ------
    LookupError
        Outside of an authorised call: then nothing is allowed.
    """
    access = current_call.get().access
    if access is None:
        raise LookupError("the call in progress was not authorised")
    return access


def authorise_call(guard: Guard, header: str | None, rule: Rule) -> None:
    """Authorise the call of this task by its ``authorization`` header.

    Raises
    ------
    RequestError
        When the token allows less than the rule requires.
    """
    access = current_call.get().access = guard.authorise(bearer(header), rule.scope)
    if rule.everything:
        access.need_everything()


class CallCheck:
    """Checks the token of this task's call for each request and each answer.

    Parameters
    ----------
    rule
        What the method requires.

    Attributes
    ----------
    is_limited : bool
        Whether `check_answer` may ever refuse: not without tokens, nor for methods
        that need none.

    Notes
    -----
    Each check takes O(streams named by the requests so far).
    """

    __slots__ = ("_access", "_rule", "_streams", "is_limited")

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._access = current_call.get().access
        self._streams: tuple[str, ...] = ()
        self.is_limited = self._access is not None and self._access.is_limited

    def check_request(self, request: object) -> None:
        """Check a request, and remember the streams that it names.

        Raises
        ------
        RequestError
            When the token does not cover the call or a stream, or no longer does;
            INVALID_ARGUMENT when the request is encoded and cannot be decoded.
        """
        if self._access is not None:
            streams = tuple(self._rule.streams_of(request))
            if self.is_limited:
                self._streams += streams
                self.check_answer()

    def check_answer(self) -> None:
        """Check that the token still covers the call and all streams of its requests.

        Raises
        ------
        RequestError
            When it does not.
        """
        access, scope = self._access, self._rule.scope
        if access is None:
            return
        access.need(scope)
        if self._rule.everything:
            access.need_everything()
        for stream in self._streams:
            access.need(scope, stream)


def bearer(header: str | None) -> str | None:
    """Return the token of an ``authorization`` header; None when it holds none.

    Examples
    --------
    >>> bearer("Bearer sv1.web-1.s3cret"), bearer("Basic dXNlcjpwYXNz"), bearer(None)
    ('sv1.web-1.s3cret', None, None)
    """
    if header is None or not header.lower().startswith(_SCHEME):
        return None
    return header[len(_SCHEME) :].strip()


def request_id(sent: str | None) -> str:
    """Return the id that the caller sent if it is valid, else a new one of 16 digits.

    Examples
    --------
    >>> request_id("job-7"), len(request_id("a b")), len(request_id(None))
    ('job-7', 16, 16)
    """
    if sent is not None and _REQUEST_ID.match(sent) is not None:
        return sent
    return secrets.token_hex(8)
