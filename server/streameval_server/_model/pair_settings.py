"""Pairs of streams: how each counts, and the changes that make and delete one.

A request may leave settings out; `resolved` derives them from the two streams. The log keeps the
request, so a pair's settings are a function of the log.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

from streameval import InvalidInputError
from streameval.kernel import Grid, check_cluster_groups
from streameval.v1 import pair_pb2
from streameval_server._model.errors import Code, RequestError, invalid
from streameval_server._model.names import check_new_stream_name, check_stream_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streameval.kernel import Scale
    from streameval_server._model.limits import Limits
    from streameval_server._model.stream_settings import StreamSettings

DEFAULT_MAX_CELLS = 4_096
MIN_CELLS, MAX_CELLS = 16, 65_536
"""Entries of the grid of a pane, for each class."""
TOTAL_CELLS = 16_384
"""The same of all time, or `max_cells` where that is more."""
DEFAULT_MAX_PENDING = 2_000_000

_SECOND_US = 1_000_000
_MAX_SPAN_US = 3660 * 86_400 * _SECOND_US
_SPANS = ("pane", "retention", "label_ttl", "relabel_ttl")


def pair_key(name: str) -> str:
    """Return what tells a pair from all streams and pairs: it has a blank, their names none."""
    return f"pair {name}"


def is_pair_key(key: str) -> bool:
    """Return whether a key is a pair's, and not the name of a stream."""
    return " " in key


@dataclass(frozen=True, slots=True)
class PairSettings:
    """How a pair counts.

    Attributes
    ----------
    max_cells : int
        Pairs of scores that a pane keeps of each class.
    max_pending : int
        Maximum number of ids kept; above it, ids expire early, the earliest due first.
    prevalence : float or None
        Prevalence that areas in precision-recall space are rescaled to; None takes the shared
        ids' own.
    pane_us, retention_us, label_ttl_us, relabel_ttl_us : int
        As of a stream.
    segment_keys : tuple of str
        The keys that both streams declare.
    cluster_groups : int
        Groups of clusters, 0 unless both streams declare as many.
    scale : {"plain", "probability"}
        The latter where it is both streams'.
    expired_negative : bool
        Whether an id without a label is a negative case: it is in both streams.
    min_label_probability : float or None
        The lesser of both streams'; None unless both declare one.
    """

    max_cells: int
    max_pending: int
    prevalence: float | None
    pane_us: int
    retention_us: int
    label_ttl_us: int
    relabel_ttl_us: int
    segment_keys: tuple[str, ...] = ()
    cluster_groups: int = 0
    scale: Scale = "plain"
    expired_negative: bool = False
    min_label_probability: float | None = None

    def to_fields(self) -> dict[str, Any]:
        """Return all settings by name, as checkpoints keep them.

        A least label probability is kept where one is declared: pairs without one have the
        same bytes as in the golden log.
        """
        fields = asdict(self)
        if self.min_label_probability is None:
            del fields["min_label_probability"]
        return fields

    @classmethod
    def of_fields(cls, fields: Mapping[str, Any]) -> Self:
        """Return the settings that `to_fields` returned, also after JSON."""
        return cls(**{**fields, "segment_keys": tuple(fields["segment_keys"])})

    def check_panes(self) -> None:
        """Refuse spans that contradict each other.

        Raises
        ------
        RequestError
            INVALID_ARGUMENT with the field.
        """
        try:
            Grid.tiers_of(self.pane_us, self.retention_us)
        except InvalidInputError as error:
            raise _refused(error.field or "pane", str(error)) from None
        if self.label_ttl_us > self.retention_us:
            raise _refused("label_ttl", "label_ttl must be at most retention")

    def check_exported(self, limits: Limits) -> None:
        """Refuse what no pair of a server with these limits has, of an exported one.

        Raises
        ------
        ValueError
            When a setting is of a wrong type or beyond its range; InvalidInputError is one.
        RequestError
            As `check_panes`.
        """
        ranges = {
            "max_cells": (MIN_CELLS, MAX_CELLS),
            "max_pending": (1, limits.max_pending_total),
            **{f"{span}_us": (_SECOND_US, _MAX_SPAN_US) for span in _SPANS},
        }
        for name, (least, most) in ranges.items():
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= most:
                raise ValueError(f"{name} must be from {least} to {most}, got {value!r:.60}")
        if self.cluster_groups != 0:
            check_cluster_groups(self.cluster_groups)
        prevalence, bound = self.prevalence, self.min_label_probability
        if prevalence is not None and not (type(prevalence) is float and 0 < prevalence < 1):
            raise ValueError(f"prevalence must be between 0 and 1, got {prevalence!r:.60}")
        if bound is not None and not (type(bound) is float and 2.0**-31 <= bound <= 1):
            raise ValueError(f"min_label_probability must be from 2**-31 to 1, got {bound!r:.60}")
        if not all(isinstance(key, str) for key in self.segment_keys):
            raise ValueError("a segment key is no text")
        if self.scale not in {"plain", "probability"}:
            raise ValueError(f"scale {self.scale!r:.60} is unknown")
        if type(self.expired_negative) is not bool:
            raise ValueError("expired_negative must be true or false")
        self.check_panes()

    def check_fits(self, a: StreamSettings, b: StreamSettings) -> None:
        """Refuse two streams whose rows a pair that was made elsewhere could not count.

        Raises
        ------
        RequestError
            FAILED_PRECONDITION with what one of them lacks.
        """
        for side in (a, b):
            lacking = [key for key in self.segment_keys if key not in side.segment_keys]
            if lacking:
                problem = f"the segment key {lacking[0]}, which one of these streams does not have"
            elif self.cluster_groups not in {0, side.cluster_groups}:
                problem = f"{self.cluster_groups} groups of clusters, and one of these streams " + (
                    f"has {side.cluster_groups}" if side.cluster_groups else "has none"
                )
            elif self.scale == "probability" != side.scale:
                problem = "probabilities, and the scores of one of these streams are not"
            else:
                continue
            raise RequestError(
                Code.FAILED_PRECONDITION,
                f"the exported pair has {problem}: import its own streams first",
                reason="PAIR_DOES_NOT_FIT",
            )

    def to_message(self) -> pair_pb2.PairSettings:
        """Encode all settings as a message."""
        message = pair_pb2.PairSettings(
            max_cells=self.max_cells,
            max_pending=self.max_pending,
            prevalence=self.prevalence,
            segment_keys=self.segment_keys,
            cluster_groups=self.cluster_groups,
            expired_negative=self.expired_negative,
            min_label_probability=self.min_label_probability,
        )
        for name in _SPANS:
            getattr(message, name).FromMicroseconds(getattr(self, f"{name}_us"))
        return message


