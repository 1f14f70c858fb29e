"""A batch's rows, decoded and checked: what the engine applies.

Event times are one for all rows, one a row, or None for the time at which the
server received them. Segments are as the batch encoded them: what a code means
is the stream's to say, when the rows are applied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from streameval import Evaluator

    EventTimes = int | npt.NDArray[np.int64] | None
    BatchCodes = npt.NDArray[np.uint16] | npt.NDArray[np.uint32]


@dataclass(slots=True, eq=False)
class SegmentCodes:
    """One segment key's values, dictionary-encoded.

    Attributes
    ----------
    key : str
        A declared key.
    values : tuple of str
        Distinct values.
    codes : uint16[n] or uint32[n]
        Index into values for each row.
    """

    key: str
    values: tuple[str, ...]
    codes: BatchCodes


@dataclass(slots=True, eq=False)
class CaseRows:
    """Scored references.

    Attributes
    ----------
    labels : bool[n]
    scores : float64[n]
        Finite.
    counts : int64[n] or None
        Identical cases that each row stands for; None where each is 1.
    size : int
        Rows.
    total : int
        References: the sum of the counts, at least 1.
    event_us : int, int64[n] or None
    segments : tuple of SegmentCodes
    """

    KIND: ClassVar = "cases"

    labels: npt.NDArray[np.bool_]
    scores: npt.NDArray[np.float64]
    counts: npt.NDArray[np.int64] | None
    size: int
    total: int
    event_us: EventTimes = None
    segments: tuple[SegmentCodes, ...] = ()


@dataclass(slots=True, eq=False)
class PredictionRows:
    """Scores by id.

    Attributes
    ----------
    ids : list of bytes
    scores : float64[n]
    size, total : int
        Rows; each may become a reference.
    event_us, segments
        As in `CaseRows`.
    """

    KIND: ClassVar = "predictions"

    ids: list[bytes]
    scores: npt.NDArray[np.float64]
    size: int
    total: int
    event_us: EventTimes = None
    segments: tuple[SegmentCodes, ...] = ()


@dataclass(slots=True, eq=False)
class LabelRows:
    """The truth by id.

    Attributes
    ----------
    ids : list of bytes
    labels : bool[n]
    size, total : int
        Rows; each may become a reference.
    event_us : int, int64[n] or None
        Of the predictions, where the producer knows it.
    scores : float64[n] or None
        Of the predictions, where the producer knows them.
    """

    KIND: ClassVar = "labels"

    ids: list[bytes]
    labels: npt.NDArray[np.bool_]
    size: int
    total: int
    event_us: EventTimes = None
    scores: npt.NDArray[np.float64] | None = None


@dataclass(slots=True, eq=False)
class RetractionRows:
    """Ids that should no longer count.

    Attributes
    ----------
    ids : list of bytes
    size : int
    total : int
        0: nothing is added.
    """

    KIND: ClassVar = "retractions"

    ids: list[bytes]
    size: int
    total: int = 0


@dataclass(slots=True)
class MissRows:
    """References that were never scored.

    Attributes
    ----------
    positives, negatives : int
    size : int
        1, as it is one row of work.
    total : int
        Their sum, at least 1.
    event_us : int or None
    segments : tuple of (key, value)
    """

    KIND: ClassVar = "misses"

    positives: int
    negatives: int
    size: int
    total: int
    event_us: int | None = None
    segments: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class MergedState:
    """What somebody else counted in one pane of some slices.

    Attributes
    ----------
    event_us : int
        A time in the pane; 0 counts in all time only.
    segments : tuple of (key, value)
    evaluator : Evaluator
    """

    event_us: int
    segments: tuple[tuple[str, str], ...]
    evaluator: Evaluator


@dataclass(slots=True)
class MergeRows:
    """States that were aggregated elsewhere.

    Attributes
    ----------
    source : str
    epoch : int
    states : list of MergedState
    size : int
        What applying it is like, in rows.
    total : int
        References.
    """

    KIND: ClassVar = "merge"

    source: str
    epoch: int
    states: list[MergedState]
    size: int
    total: int


Rows = CaseRows | PredictionRows | LabelRows | RetractionRows | MissRows | MergeRows

BATCH_KINDS = tuple(
    rows.KIND for rows in (CaseRows, PredictionRows, LabelRows, RetractionRows, MissRows)
)
"""What a batch may hold: one of these."""
