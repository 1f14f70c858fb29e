"""A client that watches a stream: snapshots after each change, until an end."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

import pytest

from streameval.client import Client, ClosedError, NotFoundError, UnavailableError
from streameval_server import Settings
from streameval_server.testing import running_server


def test_watching_sees_what_moves(client: Client) -> None:
    """A snapshot at once, then the newest after each change; closing ends it."""
    stream = client.stream("wat/ched")
    stream.add_case(True, 0.9)
    stream.flush()
    watching = stream.watch(min_interval=timedelta(milliseconds=100))
    assert next(watching).num_cases == 1
    stream.add_case(False, 0.1)
    revision = stream.flush()
    moved = next(watching)
    assert (moved.num_cases, moved.auc_roc) == (2, 1.0)
    assert moved.revision >= revision
    watching.close()
    client.delete_stream("wat/ched")
    with pytest.raises(NotFoundError):
        next(stream.watch())


def test_watching_ends_with_the_server(free_address: str) -> None:
    """A watcher gets UnavailableError when the server stops."""
    with Client(free_address) as client:
        with running_server(Settings(listen=free_address, memory=True)):
            stream = client.stream("wat/ched")
            stream.add_case(True, 0.9)
            stream.flush()
            watching = stream.watch()
            next(watching)
            caught: list[Exception] = []

            def wait() -> None:
                try:
                    next(watching)
                except UnavailableError as error:
                    caught.append(error)

            waiting = threading.Thread(target=wait)
            waiting.start()
        waiting.join(20)
        assert len(caught) == 1


def test_closing_ends_who_watches(address: str) -> None:
    """A watcher gets ClosedError when the client is closed."""
    client = Client(address)
    stream = client.stream("wat/closed")
    stream.add_case(True, 0.9)
    stream.flush()
    watching = stream.watch()
    next(watching)
    caught: list[str] = []

    def wait() -> None:
        try:
            next(watching)
        except ClosedError as error:
            caught.append(str(error))

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.05)
    client.close()
    waiting.join(20)
    assert caught == ["the client is closed"]
