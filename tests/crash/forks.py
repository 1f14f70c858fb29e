"""Processes that are forks of one which has imported the server.

The tests of this folder start hundreds of servers, and what a server imports takes most of its
start. A fork has the modules, and nothing else: no thread, no call of gRPC came before it.

`Forks` starts ``python forks.py`` and sends it the command, environment and output of each
process, and asks it for their exit codes, as only a parent is told those.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import socket
import subprocess
import sys
from typing import IO, Any

MAX_PART_BYTES = 1 << 16


class ForkedProcess:
    """A process, with the part of `subprocess.Popen` that tests use."""

    def __init__(self, forks: Forks, pid: int, stdout: IO[str], stderr: IO[str]) -> None:
        self.pid = pid
        self.stdout = stdout
        self.stderr = stderr
        self.returncode: int | None = None
        self._forks = forks

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""
        if self.returncode is None:
            self.returncode = self._forks.ask(wait=self.pid, options=os.WNOHANG)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal to a process that runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def communicate(self) -> tuple[str, str]:
        """Wait for the end; return what it has printed and was not read."""
        with self.stdout, self.stderr:
            printed = self.stdout.read(), self.stderr.read()
        if self.returncode is None:
            self.returncode = self._forks.ask(wait=self.pid, options=0)
        return printed


class Forks:
    """Starts processes as forks, until `close`."""

    def __init__(self) -> None:
        self._socket, its = socket.socketpair()
        with its:
            self._popen = subprocess.Popen(
                [sys.executable, __file__, str(its.fileno())],
                pass_fds=[its.fileno()],
                stdin=subprocess.DEVNULL,
            )

    def start(self, *command: str, environment: dict[str, str]) -> ForkedProcess:
        """Run a script, or ``-m`` and a module, with arguments."""
        (stdout, its_stdout), (stderr, its_stderr) = os.pipe(), os.pipe()
        try:
            message = {"command": command, "environment": environment}
            send(self._socket, message, its_stdout, its_stderr)
        finally:
            os.close(its_stdout)
            os.close(its_stderr)
        return ForkedProcess(self, receive(self._socket)[0], open(stdout), open(stderr))  # noqa: PTH123

    def ask(self, **message: int) -> Any:
        """Return the answer to a message."""
        send(self._socket, message)
        return receive(self._socket)[0]

    def close(self) -> None:
        """End the process whose forks they are; they have ended."""
        self._socket.close()
        assert self._popen.wait(30) == 0


def send(connection: socket.socket, message: Any, *descriptors: int) -> None:
    """Send a message, as a line of JSON, with open files."""
    data = json.dumps(message).encode() + b"\n"
    sent = socket.send_fds(connection, [data], descriptors) if descriptors else 0
    connection.sendall(data[sent:])


def receive(connection: socket.socket) -> tuple[Any, list[int]]:
    """Return a message and the files that came with it; None at the end of the connection."""
    data, descriptors = b"", []
    while not data.endswith(b"\n"):
        part, found, _, _ = socket.recv_fds(connection, MAX_PART_BYTES, 2)
        if not part:
            return None, []
        data += part
        descriptors += found
    return json.loads(data), descriptors


def exit_code(pid: int, options: int) -> int | None:
    """Return the exit code of a child, None while it runs."""
    found, status = os.waitpid(pid, options)
    return os.waitstatus_to_exitcode(status) if found else None


def serve(connection: socket.socket) -> list[str] | None:
    """Answer until the end; in a fork, return its command."""
    while True:
        message, descriptors = receive(connection)
        if message is None:
            return None
        if "wait" in message:
            answer = exit_code(message["wait"], message["options"])
        elif not (answer := os.fork()):
            connection.close()
            for number, descriptor in enumerate(descriptors, 1):
                os.dup2(descriptor, number)
                os.close(descriptor)
            os.environ.clear()
            os.environ.update(message["environment"])
            return message["command"]
        for descriptor in descriptors:
            os.close(descriptor)
        send(connection, answer)


def main() -> None:
    """Import the server, then serve; a fork runs its command."""
    from streameval.checks import begin_program

    begin_program(sorts=False)
    import streameval_server._service.serve
    import streameval_server._service.service  # noqa: F401 - forks have it

    with socket.socket(fileno=int(sys.argv[1])) as connection:
        command = serve(connection)
    if command is not None:
        module, *sys.argv[1:] = command
        if module == "-m":
            module = sys.argv.pop(1)
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(module, run_name="__main__")


if __name__ == "__main__":
    main()
