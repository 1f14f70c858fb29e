"""How one stream counts: its settings, their defaults, and the rules between them.

A request's settings are parsed once, by `settings_of` or `update_of`; replay uses the same
functions. `check` enforces the rules and the server's limits. Panes that exist cannot be
divided or refined, so the settings that shape them (`pane`, `resolution`, `scale`, the clusters)
are fixed when the stream is created; all others may change and apply from then on.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

from google.protobuf.duration_pb2 import Duration

from streameval import InvalidInputError
from streameval.checks import quoted, segment_key_problem
from streameval.kernel import ClusterCounts, Grid, State, check_cluster_groups
from streameval.statistics import ErrorCosts
from streameval.v1 import alarm_pb2, stream_pb2
from streameval_server._model.alarm_settings import AlarmSettings
from streameval_server._model.crossed_keys import declared_key_problem, parents_of
from streameval_server._model.errors import Code, RequestError, invalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from streameval.kernel import Scale
    from streameval_server._model.limits import Limits

SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US
HOUR_US = 60 * MINUTE_US
DAY_US = 24 * HOUR_US

_DEFAULT_LABEL_TTL_US = 14 * DAY_US
"""The log has a stream's settings as they were asked for, without defaults: another default is
another answer of an old log, so it takes a new format number."""
_MAX_DURATION_US = 3_660 * DAY_US
_MAX_MASK_PATHS = 32
"""Most paths of an update's mask: the log keeps it, and each replay reads all of them."""
CHOICES: Mapping[str, Mapping[int, str]] = {
    "scale": {
        stream_pb2.SCALE_UNSPECIFIED: "plain",
        stream_pb2.SCALE_PLAIN: "plain",
        stream_pb2.SCALE_PROBABILITY: "probability",
    },
    "orphans": {
        stream_pb2.ORPHAN_POLICY_UNSPECIFIED: "drop",
        stream_pb2.ORPHAN_POLICY_DROP: "drop",
        stream_pb2.ORPHAN_POLICY_MISS: "miss",
    },
    "expired": {
        stream_pb2.EXPIRY_POLICY_UNSPECIFIED: "drop",
        stream_pb2.EXPIRY_POLICY_DROP: "drop",
        stream_pb2.EXPIRY_POLICY_NEGATIVE: "negative",
    },
}
"""Settings that are one of a few words, by their enum numbers in messages."""
_NUMBERS: Mapping[str, Mapping[str, Any]] = {
    name: {word: number for number, word in words.items()} for name, words in CHOICES.items()
}
"""The opposite direction; an unspecified number comes first, so the explicit one replaces it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSettings:
    """How a stream counts.

    Attributes
    ----------
    pane_us : int
        Smallest time slice that is kept apart.
    retention_us : int
        How long panes are kept; all-time counts outlive them.
    resolution : int
        Significant bits of a score that a pane keeps.
    scale : {"plain", "probability"}
        "plain" keeps bits of the score; "probability" of 1 - score above 1/2.
    label_ttl_us : int
        How long after its event time a prediction waits for its label.
    relabel_ttl_us : int
        How long a labelled id can be relabelled or retracted.
    max_pending : int
        Maximum number of ids kept; above it, ids expire early, the earliest due first.
    orphans : {"drop", "miss"}
        What a label without a prediction counts as.
    expired : {"drop", "negative"}
        What a prediction without a label counts as.
    segment_keys : tuple of str
        Declared keys, in the order in which they were declared; ``a*b`` crosses two of them.
    cluster_key : str
        What rows share a cluster by, as clients name it; "" where that has no name.
    cluster_groups : int
        How many groups clusters are hashed into; 0 declares no clusters.
    threshold : float or None
        The score at which the model runs; None declares none. It changes what answers
        say, and nothing that is counted.
    cost_fp, cost_fn : float or None
        What a false positive and a false negative cost, both or neither. Answers have the
        expected cost at the threshold; what is counted does not change.
    min_label_probability : float or None
        The least probability with which a case is chosen to be labelled; None declares none.
        It bounds the weight of unseen cases; what is counted does not change.
    alarms : AlarmSettings or None
        Which changes raise an alarm; None watches nothing.
    """

    pane_us: int = MINUTE_US
    retention_us: int = 30 * DAY_US
    resolution: int = 12
    scale: Scale = "plain"
    label_ttl_us: int = _DEFAULT_LABEL_TTL_US
    relabel_ttl_us: int = HOUR_US
    max_pending: int = 2_000_000
    orphans: Literal["drop", "miss"] = "drop"
    expired: Literal["drop", "negative"] = "drop"
    segment_keys: tuple[str, ...] = ()
    cluster_key: str = ""
    cluster_groups: int = 0
    threshold: float | None = None
    cost_fp: float | None = None
    cost_fn: float | None = None
    min_label_probability: float | None = None
    alarms: AlarmSettings | None = None

    @property
    def costs(self) -> ErrorCosts | None:
        """What errors cost; None where it is not declared."""
        if self.cost_fp is None or self.cost_fn is None:
            return None
        return ErrorCosts(self.cost_fp, self.cost_fn)

    def to_fields(self) -> dict[str, Any]:
        """Return all settings by name, as checkpoints and exports keep them.

        What is optional and not declared is left out, so that a stream has the same bytes as in
        releases that did not know it.
        """
        kept = asdict(self)
        for name in _OPTIONAL:
            if kept[name] is None:
                del kept[name]
        if not self.cluster_groups:
            del kept["cluster_key"], kept["cluster_groups"]
        if self.alarms is None:
            del kept["alarms"]
        else:
            kept["alarms"] = self.alarms.to_fields()
        if has_crossed_keys(self.segment_keys):
            # A release that would not compute their values does not know this, and refuses.
            kept["crosses_keys"] = True
        return kept

    @classmethod
    def of_fields(cls, fields: Mapping[str, Any]) -> Self:
        """Return the settings that `to_fields` returned, also after JSON.

        Raises
        ------
        LookupError, TypeError, ValueError
            When they are not.
        """
        given = {**fields, "segment_keys": tuple(fields["segment_keys"])}
        given.pop("crosses_keys", None)
        if "alarms" in fields:
            given["alarms"] = AlarmSettings.of_fields(fields["alarms"])
        return cls(**given)

    def to_message(self) -> stream_pb2.StreamSettings:
        """Encode all settings as a message."""
        return stream_pb2.StreamSettings(
            pane=_duration(self.pane_us),
            retention=_duration(self.retention_us),
            resolution=self.resolution,
            scale=_NUMBERS["scale"][self.scale],
            label_ttl=_duration(self.label_ttl_us),
            relabel_ttl=_duration(self.relabel_ttl_us),
            max_pending=self.max_pending,
            orphans=_NUMBERS["orphans"][self.orphans],
            expired=_NUMBERS["expired"][self.expired],
            segment_keys=self.segment_keys,
            cluster_key=self.cluster_key,
            cluster_groups=self.cluster_groups,
            threshold=self.threshold,
            cost_fp=self.cost_fp,
            cost_fn=self.cost_fn,
            min_label_probability=self.min_label_probability,
            alarms=None if self.alarms is None else self.alarms.to_message(),
        )


def has_crossed_keys(keys: Iterable[str]) -> bool:
    """Whether one of the keys crosses two others. O(keys)."""
    return any(parents_of(key) is not None for key in keys)


DEFAULTS = StreamSettings()
"""The settings of a stream that its first batch creates."""

_FIXED = {
    "pane_us": "panes cannot be divided",
    "resolution": "panes have dropped the other bits",
    "scale": "panes have dropped the scores",
    "cluster_key": "clusters are counted by one key, from a stream's first row on",
    "cluster_groups": "clusters are counted in them, from a stream's first row on",
}
"""Settings that cannot change, and why."""
_COSTS = ("cost_fp", "cost_fn")
_OPTIONAL = ("threshold", *_COSTS, "min_label_probability")
"""Numbers that may be undeclared."""
_TIMES = {"pane_us", "retention_us", "label_ttl_us", "relabel_ttl_us"}
FIELDS = {field.name.removesuffix("_us"): field.name for field in fields(StreamSettings)}
"""The attribute of each field of the message."""


def settings_of(message: stream_pb2.StreamSettings) -> StreamSettings:
    """Parse a message; fields that are not set get their defaults. `check` is to follow.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT for a value that cannot be read.
    """
    given: dict[str, object] = {}
    for descriptor, value in message.ListFields():
        name = FIELDS[descriptor.name]
        given[name] = _value(name, value)
    retention_us = given.get("retention_us", DEFAULTS.retention_us)
    assert isinstance(retention_us, int)
    given.setdefault("label_ttl_us", min(_DEFAULT_LABEL_TTL_US, retention_us))
    if message.cluster_key:
        given.setdefault("cluster_groups", ClusterCounts.DEFAULT_GROUPS)
    return replace(DEFAULTS, **given)  # type: ignore[arg-type]  # each has the type of its field


def _value(name: str, value: object) -> object:
    if isinstance(value, Duration):
        # Not ToMicroseconds, which raises for a duration out of range; `check` refuses those.
        return value.seconds * SECOND_US + value.nanos // 1_000
    if isinstance(value, alarm_pb2.AlarmSettings):
        return AlarmSettings.of_message(value)
    if name in CHOICES:
        assert isinstance(value, int)
        if value not in CHOICES[name]:
            _refuse(name, f"{name} has the unknown value {value}")
        return CHOICES[name][value]
    return tuple(value) if name == "segment_keys" else value  # type: ignore[arg-type]  # a repeated field


def check(settings: StreamSettings, limits: Limits) -> None:
    """Refuse settings that contradict each other or exceed a limit.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT, or RESOURCE_EXHAUSTED above a limit, with the field.
    """
    for name in sorted(_TIMES):
        value: int = getattr(settings, name)
        if not SECOND_US <= value <= _MAX_DURATION_US:
            _refuse(name, f"{_shown(name)} must be from 1 s to 3660 d, got {value / SECOND_US:g} s")
    try:
        Grid.tiers_of(settings.pane_us, settings.retention_us)
    except InvalidInputError as error:
        _refuse(f"{error.field}_us", str(error))
    if not 1 <= settings.resolution <= State.MAX_BITS:
        _refuse(
            "resolution",
            f"resolution must be from 1 to {State.MAX_BITS}, got {settings.resolution}",
        )
    if settings.label_ttl_us > settings.retention_us:
        _refuse(
            "label_ttl_us",
            f"label_ttl must be at most retention, got {settings.label_ttl_us / SECOND_US:g} s "
            f"with a retention of {settings.retention_us / SECOND_US:g} s",
        )
    if not 1 <= settings.max_pending <= limits.max_pending_total:
        _refuse(
            "max_pending",
            f"max_pending must be from 1 to {limits.max_pending_total}, got {settings.max_pending}",
        )
    if settings.orphans == "miss" and settings.expired == "negative":
        _refuse(
            "orphans",
            "orphans MISS with expired NEGATIVE would count a late positive twice: "
            "as a negative case when its prediction expires and as a miss when its label comes",
        )
    _check_numbers(settings)
    _check_costs(settings)
    _check_keys(settings.segment_keys, limits)
    if settings.cluster_groups or settings.cluster_key:
        _check_clusters(settings)
    if settings.alarms is not None:
        _check_alarms(settings, settings.alarms)


def _check_alarms(settings: StreamSettings, alarms: AlarmSettings) -> None:
    try:
        alarms.check(
            scale=settings.scale, threshold=settings.threshold, resolution=settings.resolution
        )
    except InvalidInputError as error:
        refuse_alarms(error)


def refuse_alarms(error: InvalidInputError) -> NoReturn:
    """Raise the RequestError of alarms that the library refuses."""
    _refuse("alarms", f"alarms: {error}")


def _check_numbers(settings: StreamSettings) -> None:
    least = settings.min_label_probability
    if least is not None and not 2.0**-31 <= least <= 1:
        message = f"min_label_probability must be from 2**-31 to 1, got {least:g}"
        _refuse("min_label_probability", message)
    threshold = settings.threshold
    if threshold is None:
        return
    if not math.isfinite(threshold):
        _refuse("threshold", f"threshold must be finite, got {threshold:g}")
    if settings.scale == "probability" and not 0 <= threshold <= 1:
        _refuse(
            "threshold",
            f"threshold must be from 0 to 1 on the probability scale, got {threshold:g}",
        )


def _check_costs(settings: StreamSettings) -> None:
    declared = {name: getattr(settings, name) for name in _COSTS}
    for name, cost in declared.items():
        if cost is None:
            continue
        if not (math.isfinite(cost) and cost > 0):
            _refuse(name, f"{name} must be positive and finite, got {cost:g}")
        missing = next((each for each in _COSTS if declared[each] is None), None)
        if missing is not None:
            _refuse(missing, f"{name} without {missing}: declare both costs, or none")
        if settings.threshold is None:
            _refuse(
                name,
                "cost_fp and cost_fn need a threshold, at which errors are counted: declare one, "
                "or remove both costs",
            )


def _check_keys(keys: tuple[str, ...], limits: Limits) -> None:
    if len(keys) > limits.max_segment_keys:
        _refuse(
            "segment_keys",
            f"segment_keys must be at most {limits.max_segment_keys}, got {len(keys)}",
            Code.RESOURCE_EXHAUSTED,
        )
    for key in keys:
        problem = declared_key_problem(key)
        if problem is not None:
            _refuse("segment_keys", problem)
        for parent in parents_of(key) or ():
            if parent not in keys:
                _refuse(
                    "segment_keys",
                    f"segment key {quoted(key)} crosses {parent}, which is not declared: add it",
                )
        if keys.count(key) > 1:
            _refuse("segment_keys", f"segment_keys must be distinct, got {key!r} twice")


def _check_clusters(settings: StreamSettings) -> None:
    try:
        check_cluster_groups(settings.cluster_groups)
    except InvalidInputError as error:
        _refuse("cluster_groups", str(error))
    key = settings.cluster_key
    problem = segment_key_problem(key, "cluster_key") if key else None
    if problem is not None:
        _refuse("cluster_key", problem)
    if settings.orphans == "miss":
        _refuse(
            "orphans",
            "orphans MISS with clusters would count misses that have no cluster: "
            "a label without a prediction does not tell it",
        )


def check_mask(request: stream_pb2.UpdateStreamRequest) -> None:
    """Refuse a mask with too many paths.

    Requests are checked, log rows are not: older releases accepted longer masks.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT.
    """
    paths = len(request.update_mask.paths)
    if paths > _MAX_MASK_PATHS:
        raise invalid(
            "update_mask", f"update_mask must have at most {_MAX_MASK_PATHS} paths, got {paths}"
        )


def first_settings(keys: Iterable[str]) -> StreamSettings:
    """Return the settings of a stream that rows with these segment keys create."""
    distinct = tuple(dict.fromkeys(keys))
    return replace(DEFAULTS, segment_keys=distinct) if distinct else DEFAULTS


@dataclass(frozen=True, slots=True)
class SettingsUpdate:
    """The new values of some settings: an UpdateStreamRequest, parsed.

    Attributes
    ----------
    changes : mapping of str to value
        By field of `StreamSettings`.
    """

    changes: Mapping[str, Any]

    def apply_to(self, settings: StreamSettings) -> StreamSettings:
        """Return a stream's settings after this update; `check` is still to follow.

        Raises
        ------
        RequestError
            FAILED_PRECONDITION for a setting that cannot change.
        """
        after = replace(settings, **self.changes)
        for name, why in _FIXED.items():
            if getattr(after, name) != getattr(settings, name):
                _refuse_change(name, f"{_shown(name)} cannot change: {why}")
        removed = [key for key in settings.segment_keys if key not in after.segment_keys]
        if removed:
            _refuse_change(
                "segment_keys",
                f"segment_keys can only be added: {removed[0]!r} has slices already",
            )
        # Slices are numbered by the position of their key, so existing keys keep theirs.
        added = [key for key in after.segment_keys if key not in settings.segment_keys]
        return replace(after, segment_keys=(*settings.segment_keys, *added))


def update_of(request: stream_pb2.UpdateStreamRequest) -> SettingsUpdate:
    """Parse an update. A setting that the mask names and the message lacks gets its default.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT for a value that cannot be read, and for a mask that is
        empty or names anything but a setting.
    """
    given = settings_of(request.stream.settings)
    changes: dict[str, Any] = {}
    if not request.update_mask.paths:
        raise invalid("update_mask", "update_mask must name the settings to change, got none")
    for path in request.update_mask.paths:
        prefix, _, name = path.partition(".")
        if path == "settings":
            changes |= {each: getattr(given, each) for each in FIELDS.values()}
        elif prefix == "settings" and name in FIELDS:
            changes[FIELDS[name]] = getattr(given, FIELDS[name])
        else:
            raise invalid(
                "update_mask",
                f"update_mask must name settings, as settings.label_ttl, got {quoted(path)}",
            )
    return SettingsUpdate(changes)


def _refuse_change(name: str, message: str) -> NoReturn:
    raise RequestError(
        Code.FAILED_PRECONDITION,
        message,
        reason="SETTING_CANNOT_CHANGE",
        violations=((_path(name), message),),
    )


def _refuse(name: str, message: str, code: Code = Code.INVALID_ARGUMENT) -> NoReturn:
    raise RequestError(
        code, message, reason="INVALID_SETTINGS", violations=((_path(name), message),)
    )


def _path(name: str) -> str:
    return f"stream.settings.{_shown(name)}"


def _shown(name: str) -> str:
    return name.removesuffix("_us")


def _duration(time_us: int) -> Duration:
    return Duration(seconds=time_us // SECOND_US, nanos=time_us % SECOND_US * 1_000)
