"""The ids that a paired evaluator has counted, so that none is counted twice.

An id is a word of 64 bits: an integer itself (-1 is 2^64 - 1), a string its hash
(blake2b). Two strings of n have the same word with a probability of about n^2/2^65, which
is 3 in a million for ten million. 8 B an id.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from streameval._common.errors import InvalidInputError
from streameval._common.values import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._common.arrays import BoolArray

WordArray: TypeAlias = npt.NDArray[np.uint64]
NO_WORDS: WordArray = np.empty(0, dtype=np.uint64)
_WORD_RANGE = 2**64


@dataclass(frozen=True, slots=True, eq=False)
class IdWords:
    """A column of ids: what the caller gave, and the word of each."""

    values: Sequence[Any] | npt.NDArray[Any]
    words: WordArray

    @classmethod
    def of(cls, ids: Any) -> Self:
        """Check a column of strings, or of integers of 64 bits. O(n).

        Raises
        ------
        InvalidInputError
            For ids of another kind.
        """
        if isinstance(ids, np.ndarray) and ids.dtype.kind in "iu" and ids.ndim == 1:
            return cls(ids, ids.astype(np.uint64))  # two's complement, as in _word
        if isinstance(ids, str | bytes) or not hasattr(ids, "__iter__"):
            message = f"ids must be a column (a list or an array), got {type(ids).__name__}"
            raise InvalidInputError(message, field="ids")
        values = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
        words = [_word(value, index) for index, value in enumerate(values)]
        return cls(values, np.array(words, dtype=np.uint64))

    def __len__(self) -> int:
        return len(self.words)

    def rows(self, kept: BoolArray) -> Self:
        """Return some rows of the column."""
        values = [value for value, is_kept in zip(self.values, kept) if is_kept]
        return type(self)(values, self.words[kept])

    def added_to(self, known: WordArray) -> WordArray:
        """Return ascending words with these added. O(n + d log n).

        Raises
        ------
        InvalidInputError
            At the first id that is repeated.
        """
        self._refuse(self._is_repeated() | self._is_in(known), "is repeated: a case counts once")
        words = np.sort(self.words)
        return np.insert(known, np.searchsorted(known, words), words)

    def removed_from(self, known: WordArray) -> WordArray:
        """Return ascending words without these. O(n + d log n).

        Raises
        ------
        InvalidInputError
            At the first id that is unknown or repeated.
        """
        self._refuse(self._is_repeated() | ~self._is_in(known), "has no case to remove")
        return np.delete(known, np.searchsorted(known, self.words))

    def _is_repeated(self) -> BoolArray:
        repeated = np.ones(len(self), dtype=np.bool_)
        repeated[np.unique(self.words, return_index=True)[1]] = False
        return repeated

    def _is_in(self, known: WordArray) -> BoolArray:
        if not known.size:
            return np.zeros(len(self), dtype=np.bool_)
        places = np.minimum(np.searchsorted(known, self.words), known.size - 1)
        found: BoolArray = known[places] == self.words
        return found

    def _refuse(self, rows: BoolArray, fault: str) -> None:
        if rows.any():
            index = int(np.argmax(rows))
            message = f"id {shown(self.values[index])} at index {index} {fault}"
            raise InvalidInputError(message, field="ids", index=index)


def united_words(parts: Sequence[WordArray | None]) -> WordArray | None:
    """Return the ascending words of several evaluators, None for those without ids. O(n log n).

    Raises
    ------
    InvalidInputError
        Where two of them have one word, or only some have ids.
    """
    known = [part for part in parts if part is not None]
    if not known:
        return None
    if len(known) < len(parts):
        message = "some of these pairs were filled with ids and some without"
        raise InvalidInputError(message, field="other")
    words = np.sort(np.concatenate(known))
    repeated = int((words[1:] == words[:-1]).sum())
    if repeated:
        message = f"{repeated} ids are in more than one of these pairs: a case counts once"
        raise InvalidInputError(message, field="other")
    return words


def _word(value: Any, index: int) -> int:
    if isinstance(value, str):
        return int.from_bytes(blake2b(value.encode(), digest_size=8).digest(), "little")
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        if -(2**63) <= value < _WORD_RANGE:
            return int(value) % _WORD_RANGE
        message = f"an integer id must fit 64 bits, got {value} at index {index}"
    else:
        message = f"id must be a string or an integer, got {type(value).__name__} at index {index}"
    raise InvalidInputError(message, field="ids", index=index)
