"""The settings that a server can be started with."""

import os
import sys
from pathlib import Path

import pytest

from streameval_server import DataDirectoryInUseError, Settings, SettingsError
from streameval_server._log.data_directory import DirectoryLock, directory_owner_problem
from streameval_server._model.errors import StorageError
from streameval_server._model.server_settings import is_loopback
from streameval_server.testing import running_server


@pytest.mark.parametrize(
    "listen", ["127.0.0.1:0", "127.0.0.53:1", "localhost:50051", "[::1]:65535"]
)
def test_loopback_addresses_are_accepted(listen: str) -> None:
    """A server that only this machine can reach needs no permission."""
    assert Settings(listen=listen).listen == listen


@pytest.mark.parametrize(
    ("listen", "host"),
    [
        ("0.0.0.0:50051", "0.0.0.0"),
        ("[::]:50051", "::"),
        ("192.168.1.7:0", "192.168.1.7"),
        ("example.org:50051", "example.org"),
        (":50051", "every address"),
    ],
)
def test_other_addresses_need_insecure(listen: str, host: str) -> None:
    """What other machines can reach is refused, by name, unless `insecure` is set."""
    with pytest.raises(SettingsError) as caught:
        Settings(listen=listen)
    assert str(caught.value) == (
        f"refusing to listen on {host}: other machines could reach it, and there is no TLS and no "
        "tokens file. Give --tls-certificate, --tls-key and --tokens, listen on 127.0.0.1, or "
        "allow it with --insecure"
    )
    assert Settings(listen=listen, insecure=True).insecure


def test_other_addresses_are_served_with_tls_and_tokens() -> None:
    """Both are needed, and the message names the one that is missing; mTLS needs TLS."""
    pem, anywhere = Path("x.pem"), "0.0.0.0:50051"
    Settings(listen=anywhere, tls_certificate=pem, tls_key=pem, tokens=pem)
    with pytest.raises(SettingsError, match="could reach it, and there is no tokens file"):
        Settings(listen=anywhere, tls_certificate=pem, tls_key=pem, tls_client_ca=pem)
    with pytest.raises(SettingsError, match="could reach it, and there is no TLS"):
        Settings(listen=anywhere, tokens=pem)
    for half in ({"tls_certificate": pem}, {"tls_key": pem}):
        with pytest.raises(SettingsError, match="need each other: give both"):
            Settings(**half)
    with pytest.raises(SettingsError, match="tls_client_ca needs tls_certificate"):
        Settings(tls_client_ca=pem)


@pytest.mark.parametrize(
    "listen", ["", "localhost", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", "::1:50051"]
)
def test_addresses_without_a_port_are_refused(listen: str) -> None:
    """An address is HOST:PORT, or [IPV6]:PORT."""
    with pytest.raises(SettingsError, match=r"^listen must be HOST:PORT"):
        Settings(listen=listen)


def test_names_that_look_local_are_not_trusted() -> None:
    """Only localhost itself and addresses count as loopback."""
    assert not is_loopback("localhost.example.org")
    assert not is_loopback("128.0.0.1")


def test_memory_and_a_directory_exclude_each_other() -> None:
    """A server in memory has no directory."""
    assert Settings(memory=True).directory() is None
    assert Settings(data=Path("x")).directory() == Path("x")
    with pytest.raises(SettingsError, match="in memory has no data directory"):
        Settings(memory=True, data=Path("x"))


def test_a_directory_has_one_server(tmp_path: Path) -> None:
    """The second lock is refused and names the holder; after release it is granted."""
    first = DirectoryLock(tmp_path / "data")
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
    with pytest.raises(DataDirectoryInUseError, match=r"is in use by another server \(process \d"):
        DirectoryLock(tmp_path / "data")
    first.release()
    DirectoryLock(tmp_path / "data").release()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_new_directory_survives_a_power_cut(tmp_path, monkeypatch):
    """The directories that hold new ones are synced; later starts sync none."""
    synced = []
    monkeypatch.setattr(
        os, "fsync", lambda fd: synced.append(Path(f"/proc/self/fd/{fd}").readlink())
    )
    for _ in range(2):
        DirectoryLock(tmp_path / "a" / "b").release()
    assert sorted(synced) == [tmp_path, tmp_path / "a"]


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    """Another user could place it: the file that it names would be overwritten."""
    other = tmp_path / "other"
    other.write_text("precious")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "lock").symlink_to(other)
    with pytest.raises(StorageError, match="its file 'lock' is a symbolic link"):
        DirectoryLock(tmp_path / "data")
    assert other.read_text() == "precious"


@pytest.mark.skipif(sys.platform == "win32", reason="makes a FIFO")
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("lock", "its file 'lock' is not a regular file; remove it"),
        ("streameval.db", "streameval.db: it is not a regular file; move it away"),
        ("streameval.db-wal", "streameval.db-wal: it is not a regular file; move it away"),
        ("streameval.db-shm", "streameval.db-shm: it is not a regular file; move it away"),
        ("streameval.db-journal", "streameval.db-journal: it is not a regular file"),
        ("streameval.db-acked", "streameval.db-acked: it is a FIFO or a pipe"),
        ("streameval.db-summaries", None),
    ],
)
def test_a_fifo_in_the_place_of_a_kept_file_holds_neither_start_nor_stop(
    tmp_path: Path, name: str, problem: str | None
) -> None:
    """It is refused; the summaries are a cache, and a stop replaces it by a file."""
    settings = Settings(listen="127.0.0.1:0", data=tmp_path)
    with running_server(settings):
        pass
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    if problem is None:
        with running_server(settings):
            pass
        assert (tmp_path / name).is_file()
        return
    with pytest.raises(StorageError) as caught, running_server(settings):
        pass
    assert problem in str(caught.value)


@pytest.mark.skipif(sys.platform == "win32", reason="every user of Windows has a home")
def test_a_user_without_a_home_is_told_what_to_give(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a container with any user id has none: a directory, or none at all."""
    import pwd

    def unknown(number: int) -> None:
        raise KeyError(number)

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    with pytest.raises(SettingsError, match=r"no home directory .* give --data DIRECTORY or the"):
        Settings().directory()
    assert Settings(data=Path("x")).directory() == Path("x")
    assert Settings(memory=True).directory() is None
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert Settings().directory() == Path("/data/streameval/server")


def test_a_directory_that_others_can_write_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One warning at the start; none for a directory of the server's own user or group."""
    words = "the data directory is not safe"
    for mode in (0o700, 0o770, 0o755):
        tmp_path.chmod(mode)
        with running_server(Settings(listen="127.0.0.1:0", data=tmp_path)):
            assert words not in caplog.text
    tmp_path.chmod(0o777)
    with running_server(Settings(listen="127.0.0.1:0", data=tmp_path)):
        pass
    assert caplog.text.count(f"{words}: every user of this machine can write to {tmp_path}") == 1
    tmp_path.chmod(0o700)
    if os.geteuid() == 0:
        os.chown(tmp_path, 12345, -1)
    else:
        monkeypatch.setattr("os.geteuid", lambda: 12345)
    assert "belongs to another user" in str(directory_owner_problem(tmp_path))
