"""Connections that break at any byte: no row is lost or counted twice."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pytest

from streameval.client import Client, RowsLostError
from streameval_server import Limits, Settings
from streameval_server.testing import running_server

if TYPE_CHECKING:
    from collections.abc import Callable


class Cutter:
    """A TCP proxy that cuts each connection after some bytes; while `deaf` it drops answers."""

    def __init__(self, target: str, next_cut: Callable[[], int]) -> None:
        self.deaf = False
        self._near: list[socket.socket] = []
        host, port = target.split(":")
        self._target = host, int(port)
        self._next_cut = next_cut
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.cuts = 0
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def _start(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self._near.append(near)
                self._start(self._relay, near)

    def _relay(self, near: socket.socket) -> None:
        budget = [self._next_cut()]
        with near, socket.create_connection(self._target) as far:
            back = threading.Thread(target=self._copy, args=(far, near, budget), daemon=True)
            back.start()
            self._copy(near, far, budget)
            back.join()

    def _copy(self, source: socket.socket, target: socket.socket, budget: list[int]) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(4096):
                if self.deaf and target in self._near:
                    continue
                budget[0] -= len(data)
                if budget[0] < 0:
                    self.cuts += 1
                    break
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        """Cut all open connections."""
        for near in self._near:
            with contextlib.suppress(OSError):
                near.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Accept no more connections, and wait for the open ones to end."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        self._listener.close()


def test_connections_that_are_cut_lose_nothing() -> None:
    """Each row counts once, at whichever byte connections break."""
    # Small batches: each connection delivers some, even on a busy machine.
    settings = Settings(listen="127.0.0.1:0", memory=True, limits=Limits(max_batch_rows=500))
    with running_server(settings) as address:
        _cut_again_and_again(address)


def test_a_refusal_that_was_lost_with_its_connection_is_reported(address: str) -> None:
    """A refusal is reported although the connection broke before the answer."""
    cutter = Cutter(address, lambda: 1 << 40)
    with Client(cutter.address) as client, Client(address) as direct:
        client.stream("lost/answer").add_case(True, 1.0)
        client.flush()
        client.stream("lost/answer").snapshot()  # visible to other clients from here on
        cutter.deaf = True
        tomorrow = datetime.now(UTC) + timedelta(days=1)
        client.stream("lost/refusal").add_cases(labels=[1, 0], scores=[1.0, 2.0], at=tomorrow)
        for score in range(4):
            client.stream("lost/answer").add_case(True, float(score))
        deadline = time.monotonic() + 10
        while direct.stream("lost/answer").snapshot().num_cases < 5:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert client.statistics().pending == 6
        cutter.deaf = False
        cutter.cut()
        with pytest.raises(RowsLostError, match="2 rows in 1 batch refused") as caught:
            client.flush()
        (refusal,) = caught.value.refusals
        assert (refusal.stream, refusal.rows) == ("lost/refusal", 2)
        assert refusal.violations[0].field == "cases.event_times_us[0]"
        statistics = client.statistics()
        assert (statistics.acked, statistics.refused, statistics.retried) == (5, 2, 0)
        assert direct.stream("lost/answer").snapshot().num_cases == 5
    cutter.close()


def _cut_again_and_again(address: str) -> None:
    seeded = random.Random(7)
    cutter = Cutter(address, lambda: seeded.randrange(500, 250_000))
    with Client(cutter.address) as client:
        stream = client.stream("cut/off")
        for part in range(40):
            stream.add_cases(labels=np.ones(2000, bool), scores=np.arange(2000.0) + 2000 * part)
            time.sleep(0.01)
        client.flush(timeout_s=60)
        statistics = client.statistics()
    cutter.close()
    assert cutter.cuts > 5
    assert statistics.acked == 80_000
    with Client(address) as client:
        client.list_streams()  # waits until all of it is visible to other clients
        points = client.stream("cut/off").operating_points()
        assert points.tp.tolist() == list(range(80_001))
        few = client.stream("cut/off").operating_points(max_points=500)
        assert len(few) == 500
        assert (few.tp[0], few.tp[-1]) == (0, 80_000)