@dataclass(frozen=True, slots=True, weakref_slot=True)
class PairInfo:
    """A pair's description.

    Attributes
    ----------
    name : str
        Its own name.
    a, b : str
        Names of its streams.
    create_us, create_revision : int
        When it was made, in microseconds since 1970, and at which log revision.
    settings : PairSettings
    """

    name: str
    a: str
    b: str
    create_us: int
    create_revision: int
    settings: PairSettings

    @property
    def key(self) -> str:
        """The pair's key, see `pair_key`."""
        return pair_key(self.name)


@dataclass(frozen=True, slots=True)
class PairCreation:
    """Makes a pair.

    Attributes
    ----------
    name : str
        Its own name.
    a, b : str
        Names of its streams.
    given : PairSettings message
        The settings of the request.
    """

    name: str
    a: str
    b: str
    given: pair_pb2.PairSettings

    @classmethod
    def of(cls, request: pair_pb2.CreatePairRequest) -> Self:
        """Return the creation that a request asks for."""
        a, b = request.pair.a, request.pair.b
        return cls(request.pair_id or f"{a}-vs-{b}", a, b, request.pair.settings)

    def check(self, limits: Limits) -> None:
        """Refuse what no two streams could have.

        Raises
        ------
        RequestError
            INVALID_ARGUMENT with the field.
        """
        check_sides(self.a, self.b, "pair.")
        noun = "pair_id (--name), or A-vs-B without one,"
        check_new_stream_name(self.name, "pair_id", limits.max_stream_name, noun)
        given: Any = self.given
        _check_range("max_cells", given.max_cells, MIN_CELLS, MAX_CELLS)
        _check_range("max_pending", given.max_pending, 1, limits.max_pending_total)
        if given.HasField("prevalence") and not 0 < given.prevalence < 1:
            raise _refused(
                "prevalence", f"prevalence must be between 0 and 1, got {given.prevalence}"
            )
        for name in _SPANS:
            span = getattr(given, name)
            span_us = span.seconds * _SECOND_US + span.nanos // 1_000
            if given.HasField(name) and not _SECOND_US <= span_us <= _MAX_SPAN_US:
                raise _refused(name, f"{name} must be from 1 s to 3660 d, got {span_us / 1e6:g} s")
        for name in (
            "segment_keys",
            "cluster_groups",
            "expired_negative",
            "min_label_probability",
        ):
            if getattr(given, name):
                raise _refused(name, f"{name} follows from the two streams: leave it out")

    def resolved(self, a: StreamSettings, b: StreamSettings) -> PairSettings:
        """Return the settings, those left out by the two streams'.

        Raises
        ------
        RequestError
            INVALID_ARGUMENT when they contradict each other.
        """
        given = self.given
        retention_us = self._span("retention", min(a.retention_us, b.retention_us))
        label_ttl_us = max(a.label_ttl_us, b.label_ttl_us)
        least = [a.min_label_probability, b.min_label_probability]
        known = [each for each in least if each is not None]
        settings = PairSettings(
            max_cells=given.max_cells or DEFAULT_MAX_CELLS,
            max_pending=given.max_pending or DEFAULT_MAX_PENDING,
            prevalence=given.prevalence if given.HasField("prevalence") else None,
            pane_us=self._span("pane", max(a.pane_us, b.pane_us)),
            retention_us=retention_us,
            label_ttl_us=self._span("label_ttl", min(label_ttl_us, retention_us)),
            relabel_ttl_us=self._span("relabel_ttl", max(a.relabel_ttl_us, b.relabel_ttl_us)),
            segment_keys=tuple(key for key in a.segment_keys if key in b.segment_keys),
            cluster_groups=a.cluster_groups if a.cluster_groups == b.cluster_groups else 0,
            scale="probability" if a.scale == b.scale == "probability" else "plain",
            expired_negative=a.expired == b.expired == "negative",
            min_label_probability=min(known) if len(known) == len(least) else None,
        )
        settings.check_panes()
        return settings

    def _span(self, name: str, default_us: int) -> int:
        given: Any = self.given
        return int(getattr(given, name).ToMicroseconds()) if given.HasField(name) else default_us


