"""Who may do what: the one place that decides it, for gRPC and for HTTP.

`Guard` knows the tokens; `Guard.authorise` answers a call's first question,
and the `Access` that it returns answers the later ones, for as long as the call
lasts: a token that is taken away, or narrowed, is so for open streams too.
Without a tokens file everybody may do everything; that is for servers that
only their own machine reaches.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from streameval_server._model.errors import Code, RequestError
from streameval_server._model.server_settings import SettingsError
from streameval_server._security.tokens import Scope, granted, read_grants
from streameval_server._security.watch import signature

if TYPE_CHECKING:
    from pathlib import Path

    from streameval_server._security.tokens import Grant

_log = logging.getLogger(__name__)

_SCHEME = "bearer "
_LONGEST_SHOWN = 128


class Guard:
    """Decides by a tokens file, and follows its changes.

    Parameters
    ----------
    path
        The tokens file; None lets everybody do everything.

    Raises
    ------
    SettingsError
        When the file cannot be read.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._grants: dict[str, Grant] = {}
        self._seen = signature()
        if path is not None:
            self._seen = signature(path)
            self._grants = read_grants(path)

    @property
    def is_open(self) -> bool:
        """Whether there are no tokens, and everybody may do everything."""
        return self._path is None

    def refresh(self) -> None:
        """Read the file again if it has changed; O(1) if not.

        A file that is gone or wrong leaves the tokens as they were, and says
        so in the log: half of an edit must not lock everybody out.
        """
        path = self._path
        if path is None:
            return
        now = signature(path)
        if now == self._seen:
            return
        self._seen = now
        try:
            self._grants = read_grants(path)
        except SettingsError as error:
            _log.error("the tokens stay as they were: %s", error)
        else:
            _log.warning("the tokens file was read again: %d tokens", len(self._grants))

    def authorise(
        self, token: str | None, scope: Scope | None = None, stream: str | None = None
    ) -> Access:
        """Let a call in, or say why not.

        Parameters
        ----------
        token
            What the caller sent; None when it sent none.
        scope
            What the call needs; None when any token will do.
        stream
            The stream that it is about, if it is about one that is known yet.

        Raises
        ------
        RequestError
            UNAUTHENTICATED without a token that is known; PERMISSION_DENIED
            when the token is not for this.
        """
        if self._path is None:
            return Access(self, None)
        if token is None:
            raise RequestError(
                Code.UNAUTHENTICATED,
                "this server wants a token: send the header 'authorization: Bearer TOKEN'",
                reason="TOKEN_MISSING",
            )
        grant = granted(self._grants, token)
        if grant is None:
            raise RequestError(
                Code.UNAUTHENTICATED,
                "the token is not known to this server: it is mistyped, or was taken away",
                reason="TOKEN_UNKNOWN",
            )
        access = Access(self, grant)
        access.need(scope, stream)
        return access

    def current(self, grant: Grant) -> Grant:
        """Return what a token that was let in is granted now.

        Raises
        ------
        RequestError
            UNAUTHENTICATED when it was taken away.
        """
        now = self._grants.get(grant.id)
        if now is None or now.digest != grant.digest:
            raise RequestError(
                Code.UNAUTHENTICATED,
                f"the token {grant.id} was taken away",
                reason="TOKEN_REVOKED",
            )
        return now


class Access:
    """What a call may do: made by `Guard.authorise`."""

    __slots__ = ("_grant", "_guard")

    def __init__(self, guard: Guard, grant: Grant | None) -> None:
        self._guard = guard
        self._grant = grant

    @property
    def who(self) -> str:
        """The id of the token; empty where there are no tokens."""
        return "" if self._grant is None else self._grant.id

    @property
    def streams(self) -> tuple[str, ...] | None:
        """What the token is limited to; None for all streams. Raises as `need`."""
        return None if self._grant is None else self._guard.current(self._grant).streams

    def need(self, scope: Scope | None = None, stream: str | None = None) -> None:
        """Go on if the token is for this now.

        Raises
        ------
        RequestError
            UNAUTHENTICATED when it was taken away; PERMISSION_DENIED when it is
            not for this.
        """
        if self._grant is None:
            return
        grant = self._guard.current(self._grant)
        if scope is not None and scope not in grant.scopes:
            raise RequestError(
                Code.PERMISSION_DENIED,
                f"this needs the scope {scope}; the token {grant.id} has "
                f"{', '.join(sorted(grant.scopes))}",
                reason="SCOPE_MISSING",
                metadata={"scope": scope},
            )
        if stream is not None and not grant.covers(stream):
            raise RequestError(
                Code.PERMISSION_DENIED, _forbidden(grant, stream), reason="STREAM_FORBIDDEN"
            )

    def need_everything(self) -> None:
        """Go on if the token is for all streams now. Raises as `need`."""
        streams = self.streams
        if streams is not None:
            raise RequestError(
                Code.PERMISSION_DENIED,
                f"this is about all streams; the token {self.who} is for {', '.join(streams)} "
                "and below",
                reason="STREAM_FORBIDDEN",
            )

    def forbids(self, stream: str) -> str | None:
        """Say why the token is not for a stream; None when it is. Raises as `need`."""
        if self._grant is None:
            return None
        grant = self._guard.current(self._grant)
        return None if grant.covers(stream) else _forbidden(grant, stream)


def _forbidden(grant: Grant, stream: str) -> str:
    shown = stream if len(stream) <= _LONGEST_SHOWN else stream[:_LONGEST_SHOWN] + "..."
    streams = ", ".join(grant.streams or ())
    return f"the token {grant.id} is not for the stream {shown!r}, but for {streams} and below"


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
