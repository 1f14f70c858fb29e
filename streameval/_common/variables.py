"""The environment's variables that begin with ``STREAMEVAL_``: a mistyped one is refused."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

from streameval._common.errors import StreamEvalError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

PREFIX = "STREAMEVAL_"

CONNECTION = (
    *("SERVER", "PROFILE", "TOKEN", "TOKEN_FILE"),
    *("TLS", "ROOT_CERTIFICATES", "CLIENT_CERTIFICATE", "CLIENT_KEY"),
)
"""Those of a connection, for the commands."""

SERVER = (
    *("LISTEN", "HTTP", "DATA", "MEMORY", "INSECURE", "TLS_CERTIFICATE", "TLS_KEY"),
    *("TLS_CLIENT_CA", "TOKENS", "ACCEPT_LOSS", "AUTO_CREATE", "LOG_FORMAT", "LOG_LEVEL"),
    *("STOP_GRACE", "METRICS_WINDOW", "INTAKE", "INTAKE_STREAMS", "WEBHOOK", "WEBHOOK_SECRET"),
    *("CONFIG", "FAILPOINTS"),
)
"""Those of a server's settings but the limits, ``LIMITS_...``, which only the server knows."""

_TESTS = re.compile(rf"{PREFIX}TEST_\w+")
_LIMITS = re.compile(rf"{PREFIX}LIMITS_\w+")

_OF_KUBERNETES = re.compile(
    rf"{PREFIX}(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_[A-Z]+(_(PROTO|PORT|ADDR))?)?)"
)
"""What Kubernetes tells pods of a service whose name begins with ``streameval``."""

_IS_PORT = re.compile(rf"{PREFIX}((?!\w*SERVICE_)\w+_)?PORT")
"""Those that may be meant as a setting; Kubernetes gives them a URL, such as tcp://10.0.0.1:80."""


def check_variables(environment: Mapping[str, str], limits: Collection[str] | None = None) -> None:
    """Refuse a variable that streameval does not read; an empty one counts as absent.

    Parameters
    ----------
    environment : mapping
    limits : collection of str, optional
        The variables of the limits; without them every ``STREAMEVAL_LIMITS_...`` passes.

    Raises
    ------
    StreamEvalError
        With the variable that may be meant, and the command that removes this one.

    Examples
    --------
    >>> check_variables({"STREAMEVAL_SERVR": "eval"})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    streameval.StreamEvalError: STREAMEVAL_SERVR ...: did you mean STREAMEVAL_SERVER? To go ...
    """
    known = {PREFIX + name for name in (*CONNECTION, *SERVER)} | set(limits or ())
    for name, value in environment.items():
        if not value or not name.startswith(PREFIX) or name in known or _TESTS.fullmatch(name):
            continue
        if limits is None and _LIMITS.fullmatch(name):
            continue
        if _OF_KUBERNETES.fullmatch(name) and not (_IS_PORT.fullmatch(name) and "://" not in value):
            continue
        close = difflib.get_close_matches(name, sorted(known), 1, 0.8)
        hint = f"did you mean {close[0]}? To" if close else "to"
        message = f"{name} is no variable of streameval: {hint} go on without it, run: unset {name}"
        raise StreamEvalError(message)