@dataclass(frozen=True, slots=True)
class PairDeletion:
    """Deletes a pair.

    Attributes
    ----------
    name : str
    sides : (str, str) or None
        The streams of the pair that the caller may delete; None in the log, which has only
        deletions that were allowed, and where the caller knows of no such pair.
    """

    name: str
    sides: tuple[str, str] | None = None


def check_pair_name(name: str) -> None:
    """Refuse a name that no pair may have. Raises RequestError: INVALID_ARGUMENT."""
    check_stream_name(name, "name", noun="pair name")


def check_sides(a: str, b: str, path: str = "") -> None:
    """Refuse names that no stream may have, and a pair of a stream with itself.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT with the field, below `path`.
    """
    check_stream_name(a, f"{path}a")
    check_stream_name(b, f"{path}b")
    if a == b:
        raise invalid(f"{path}b", f"a pair is of two streams, and both are {a}")


def no_pair(name: str) -> RequestError:
    """Return the error of a call for a pair that does not exist, or of which one may not know."""
    return RequestError(
        Code.NOT_FOUND,
        f"there is no pair {name}: ListPairs (streameval pairs list) has the names, CreatePair "
        "(streameval pairs create) makes one of two streams, before both score the same ids",
        reason="NO_PAIR",
    )


def _check_range(name: str, value: int, least: int, most: int) -> None:
    if value and not least <= value <= most:
        raise _refused(name, f"{name} must be from {least} to {most}, got {value}")


def _refused(name: str, problem: str) -> RequestError:
    return invalid(f"pair.settings.{name}", problem)
