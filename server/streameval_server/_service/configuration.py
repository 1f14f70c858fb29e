"""Settings from flags, the environment and a file, each value with its source.

The first source that has a value wins::

    --listen HOST:PORT            a flag
    STREAMEVAL_LISTEN             the environment; an empty variable counts as absent
    listen = "..."                the file, TOML, that --config or STREAMEVAL_CONFIG names
    the default

Limits are below ``[limits]`` in the file, and ``STREAMEVAL_LIMITS_...`` in the
environment. Mappings of payloads, ``[[ingest]]``, are in the file only; a setting without
an entry in `FLAGS` is there or in the environment, where commas separate a list of names.
Paths in the file are relative to it. An unknown name in a file, a flag or a variable is an error.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import timedelta
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from streameval import InvalidInputError, StreamEvalError
from streameval.checks import check_variables, read_span, read_toml, redact_tokens
from streameval.payloads import PayloadMapping, mappings_of
from streameval_server._model.limits import Limits
from streameval_server._model.server_settings import Settings, SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PREFIX = "STREAMEVAL_"
_CONFIG = "STREAMEVAL_CONFIG"
_INGEST = "ingest"
"""The setting that is a list of tables."""
_BOOLEANS = dict.fromkeys(("true", "yes", "on", "1"), True) | dict.fromkeys(
    ("false", "no", "off", "0"), False
)

FLAGS = {
    "listen": "where to listen; port 0 picks a free one",
    "http": "where to serve the page, JSON and metrics, or off; 127.0.0.1:8080",
    "data": "directory of the log",
    "memory": "keep nothing on disk",
    "insecure": "listen beyond this machine without TLS and tokens",
    "tls_certificate": "the server's certificate chain, PEM",
    "tls_key": "its private key, PEM",
    "tls_client_ca": "authorities of clients' certificates, PEM (mTLS)",
    "tokens": "the tokens file",
    "accept_loss": "for one start: go on although acknowledged rows are lost",
    "auto_create": "create a stream with its first batch",
    "stop_grace": "how long calls get to end when the server stops, such as 5s",
    "log_format": "text or json",
    "log_level": "debug, info, warning or error",
    "metrics_window": "the recent window in /metrics, such as 1h",
    "limits.max_state_bytes": "refuse ingest while counts take more memory; 0 is no limit",
}
"""The settings that have a flag, with its help; the others are set in files only."""


@dataclass(frozen=True, slots=True)
class _Setting:
    """One setting: its dotted name, the type of its value, its default."""

    name: str
    kind: Any
    default: object

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return _PREFIX + self.name.replace(".", "_").upper()


def _settings_of(kind: type[Any], prefix: str = "") -> Iterator[_Setting]:
    hints = get_type_hints(kind)
    for field in fields(kind):
        if field.name not in kind.__annotations__:
            continue  # of `Capacities`
        hint = hints[field.name]
        if is_dataclass(hint):
            assert isinstance(hint, type)
            yield from _settings_of(hint, f"{prefix}{field.name}.")
            continue
        kinds = [part for part in get_args(hint) if part is not NoneType]
        plain = kinds[0] if {NoneType, timedelta} & {*get_args(hint)} else hint
        default = None if field.default is MISSING else field.default
        yield _Setting(prefix + field.name, plain, default)


_SETTINGS = {setting.name: setting for setting in _settings_of(Settings)}


def flag_of(name: str) -> str:
    """Return a setting's flag.

    Examples
    --------
    >>> flag_of("tls_key"), flag_of("limits.max_state_bytes")
    ('--tls-key', '--max-state-bytes')
    """
    return "--" + name.rpartition(".")[2].replace("_", "-")


def is_switch(name: str) -> bool:
    """Whether a setting is a boolean."""
    return _SETTINGS[name].kind is bool


@dataclass(frozen=True, slots=True)
class Configuration:
    """Settings, and the source of each.

    Attributes
    ----------
    settings : Settings
    sources : dict of str to str
        A flag, a variable, a file or ``default``, by the setting's dotted name.
    """

    settings: Settings
    sources: dict[str, str]

    def __str__(self) -> str:
        """Return every setting as TOML, each with a comment on its source; no secrets."""
        return self.to_text("utf-8")

    def to_text(self, encoding: str) -> str:
        """Return every setting as TOML; what an encoding lacks is an escape of TOML.

        Parameters
        ----------
        encoding : str
            The encoding of the console or file that receives the text.
        """
        lines, table = [], ""
        for name, setting in _SETTINGS.items():
            section, _, key = name.rpartition(".")
            if section != table:
                lines += ["", f"[{section}]"]
                table = section
            value = self._value(setting.name)
            if name == _INGEST and value:
                shown = f"# {key} is at the end"
            elif value is None or name == _INGEST:
                shown = f"# {key} is not set"
                if name == "data" and not self.settings.memory:
                    shown += f", which means {self.settings.directory()}"
                if name == "http":
                    shown += f", which means {self.settings.http_address()}"
            else:
                shown = f"{key} = {_toml(value)}"
            lines.append(f"{shown:<50} # {self.sources[name]}")
        for mapping in self.settings.ingest:
            pairs = (f"{key} = {_toml(value)}" for key, value in mapping.to_table().items())
            lines += ["", f"[[{_INGEST}]]", *pairs]
        text = redact_tokens("\n".join(lines))
        return re.sub(r"[^\x00-\x7f]", lambda found: _escaped(found[0], encoding), text)

    def _value(self, name: str) -> object:
        value: object = self.settings
        for part in name.split("."):
            value = getattr(value, part)
        return value


def configure(
    flags: Mapping[str, object],
    *,
    config: Path | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Configuration:
    """Return the settings that flags, environment and file together give.

    Parameters
    ----------
    flags
        By dotted names; None counts as absent.
    config
        The file; without it the one that STREAMEVAL_CONFIG names, or none.
    environment
        The variables.

    Raises
    ------
    SettingsError
        When a value is of the wrong kind, a name is unknown, the file cannot be
        read, or the settings exclude one another: it names the source.
    """
    try:
        limits_of = {each.variable for name, each in _SETTINGS.items() if "." in name}
        check_variables(environment, limits_of)
    except StreamEvalError as error:
        raise SettingsError(str(error)) from None
    values: dict[str, object] = {}
    sources = dict.fromkeys(_SETTINGS, "default")
    if config is None and environment.get(_CONFIG):
        config = Path(environment[_CONFIG])
    if config is not None:
        for name, value in _read(config):
            setting = _find_setting(name, str(config))
            values[name] = _convert(setting, value, str(config), config.parent)
            sources[name] = str(config)
    for name, setting in _SETTINGS.items():
        text = environment.get(setting.variable)
        if text and name != _INGEST:
            values[name] = _convert(setting, text, setting.variable, Path())
            sources[name] = setting.variable
    for name, value in flags.items():
        if value is not None:
            values[name] = _convert(
                _find_setting(name, "the command line"), value, flag_of(name), Path()
            )
            sources[name] = flag_of(name)
    plain: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    for name, value in values.items():
        section, _, key = name.rpartition(".")
        (limits if section else plain)[key] = value
    return Configuration(Settings(**plain, limits=Limits(**limits)), sources)


def _read(path: Path) -> list[tuple[str, object]]:
    """Return a file's settings by their dotted names."""
    try:
        content = read_toml(path)
    except OSError as error:
        raise SettingsError(f"cannot read the settings in {path}: {error.strerror}") from error
    except ValueError as error:
        raise SettingsError(f"cannot read the settings in {path}: {error}") from error
    return list(_flattened(content))


