"""The client when its process forks or ends: rows are sent and count once."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time

import pytest

from streameval.client import Client


def run_script(address: str, code: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own."""
    header = (
        "import datetime, os, sys\nfrom streameval.client import Client\naddress = sys.argv[1]\n"
    )
    return subprocess.run(
        [sys.executable, "-c", header + textwrap.dedent(code), address],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def counted(address: str, stream: str) -> int:
    """Return how many cases a stream has."""
    with Client(address) as client:
        return client.stream(stream).snapshot().num_cases


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.parametrize("used", [False, True])
def test_a_forked_child_is_a_producer_of_its_own(address: str, used: bool) -> None:
    """Parent and child both count, once, whether the parent had sent before or not."""
    stream = f"for/ked-{used}"
    code = f"""
    client = Client(address)
    stream = client.stream({stream!r})
    if {used}:
        stream.add_case(True, 0.0)
        stream.flush()
    stream.add_case(True, 1.0)
    child = os.fork()
    stream.add_case(False, 2.0)
    stream.flush()
    client.close()
    if child == 0:
        os._exit(0)
    sys.exit(os.waitpid(child, 0)[1])
    """
    done = run_script(address, code)
    assert done.returncode == 0, done.stderr
    assert counted(address, stream) == 3 + used


def test_what_is_left_is_sent_at_exit(address: str) -> None:
    """A process that ends without closing its client sends its pending rows."""
    code = """
    stream = Client(address).stream("at/exit")
    for i in range(2500):
        stream.add_case(True, float(i))
    """
    done = run_script(address, code)
    assert (done.returncode, done.stderr) == (0, "")
    assert counted(address, "at/exit") == 2500


def test_exit_needs_no_new_threads(address: str) -> None:
    """Rows are sent at exit although gRPC cannot start threads, as in Python 3.12."""
    code = """
    from grpc._cython import cygrpc

    class NoThread:
        def __init__(self, *args, **kwargs):
            pass

        def setDaemon(self, daemonic):
            pass

        def start(self):
            raise RuntimeError("can't start new thread at interpreter shutdown")

    cygrpc.ForkManagedThread = NoThread
    client = Client(address)
    stream = client.stream("no/threads")
    for i in range(2500):
        stream.add_case(True, float(i))
    tomorrow = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
    client.stream("refused/stream").add_case(True, 1.0, at=tomorrow)
    """
    done = run_script(address, code)
    assert done.returncode == 0
    assert "1 row in 1 batch refused" in done.stderr
    assert counted(address, "no/threads") == 2500


def test_exit_does_not_wait_for_ever(free_address: str) -> None:
    """Without a server the end of the process is delayed briefly, and a warning is logged."""
    code = """
    Client(address, exit_timeout_s=0.2).stream("at/exit").add_case(True, 1.0)
    """
    began = time.monotonic()
    done = run_script(free_address, code)
    assert done.returncode == 0
    assert "1 row not durable after 0.2 s" in done.stderr
    assert time.monotonic() - began < 20
