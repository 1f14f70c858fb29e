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

_OF_OTHERS = re.compile(
    rf"{PREFIX}(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|ENV_\w+"
    r"|PORT_\d+_[A-Z]+(_(PROTO|ADDR|START|END|PORT(_START|_END)?))?)"
)
"""What Kubernetes tells pods of a service whose name begins with ``streameval``, and Docker
containers of a link to such a name."""

_OF_OTHERS_BY_VALUE = re.compile(rf"{PREFIX}(\w+_)?(PORT=[a-z]+://.*|NAME=/.+/.+)")
"""The same, where the name may be meant as a setting: a URL, and the two names of a link."""


def check_variables(environment: Mapping[str, str], limits: Collection[str] | None = None) -> None:
    """Refuse a variable that streameval does not read; an empty one counts as absent.

    One that is read in another spelling, such as ``streameval_server``, is refused, too.

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
    by_letters = {_letters(name): name for name in known}
    for name, value in environment.items():
        if not value or name in known or _is_of_others(name, value):
            continue
        if limits is None and _LIMITS.fullmatch(name):
            continue
        meant = by_letters.get(_letters(name))
        if meant is None and not name.startswith(PREFIX):
            continue
        meant = meant or _closest(name, known)
        hint = "to" if meant is None else f"did you mean {meant}? To"
        message = f"{name} is no variable of streameval: {hint} go on without it, run: unset {name}"
        raise StreamEvalError(message)


def _letters(name: str) -> str:
    """Return a name without what spellings differ in."""
    return re.sub(r"[\W_]", "", name).upper()


def _is_of_others(name: str, value: str) -> bool:
    """Whether Kubernetes, Docker or this project's tests set a variable."""
    by_name = _OF_OTHERS.fullmatch(name) or _TESTS.fullmatch(name)
    return bool(by_name or _OF_OTHERS_BY_VALUE.fullmatch(f"{name}={value}"))


def _closest(name: str, known: Collection[str]) -> str | None:
    """Return the variable that a name is most like behind the prefix, if it is like one."""
    own = [each.removeprefix(PREFIX) for each in sorted(known)]
    close = difflib.get_close_matches(name.removeprefix(PREFIX), own, 1, 0.75)
    return PREFIX + close[0] if close else None
