"""An HTTP receiver on loopback that records what it gets, for tests of deliveries."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from email.message import Message


@dataclass(frozen=True)
class Received:
    """One request."""

    path: str
    headers: Message
    body: bytes


@dataclass
class Receiver:
    """What a receiver got, and what it answers.

    Attributes
    ----------
    url
        Its address, without a slash at the end.
    requests
        Every request, in the order of arrival.
    arrived
        The same, for tests that wait for the next one.
    answers
        The status and headers of the next answers, the first first; 200 when there are none.
        None answers nothing until `released` is set.
    status_of
        Where set, returns the status of each answer from the body of its request.
    """

    url: str = ""
    requests: list[Received] = field(default_factory=list)
    arrived: SimpleQueue[Received] = field(default_factory=SimpleQueue)
    answers: list[tuple[int, dict[str, str]] | None] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    status_of: Callable[[bytes], int] | None = None


@contextmanager
def receiver(port: int = 0) -> Iterator[Receiver]:
    """Run a receiver on a port of loopback; by default a free one."""
    one = Receiver()
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        """Records a request and answers it."""

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            with lock:
                answer = one.answers.pop(0) if one.answers else (200, {})
                if one.status_of is not None:
                    answer = (one.status_of(body), {})
                one.requests.append(Received(self.path, self.headers, body))
                one.arrived.put(one.requests[-1])
            if answer is None:
                one.released.wait(60)
                return
            status, headers = answer
            self.send_response(status)
            for name, value in {**headers, "content-length": "0"}.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        one.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield one
        finally:
            one.released.set()
            server.shutdown()
            thread.join()
