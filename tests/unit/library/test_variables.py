"""Variables of the environment that nothing reads are refused."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from streameval import StreamEvalError
from streameval._common.variables import CONNECTION, SERVER
from streameval.checks import check_variables
from streameval.cli._connection import OPTIONS
from streameval_server import SettingsError, configure
from streameval_server._service.configuration import _SETTINGS


def test_the_names_are_those_that_are_read() -> None:
    """The connection's options and the server's settings, each with its variable."""
    assert set(CONNECTION) == {name.upper() for name in ("token", *OPTIONS)}
    settings = {name.upper() for name in _SETTINGS if "." not in name and name != "ingest"}
    assert set(SERVER) == settings | {"CONFIG", "FAILPOINTS"}


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("STREAMEVAL_SERVR", "STREAMEVAL_SERVER"),
        ("STREAMEVAL_LISTN", "STREAMEVAL_LISTEN"),
        ("STREAMEVAL_TOKENFILE", "STREAMEVAL_TOKEN_FILE"),
        ("STREAMEVAL_LOGLEVEL", "STREAMEVAL_LOG_LEVEL"),
        ("streameval_server", "STREAMEVAL_SERVER"),
        ("STREAMEVAL-SERVER", "STREAMEVAL_SERVER"),
        ("STREAM_EVAL_TOKEN", "STREAMEVAL_TOKEN"),
    ],
)
def test_a_mistyped_variable(name: str, meant: str) -> None:
    """By the commands and the server: what is meant, and how to go on; never the value."""
    said = f"{name} is no variable of streameval: did you mean {meant}? To go on without it, run:"
    for check in (check_variables, lambda found: configure({}, environment=found)):
        with pytest.raises(StreamEvalError) as caught:
            check({name: "sv1.x.S3cret"})
        assert str(caught.value) == f"{said} unset {name}"


def test_a_mistyped_limit() -> None:
    """The server knows the limits; the commands leave them to it."""
    wrong = {"STREAMEVAL_LIMITS_MAX_STREAM": "3"}
    check_variables(wrong)
    with pytest.raises(SettingsError, match=r"did you mean STREAMEVAL_LIMITS_MAX_STREAMS\?"):
        configure({}, environment=wrong)
    for name in ("STREAMEVAL_FROB", "STREAMEVAL_INGEST", "STREAMEVAL_NAME", "STREAMEVAL_"):
        with pytest.raises(SettingsError, match=rf"^{name} is no variable of streameval: to go on"):
            configure({}, environment={name: "1"})


def test_what_others_set_passes() -> None:
    """Kubernetes and Docker name services in the environment; tests, other programs, nothing."""
    check_variables(
        {
            "STREAMEVAL_SERVICE_HOST": "10.0.0.7",
            "STREAMEVAL_SERVICE_PORT": "50051",
            "STREAMEVAL_SERVICE_PORT_GRPC": "50051",
            "STREAMEVAL_PORT": "tcp://10.0.0.7:50051",
            "STREAMEVAL_PORT_50051_TCP": "tcp://10.0.0.7:50051",
            "STREAMEVAL_PORT_50051_TCP_ADDR": "10.0.0.7",
            "STREAMEVAL_HTTP_SERVICE_PORT": "8080",
            "STREAMEVAL_HTTP_PORT": "tcp://10.0.0.7:8080",
            "STREAMEVAL_PORT_50051_TCP_PORT_START": "50051",
            "STREAMEVAL_PORT_50051_TCP_END": "tcp://10.0.0.7:50052",
            "STREAMEVAL_NAME": "/model/streameval",
            "STREAMEVAL_ENV_STREAMEVAL_DATA": "/data",
            "STREAMEVAL_TEST_REQUIRE": "all",
            "streameval_dir": "/src",
            "STREAMEVAL_SERVR": "",
            "STREAMEVALS": "x",
        }
    )
    for name in ("STREAMEVAL_PORT", "STREAMEVAL_HTTP_PORT"):
        with pytest.raises(StreamEvalError, match=f"{name} is no variable of streameval"):
            check_variables({name: "8080"})


@pytest.mark.parametrize("arguments", [("health",), ("query", "a"), ("serve", "--print-config")])
def test_every_command_refuses_it(arguments: tuple[str, ...]) -> None:
    """Before it does anything, in one line; help is shown all the same."""
    command = [sys.executable, "-m", "streameval", *arguments]
    environment = {**os.environ, "STREAMEVAL_SERVR": "eval"}
    done = subprocess.run(
        command, env=environment, check=False, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (2, "")
    asked = subprocess.run([*command, "--help"], env=environment, check=False, capture_output=True)
    assert (asked.returncode, asked.stdout[:6]) == (0, b"Usage:")
    assert done.stderr == (
        "streameval: STREAMEVAL_SERVR is no variable of streameval: did you mean "
        "STREAMEVAL_SERVER? To go on without it, run: unset STREAMEVAL_SERVR\n"
    )
