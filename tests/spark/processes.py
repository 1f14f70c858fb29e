"""Processes of a Spark cluster and of a server, which a test kills as if machines died."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .conftest import ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Callable

DEADLINE_S = 100.0
"""The longest that a step of a scenario may take, on a busy machine."""


class Process:
    """A process with all its children; its output line by line.

    Parameters
    ----------
    command
        The command line.
    log
        The file for its stderr, to analyse failures.
    environment
        Variables added to this process's environment.
    """

    def __init__(self, *command: str, log: Path, **environment: str) -> None:
        self.log = log
        with log.open("ab") as errors:
            self.popen = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **ENVIRONMENT, **environment},
                text=True,
                start_new_session=True,  # so that `kill` reaches its children
            )
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def until(self, word: str) -> list[str]:
        """Return the words after `word` of the next line that begins with it."""
        end = time.monotonic() + DEADLINE_S
        while True:
            line = self._lines.get(timeout=max(0.1, end - time.monotonic()))
            if line is None:
                raise AssertionError(f"{word} was never printed; stderr ends:\n{self.errors()}")
            first, *rest = line.split(" ", 1)
            if first == word:
                return rest[0].split(" ") if rest else []

    def go_on(self) -> None:
        """Send the line that it waits for."""
        assert self.popen.stdin is not None
        self.popen.stdin.write("\n")
        self.popen.stdin.flush()

    def errors(self) -> str:
        """Return the end of its stderr."""
        return self.log.read_text(errors="replace")[-3000:]

    def said(self, text: str) -> str:
        """Wait until its stderr has a line with `text`; return the line."""

        def found() -> str:
            lines = self.log.read_text(errors="replace").splitlines()
            return next((line for line in lines if text in line), "")

        return wait_for(found, lambda: f"{text!r} was never logged:\n{self.errors()}")

    def kill(self) -> None:
        """Kill it and its children at once, as if the machine died."""
        if self.popen.poll() is None:
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait(30)
        self._reader.join(30)
        for pipe in (self.popen.stdin, self.popen.stdout):
            assert pipe is not None
            pipe.close()

    def ended(self) -> int:
        """Wait for its end; return its exit code."""
        return self.popen.wait(DEADLINE_S)


def wait_for(condition: Callable[[], Any], why: Callable[[], str]) -> Any:
    """Return the value of `condition` as soon as it is true."""
    end = time.monotonic() + DEADLINE_S
    while not (value := condition()):
        assert time.monotonic() < end, why()
        time.sleep(0.05)
    return value


class Cluster:
    """A standalone master and its workers, from the pip package."""

    def __init__(self, directory: Path) -> None:
        import pyspark

        self._home = Path(pyspark.__file__).parent
        self._directory = directory
        self.processes: list[Process] = []
        master = self._start("master", "master.Master", "--host", "127.0.0.1", "--port", "0")
        self.url = master.said("Starting Spark master at ").split()[-1]

    def worker(self) -> Process:
        """Start a worker with one core; return it once it is registered."""
        worker = self._start(
            f"worker-{len(self.processes)}", "worker.Worker", "--host", "127.0.0.1",
            "--port", "0", "--cores", "1", "--memory", "768m", self.url,
            "--work-dir", str(self._directory / "work"),
        )  # fmt: skip
        worker.said("Successfully registered with master")
        return worker

    def workers_lost(self) -> int:
        """Return how many workers the master has removed."""
        lines = self.processes[0].log.read_text(errors="replace").splitlines()
        return sum("Removing worker " in line for line in lines)

    def _start(self, name: str, main: str, *arguments: str) -> Process:
        process = Process(
            str(self._home / "bin" / "spark-class"),
            f"org.apache.spark.deploy.{main}",
            *arguments,
            "--webui-port",
            "0",
            log=self._directory / f"{name}.log",
            SPARK_HOME=str(self._home),
            SPARK_DAEMON_MEMORY="256m",
        )
        self.processes.append(process)
        return process

    def driver(self, *arguments: str) -> Process:
        """Start drive.py as a driver."""
        driver = Process(
            sys.executable,
            str(Path(__file__).with_name("drive.py")),
            self.url,
            *arguments,
            log=self._directory / "driver.log",
        )
        self.processes.append(driver)
        return driver

    def stop(self) -> None:
        """Kill all processes that still run."""
        for process in reversed(self.processes):
            process.kill()


class Proxy:
    """A proxy of a server that can kill the server during a merge.

    Parameters
    ----------
    connect
        Returns the server's current address, after restarting it if necessary.
    """

    def __init__(self, connect: Callable[[], str]) -> None:
        self._connect = connect
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._lock = threading.Lock()
        self._armed: tuple[int, Callable[[], None]] | None = None
        self.kills = 0
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def arm(self, sent_bytes: int, kill: Callable[[], None]) -> None:
        """Call `kill` once a connection has sent `sent_bytes` bytes."""
        with self._lock:
            self._armed = (sent_bytes, kill)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            self._threads.append(threading.Thread(target=self._serve, args=(client,), daemon=True))
            self._threads[-1].start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            host, port = self._connect().split(":")
            try:
                server = socket.create_connection((host, int(port)))
            except OSError:
                return  # the server was killed, and its successor does not listen yet
            with server:
                back = threading.Thread(target=self._copy, args=(server, client), daemon=True)
                back.start()
                self._copy(client, server, counted=True)
                back.join()

    def _copy(self, source: socket.socket, sink: socket.socket, *, counted: bool = False) -> None:
        total = 0
        with contextlib.suppress(OSError):  # either end may die, as the test intends
            while data := source.recv(16_384):
                total += len(data)
                sink.sendall(data)
                if counted:
                    self._passed(total)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _passed(self, total: int) -> None:
        with self._lock:
            if self._armed is None or total < self._armed[0]:
                return
            (_, kill), self._armed = self._armed, None
            kill()
            self.kills += 1

    def close(self) -> None:
        """Stop listening; the server or its client must have ended."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(DEADLINE_S)