def _flattened(table: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in table.items():
        if key == _INGEST and not prefix:
            yield key, value
        elif isinstance(value, dict):
            yield from _flattened(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _find_setting(name: str, source: str) -> _Setting:
    setting = _SETTINGS.get(name)
    if setting is None:
        close = difflib.get_close_matches(name, _SETTINGS, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise SettingsError(f"{source}: there is no setting {name!r}{hint}")
    return setting


def _convert(setting: _Setting, value: object, source: str, base: Path) -> object:
    """Return a source's value, converted to the type of its setting."""
    kind = setting.kind
    converted: object
    if kind == tuple[PayloadMapping, ...]:
        try:
            return tuple(mappings_of(value))
        except InvalidInputError as error:
            raise SettingsError(f"{source}: {error}") from None
    if kind == tuple[str, ...]:
        wanted = "a list of names"
        converted = _names(value)
    elif get_origin(kind) is Literal:
        wanted = " or ".join(get_args(kind))
        converted = value if value in get_args(kind) else None
    elif kind is bool:
        wanted = "true or false"
        converted = _BOOLEANS.get(str(value).lower())
    elif kind is Path:
        wanted = "a path"
        converted = _path(setting.name, value, source, base)
    elif kind is timedelta:
        wanted = "a span of time such as 90s, 15m or 24h"
        converted = _span(value, setting.name)
    elif kind is str:
        wanted = "text"
        converted = value if isinstance(value, str) else None
    else:
        wanted = "a whole number" if kind is int else "a number"
        converted = _number(kind, value)
    if converted is None:
        raise SettingsError(f"{source}: {setting.name} must be {wanted}, got {value!r}")
    return converted


def _path(name: str, value: object, source: str, base: Path) -> Path | None:
    if not isinstance(value, (str, Path)):
        return None
    try:
        return base / Path(value).expanduser()
    except RuntimeError:
        raise SettingsError(
            f"{source}: {name} begins with ~, and that home directory is not known, got "
            f"{str(value)!r}: write the whole path"
        ) from None


def _names(value: object) -> tuple[str, ...] | None:
    given = value.split(",") if isinstance(value, str) else value
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        return None
    return tuple(each.strip() for each in given)


def _span(value: object, name: str) -> str | None:
    """Return a text that is a span of time as it is."""
    try:
        return value if isinstance(value, str) and read_span(value, name) else None
    except InvalidInputError:
        return None


def _number(kind: type[int | float], value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    try:
        number = kind(value)
    except (ValueError, OverflowError):
        return None
    return number if isinstance(value, str) or number == value else None


def _escaped(letter: str, encoding: str) -> str:
    """Return a letter, or its escape where the encoding lacks it."""
    try:
        letter.encode(encoding)
    except UnicodeEncodeError:
        return f"\\u{ord(letter):04x}" if ord(letter) < 1 << 16 else f"\\U{ord(letter):08x}"
    return letter


def _toml(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        pairs = (f"{_toml(key)} = {_toml(each)}" for key, each in value.items())
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, (bool, int, float)):
        return str(value).lower()
    if isinstance(value, timedelta):
        value = f"{value.total_seconds():f}".rstrip("0").rstrip(".") + "s"
    # JSON's strings are TOML's, except that TOML requires U+007F escaped.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
