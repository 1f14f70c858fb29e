"""Bearer tokens, and the file that says what each may do.

A token is ``sv1.ID.SECRET``. The secret is 256 random bits, and the file keeps the
SHA-256 of the whole token, so the file's content cannot be used as a token. A slow
hash (scrypt, Argon2) protects passwords, which can be guessed; 256 random bits
cannot, and each call would pay for the slow hash.

::

    [[token]]
    id = "web-1"
    streams = ["fraud"]        # fraud and everything below fraud/; absent: all streams
    scopes = ["ingest"]
    hash = "sha256:9f86d0..."
    expires = 2027-01-01T00:00:00Z   # absent: never

To rotate a token, add another, move the clients over, and delete the old entry; any
number of tokens are valid at a time. A lookup costs one SHA-256, about 1 us.
"""

from __future__ import annotations

import contextlib
import enum
import hashlib
import hmac
import os
import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from streameval.checks import (
    TOKEN_PREFIX,
    dot_segment_problem,
    is_at_or_below,
    read_text,
    read_toml,
    stream_name_problem,
)
from streameval_server._model.server_settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

_SECRET_BYTES = 32
_TIME = "%Y-%m-%dT%H:%M:%SZ"
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_HASH = re.compile(r"sha256:([0-9a-f]{64})\Z")
_UNMATCHED_DIGEST = bytes(32)
"""A digest that no token has: finding one would mean inverting SHA-256."""


class Scope(enum.StrEnum):
    """The scopes of tokens. No scope includes another."""

    INGEST = "ingest"
    """Send cases, predictions, labels, misses and merges."""
    QUERY = "query"
    """Read figures, curves, states and lists of streams."""
    SAMPLE = "sample"
    """Draw predictions to label, and so read their ids."""
    ADMIN = "admin"
    """Make, change and delete streams."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A token's entry in the file.

    Attributes
    ----------
    id : str
        Names the token in logs and messages; not secret.
    digest : bytes
        SHA-256 of the token.
    scopes : frozenset of Scope
    streams : tuple of str or None
        Each name covers its stream and every stream below it. None covers all.
    expires : datetime or None
        From this time on the token is not valid; None for never.
    """

    id: str
    digest: bytes
    scopes: frozenset[Scope]
    streams: tuple[str, ...] | None = None
    expires: datetime | None = None

    def covers(self, stream: str) -> bool:
        """Whether the token covers a stream.

        Examples
        --------
        >>> grant = Grant("web-1", b"", frozenset(), ("fraud",))
        >>> grant.covers("fraud"), grant.covers("fraud/v3"), grant.covers("fraudulent")
        (True, True, False)
        """
        return covers(self.streams, stream)


def covers(streams: tuple[str, ...] | None, stream: str) -> bool:
    """Whether a stream is one of `streams` or below one; None covers all streams."""
    return streams is None or is_at_or_below(streams, stream)


def find_grant(grants: Mapping[str, Grant], token: str) -> Grant | None:
    """Return the grant of a token; None when there is none.

    The comparison takes the same time wherever two digests differ, and is made
    for unknown ids too.
    """
    prefix, _, rest = token.partition(".")
    grant = grants.get(rest.partition(".")[0]) if prefix == TOKEN_PREFIX else None
    digest = hashlib.sha256(token.encode(errors="surrogatepass")).digest()
    same = hmac.compare_digest(digest, _UNMATCHED_DIGEST if grant is None else grant.digest)
    return grant if same else None


# --- The file ---------------------------------------------------------------------------------


class TokensFile(NamedTuple):
    """The content of a tokens file.

    Attributes
    ----------
    grants : dict of str to Grant
        By id.
    refused : dict of str to str
        Why a token is not valid, by its id: it names a stream with a segment ``.`` or
        ``..``. Older versions accepted that; the other tokens stay valid.
    """

    grants: dict[str, Grant]
    refused: dict[str, str]


def read_tokens(path: Path) -> TokensFile:
    """Read a tokens file. O(bytes).

    Raises
    ------
    SettingsError
        When it cannot be read, or an entry has an unknown key or a wrong value:
        a misspelt key must not widen what a token may do.
    """
    try:
        content = read_toml(path)
    except FileNotFoundError as error:
        raise SettingsError(
            f"cannot read the tokens file {path}: it does not exist; streameval admin token NAME "
            f"--tokens {path} --scope query creates it with a first token"
        ) from error
    except OSError as error:
        raise SettingsError(f"cannot read the tokens file {path}: {error.strerror}") from error
    except ValueError as error:
        raise SettingsError(f"cannot read the tokens file {path}: {error}") from error
    entries = content.pop("token", [])
    if content or not isinstance(entries, list):
        raise SettingsError(f"{path}: every entry must be below [[token]]")
    grants: dict[str, Grant] = {}
    refused: dict[str, str] = {}
    for number, entry in enumerate(entries, 1):
        try:
            grant = _grant(entry)
        except _EntryError as error:
            raise SettingsError(f"{path}: token {number}: {error}") from None
        if grant.id in grants or grant.id in refused:
            raise SettingsError(f"{path}: token {number}: the id {grant.id} occurs twice")
        problem = _dot_problem(grant.streams)
        if problem is None:
            grants[grant.id] = grant
        else:
            refused[grant.id] = f"{path}: token {number} ({grant.id}) is not valid: {problem}"
    return TokensFile(grants, refused)


class _EntryError(Exception):
    """An invalid entry; caught in this module."""


