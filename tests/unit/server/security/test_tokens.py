"""Tokens: creation, storage, comparison, reload."""

from __future__ import annotations

import codecs
import hashlib
import hmac
import os
import sys
import tomllib
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from streameval_server import SettingsError, create_token
from streameval_server._model.errors import Code, RequestError
from streameval_server._security import tokens
from streameval_server._security.access import Guard, bearer
from streameval_server._security.tokens import Scope, find_grant, read_tokens

if TYPE_CHECKING:
    from pathlib import Path

GOOD = "a" * 64


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a path for a tokens file."""
    return tmp_path / "tokens.toml"


def test_a_token_is_kept_as_a_hash_only(path: Path) -> None:
    """The file's content is not a token, and only its owner may read it."""
    token = create_token(path, "web-1", ["ingest", "query"], ["fraud", "spam/v1"])
    text = path.read_text()
    secret = token.rpartition(".")[2]
    assert len(secret) == 43
    assert secret not in text
    (entry,) = tomllib.loads(text)["token"]
    assert entry.pop("created").tzinfo is not None
    assert entry == {
        "id": "web-1",
        "hash": "sha256:" + hashlib.sha256(token.encode()).hexdigest(),
        "scopes": ["ingest", "query"],
        "streams": ["fraud", "spam/v1"],
    }
    assert path.stat().st_mode & 0o777 == 0o600
    assert len({create_token(path, f"other-{number}", ["query"]) for number in range(20)}) == 20


def test_making_one_leaves_the_others_as_they_are(path: Path) -> None:
    """The file's text stays, with its comments and permissions."""
    first = create_token(path, "a", ["query"])
    path.write_text("# Ours.\n" + path.read_text() + "\n\n")
    path.chmod(0o640)
    before = path.read_text().rstrip()
    second = create_token(path, "b", ["admin"])
    assert path.read_text().startswith(before + "\n\n[[token]]\n")
    assert path.stat().st_mode & 0o777 == 0o640
    grants = read_tokens(path).grants
    assert find_grant(grants, first) is grants["a"]
    assert find_grant(grants, second) is grants["b"]
    assert grants["b"].streams is None
    assert [entry.name for entry in path.parent.iterdir()] == ["tokens.toml"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("a b", ["query"]), "id must be 1 to 64 of A-Z a-z 0-9 _ -, got 'a b'"),
        (("a.b", ["query"]), "id must be 1 to 64"),
        (("", ["query"]), "id must be 1 to 64"),
        (("x", []), "scopes must be a list of ingest, query, sample, admin, got []"),
        (("x", ["all"]), "scopes must be a list of ingest, query, sample, admin, got ['all']"),
        (("x", ["query"], []), "streams must be a list of names, or absent for all; got []"),
        (("x", ["query"], ["fraud/"]), "stream name must be [A-Za-z0-9._-]+"),
        (("x", ["query"], ["fraud/.."]), "stream name must have no segment '.' or '..'"),
        (("x", ["query"], ['"']), "stream name must be [A-Za-z0-9._-]+"),
        (("taken", ["query"]), "has a token with the id taken already"),
    ],
)
def test_a_token_that_cannot_be_is_not_made(
    path: Path, arguments: tuple[Any, ...], problem: str
) -> None:
    """The error says why, and the file is unchanged."""
    create_token(path, "taken", ["query"])
    before = path.read_bytes()
    with pytest.raises(SettingsError) as caught:
        create_token(path, *arguments)
    assert problem in str(caught.value)
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == ["tokens.toml"]


def test_two_commands_do_not_undo_each_other(path: Path) -> None:
    """The second command reports the first."""
    with (
        tokens._rewriting(path),
        pytest.raises(SettingsError, match="another command is changing"),
    ):
        create_token(path, "x", ["query"])
    create_token(path, "x", ["query"])
    assert list(read_tokens(path).grants) == ["x"]


def test_a_link_to_a_file_stays_a_link(path: Path, tmp_path: Path) -> None:
    """The file that the link points to is changed."""
    real = tmp_path / "real.toml"
    path.symlink_to(real)
    create_token(path, "x", ["query"])
    assert path.is_symlink()
    assert list(read_tokens(real).grants) == ["x"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[[token]]\n", "token 1: hash must be sha256: and 64 hexadecimal digits"),
        (f"[[token]]\nhash = 'sha256:{GOOD}'\nscopes = ['query']", "token 1: id must be 1 to 64"),
        (f"[[token]]\nhash = 'sha256:{GOOD}'\nid = 'x'", "token 1: scopes must be a list of"),
        (f"[[token]]\nid = 'x'\nscopes = 'query'\nhash = 'sha256:{GOOD}'", "scopes must be a list"),
        (f"[[token]]\nid = 'x'\nscopes = ['query']\nhash = 'md5:{GOOD}'", "hash must be sha256:"),
        (
            f"[[token]]\nid = 'x'\nscopes = ['query']\nhash = 'sha256:{GOOD}'\nstreams = []",
            "streams",
        ),
        (
            f"[[token]]\nid = 'x'\nscopes = ['query']\nhash = 'sha256:{GOOD}'\nstream = ['a']",
            "there is no key 'stream'",
        ),
        (
            f"[[token]]\nid = 'x'\nscopes = ['query']\nhash = 'sha256:{GOOD}'\n" * 2,
            "token 2: the id x occurs twice",
        ),
        ("tokens = []", "every entry must be below [[token]]"),
        ("token = 3", "every entry must be below [[token]]"),
        ("token = [3]", "token 1: it must be a table"),
        ("[[token]", "cannot read the tokens file"),
        ("\udcff", "cannot read the tokens file"),
    ],
)
def test_a_file_that_is_not_right_is_refused_whole(path: Path, text: str, problem: str) -> None:
    """A misspelt limit must not become no limit."""
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(SettingsError) as caught:
        read_tokens(path)
    assert problem in str(caught.value)
    assert str(path) in str(caught.value)
    assert GOOD not in str(caught.value)