def _grant(entry: object) -> Grant:
    if not isinstance(entry, dict):
        raise _EntryError("it must be a table")
    unknown = sorted(entry.keys() - {"id", "hash", "scopes", "streams", "created", "expires"})
    if unknown:
        raise _EntryError(f"there is no key {unknown[0]!r}")
    hashed = _HASH.match(entry["hash"]) if isinstance(entry.get("hash"), str) else None
    if hashed is None:
        # The value is not quoted: it may be a token, pasted by mistake.
        raise _EntryError("hash must be sha256: and 64 hexadecimal digits")
    streams = entry.get("streams")
    return Grant(
        _checked_id(entry.get("id")),
        bytes.fromhex(hashed[1]),
        _checked_scopes(entry.get("scopes")),
        None if streams is None else _checked_streams(streams),
        _checked_time(entry.get("expires")),
    )


def _checked_id(value: object) -> str:
    if not isinstance(value, str) or _ID.match(value) is None:
        raise _EntryError(f"id must be 1 to 64 of A-Z a-z 0-9 _ -, got {value!r}")
    return value


def _checked_scopes(values: object) -> frozenset[Scope]:
    names = [scope.value for scope in Scope]
    if not isinstance(values, (list, tuple)) or not values or set(map(str, values)) - set(names):
        raise _EntryError(f"scopes must be a list of {', '.join(names)}, got {values!r}")
    return frozenset(map(Scope, values))


def _checked_streams(values: object) -> tuple[str, ...]:
    if not isinstance(values, (list, tuple)) or not values:
        raise _EntryError(f"streams must be a list of names, or absent for all; got {values!r}")
    for value in values:
        problem = stream_name_problem(str(value))
        if problem is not None:
            raise _EntryError(f"streams: {problem}")
    return tuple(map(str, values))


def _checked_time(value: object) -> datetime | None:
    if value is None or (isinstance(value, datetime) and value.tzinfo is not None):
        return value
    raise _EntryError(
        f"expires must be a date and time with its zone, like 2027-01-01T00:00:00Z, got {value!s}"
    )


def _dot_problem(streams: tuple[str, ...] | None) -> str | None:
    """Return why streams cannot be covered safely; None when they can."""
    return next(filter(None, map(dot_segment_problem, streams or ())), None)


def create_token(
    path: Path,
    id_: str,
    scopes: Iterable[str],
    streams: Iterable[str] | None = None,
    *,
    valid_for: timedelta | None = None,
) -> str:
    """Make a token, add its hash to a tokens file, and return it; it is stored nowhere.

    A running server that uses the file reads the change within a second.

    Parameters
    ----------
    path
        The tokens file; created, readable by its owner only, when there is none.
    id_
        Names the token in logs and messages.
    scopes
        Of ``ingest``, ``query``, ``admin``.
    streams
        The streams that it is limited to; None for all.
    valid_for
        The time until it expires; None for never.

    Raises
    ------
    SettingsError
        When a value is not allowed, the id is taken, or the file cannot be
        read or written; the file stays as it was.
    """
    path = path.resolve()
    try:
        _checked_id(id_)
        chosen = sorted(_checked_scopes(list(scopes)))
        limits = None if streams is None else _checked_streams(list(streams))
    except _EntryError as error:
        raise SettingsError(str(error)) from None
    problem = _dot_problem(limits)
    if problem is not None:
        raise SettingsError(f"streams: {problem}")
    now = datetime.now(UTC)
    expires = _expiry(now, valid_for)
    try:
        with _rewriting(path) as write:
            present = read_tokens(path) if path.exists() else TokensFile({}, {})
            if id_ in present.grants or id_ in present.refused:
                raise SettingsError(
                    f"{path} has a token with the id {id_} already: choose another, or delete "
                    "its entry"
                )
            token = f"{TOKEN_PREFIX}.{id_}.{secrets.token_urlsafe(_SECRET_BYTES)}"
            digest = hashlib.sha256(token.encode()).hexdigest()
            lines = ["[[token]]", f'id = "{id_}"']
            if limits is not None:
                lines.append(f"streams = [{_quoted(limits)}]")
            lines.append(f"scopes = [{_quoted(chosen)}]")
            lines.append(f'hash = "sha256:{digest}"')
            lines.append(f"created = {now:{_TIME}}")
            if expires is not None:
                lines.append(f"expires = {expires:{_TIME}}")
            before = read_text(path).rstrip() + "\n\n" if path.exists() else ""
            write(before.lstrip() + "\n".join(lines) + "\n")
    except OSError as error:
        raise SettingsError(f"cannot write the tokens file {path}: {error}") from error
    return token


def _expiry(now: datetime, valid_for: timedelta | None) -> datetime | None:
    if valid_for is None:
        return None
    if valid_for < timedelta(seconds=1):
        raise SettingsError(f"a token must be valid for at least 1 s, got {valid_for}")
    try:
        return now + valid_for
    except OverflowError:
        raise SettingsError(
            f"a token cannot be valid for {valid_for.days:,} days: leave it out for never"
        ) from None


@contextlib.contextmanager
def _rewriting(path: Path) -> Iterator[Callable[[str], int]]:
    """Yield a function that writes a file's new text; the file is replaced at the end.

    The new text is written to ``<name>.new`` in the same directory. That file is created
    exclusively, so two commands cannot change the tokens at the same time.
    """
    new = path.with_name(path.name + ".new")
    try:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise SettingsError(
            f"another command is changing {path}; if none is, delete {new} and try again"
        ) from None
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            if path.exists():
                _copy_permissions(path, new)
            yield file.write
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except BaseException:
        new.unlink()
        raise


def _copy_permissions(path: Path, new: Path) -> None:
    """Give the new file the owner and the mode of the one that it replaces."""
    stat = path.stat()
    new.chmod(stat.st_mode & 0o777)
    if hasattr(os, "chown"):
        os.chown(new, stat.st_uid, stat.st_gid)


def _quoted(values: Iterable[str]) -> str:
    # Names have neither quotes nor backslashes.
    return ", ".join(f'"{value}"' for value in values)