def test_a_byte_order_mark_is_no_content(path: Path) -> None:
    """Editors of Windows write one; it does not get between the tokens."""
    first = create_token(path, "a", ["query"])
    path.write_text(path.read_text(), encoding="utf-8-sig")
    second = create_token(path, "b", ["query"])
    grants = read_tokens(path).grants
    assert (find_grant(grants, first), find_grant(grants, second)) == (grants["a"], grants["b"])
    assert not path.read_bytes().startswith(codecs.BOM_UTF8)


@pytest.mark.skipif(sys.platform == "win32", reason="makes a FIFO")
def test_a_fifo_does_not_hold_the_server_that_reads_the_tokens(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither at the start nor while it serves: then the old tokens stay in force."""
    token = create_token(path, "a", ["query"])
    guard = Guard(path)
    path.unlink()
    os.mkfifo(path)
    guard.refresh()
    assert guard.authorise(token, Scope.QUERY).token_id == "a"
    assert "it is a FIFO or a pipe, not a regular file" in caplog.text
    with pytest.raises(SettingsError, match="it is a FIFO or a pipe"):
        Guard(path)


def test_a_token_for_a_stream_of_dots_is_refused_alone(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Older versions made such tokens. The others stay valid, and its id stays taken."""
    token = create_token(path, "x", ["query"])
    old = f"\n[[token]]\nid = 'old'\nscopes = ['query']\nhash = 'sha256:{GOOD}'\n"
    with path.open("a") as file:
        file.write(old + "streams = ['a', 'fraud/..']\n")
    guard = Guard(path)
    guard.authorise(token, Scope.QUERY)
    assert set(read_tokens(path).grants) == {"x"}
    (said,) = caplog.messages
    assert "token 2 (old) is not valid: stream name must have no segment" in said
    with pytest.raises(SettingsError, match="has a token with the id old already"):
        create_token(path, "old", ["query"])
    with path.open("a") as file:
        file.write(old)
    with pytest.raises(SettingsError, match="token 3: the id old occurs twice"):
        read_tokens(path)


def test_a_token_in_the_place_of_its_hash_is_not_repeated(path: Path) -> None:
    """The error message of this likely mistake does not contain the secret."""
    path.write_text("[[token]]\nid = 'x'\nscopes = ['query']\nhash = 'sv1.x.secret'\n")
    with pytest.raises(SettingsError) as caught:
        Guard(path)
    assert "secret" not in str(caught.value)


def test_digests_are_compared_in_constant_time(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only by hmac.compare_digest, on whole digests, for known and unknown ids alike."""
    token = create_token(path, "x", ["query"])
    grants = read_tokens(path).grants
    compared: list[tuple[bytes, bytes]] = []

    def compare(a: bytes, b: bytes) -> bool:
        compared.append((a, b))
        return hmac.compare_digest(a, b)

    monkeypatch.setattr(tokens, "hmac", type("Hmac", (), {"compare_digest": staticmethod(compare)}))
    tried = [token, token + "x", token[:-1], "sv1.y.z", "sv1.", "", "sv2." + token[4:], "\udcff"]
    found = [find_grant(grants, text) for text in tried]
    assert found == [grants["x"]] + [None] * (len(tried) - 1)
    assert len(compared) == len(tried)
    assert {len(side) for pair in compared for side in pair} == {32}


def test_scopes_stand_for_themselves(path: Path) -> None:
    """None of them includes another."""
    for scope in Scope:
        token = create_token(path, scope, [scope])
        guard = Guard(path)
        for other in Scope:
            if other is scope:
                guard.authorise(token, other, "any/stream")
            else:
                with pytest.raises(RequestError) as caught:
                    guard.authorise(token, other)
                assert caught.value.code is Code.PERMISSION_DENIED
                assert caught.value.metadata == {"scope": other, "scopes": scope}


def test_without_a_file_everybody_may_do_everything() -> None:
    """Also with a token, which a client may send anyway."""
    guard = Guard(None)
    for token in (None, "sv1.x.y"):
        access = guard.authorise(token, Scope.ADMIN, "a")
        access.need(Scope.INGEST, "b")
        assert (access.token_id, access.streams, access.forbids("c")) == ("", None, None)
    guard.refresh()


def test_what_changes_in_the_file_changes_for_those_who_are_in(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Narrowed at once, ended when deleted or replaced; a missing file changes nothing."""
    token = create_token(path, "x", ["ingest", "query"])
    guard = Guard(path)
    access = guard.authorise(token, Scope.INGEST, "a")
    text = path.read_text()

    def write(changed: str | None) -> None:
        path.unlink()
        if changed is not None:
            path.write_text(changed)
        guard.refresh()

    write(text.replace("scopes", 'streams = ["b"]\nscopes'))
    access.need(Scope.INGEST, "b")
    assert access.forbids("a") == "the token x is not for the stream 'a', but for b and below"
    write(text.replace('"ingest", ', ""))
    with pytest.raises(RequestError, match="this needs the scope ingest; the token x has query"):
        access.need(Scope.INGEST)
    access.need(Scope.QUERY)

    write(None)
    access.need(Scope.QUERY)
    said = caplog.messages[-1]
    assert said.startswith("the tokens stay as they were: cannot read the tokens file")
    count = len(caplog.messages)
    guard.refresh()
    assert len(caplog.messages) == count  # it is logged once

    path.write_text(text.replace('id = "x"', 'id = "y"'))
    guard.refresh()
    for ask in (access.need, lambda: access.forbids("a"), lambda: access.streams):
        with pytest.raises(RequestError, match="the token x was revoked") as caught:
            ask()
        assert (caught.value.code, caught.value.reason) == (Code.UNAUTHENTICATED, "TOKEN_REVOKED")
    # The id alone is not enough: the hash must match.
    write(_other_hash(text))
    with pytest.raises(RequestError, match="was revoked"):
        access.need()


def _other_hash(text: str) -> str:
    """Return a file with the same id and another token."""
    start = text.index("sha256:") + len("sha256:")
    return text[:start] + GOOD + text[start + 64 :]


@pytest.mark.parametrize(
    ("header", "token"),
    [
        (None, None),
        ("", None),
        ("Bearer", None),
        ("Bearer ", ""),
        ("bearer  abc ", "abc"),
        ("BEARER abc", "abc"),
        ("Token abc", None),
        ("Bearerabc", None),
    ],
)
def test_headers_of_other_schemes_hold_no_token(header: str | None, token: str | None) -> None:
    """The scheme's case does not matter, its name does."""
    assert bearer(header) == token


# --- Expiry -----------------------------------------------------------------------------------


def test_a_token_is_valid_until_it_expires(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Calls that were authorised before lose it too; tokens without a time stay valid."""
    begun = datetime.now(UTC).replace(microsecond=0)
    token = create_token(path, "ci", ["query"], valid_for=timedelta(days=90))
    forever = create_token(path, "web", ["query"])
    expires = read_tokens(path).grants["ci"].expires
    assert expires is not None
    assert timedelta(days=90) <= expires - begun < timedelta(days=91)
    now = [expires - timedelta(microseconds=1)]
    guard = Guard(path, lambda: now[0])
    access = guard.authorise(token, Scope.QUERY)
    access.need(Scope.QUERY)
    now[0] = expires
    for check in (
        lambda: guard.authorise(token, Scope.QUERY),
        lambda: access.need(Scope.QUERY),
        lambda: access.forbids("fraud"),
        lambda: access.streams,
    ):
        with pytest.raises(RequestError) as refused:
            check()
        assert (refused.value.code, refused.value.reason) == (Code.UNAUTHENTICATED, "TOKEN_EXPIRED")
        message = str(refused.value)
        assert f"the token ci expired at {expires:%Y-%m-%d %H:%M:%S} UTC" in message
        assert "'streameval admin token' makes" in message
    guard.authorise(forever, Scope.QUERY).need(Scope.QUERY)
    assert not caplog.records
    Guard(path, lambda: now[0])
    assert [record.message for record in caplog.records] == [f"{path}: the token ci has expired"]


@pytest.mark.parametrize("value", ["2027-01-01", "2027-01-01T00:00:00", '"2027-01-01T00:00:00Z"'])
def test_a_time_without_its_zone_is_refused(path: Path, value: str) -> None:
    """It would be valid for hours more or less than meant."""
    create_token(path, "ci", ["query"])
    path.write_text(f"{path.read_text()}expires = {value}\n")
    with pytest.raises(SettingsError, match=r"token 1: expires must be .* 2027-01-01T00:00:00Z"):
        read_tokens(path)


@pytest.mark.parametrize("span", [timedelta(0), timedelta(seconds=-1), timedelta.max])
def test_a_span_that_cannot_be_is_refused(path: Path, span: timedelta) -> None:
    """The file is not made."""
    with pytest.raises(SettingsError, match="a token"):
        create_token(path, "ci", ["query"], valid_for=span)
    assert not path.exists()
