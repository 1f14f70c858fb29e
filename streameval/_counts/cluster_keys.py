"""Cluster keys, and the group that each is hashed into.

Cases with one key are dependent: the rows of a user, of a merchant, of a burst. A key is
kept as the number of its group only, never as text, so keys may be personal data.

The hash is part of the format of a state, the same in every version and language. A key
is bytes: text is its UTF-8, an integer its decimal digits, so 17, "17" and b"17" are one
cluster. With c the CRC-32 (zlib's) of the bytes, the group is mix(c) mod G, where mix is
the finaliser of SplitMix64 (Steele, Lea and Flood 2014) in 64-bit arithmetic.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from streameval._common.errors import InvalidInputError
from streameval._common.values import at_row, is_number, shown
from streameval._counts.columns import check_length, read_column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._common.arrays import IntArray

MIN_CLUSTER_GROUPS = 8
"""With fewer groups the variance has too few degrees of freedom for an interval of use."""
MAX_CLUSTER_GROUPS = 1024

GroupArray = npt.NDArray[np.uint16]
"""The group of each row's cluster."""

ClusterChecksums = npt.NDArray[np.uint32]
"""The CRC-32 of each row's key: what rows carry where the number of groups is not known yet."""

_UINT64 = (1 << 64) - 1
_INCREMENT = 0x9E3779B97F4A7C15
_FIRST_FACTOR, _SECOND_FACTOR = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def group_of(key: bytes, groups: int) -> int:
    """Return the group of a key, 0 to groups - 1. O(length).

    Examples
    --------
    >>> group_of(b"user-17", 32), group_of(b"user-18", 32)
    (20, 31)
    """
    mixed = (zlib.crc32(key) + _INCREMENT) & _UINT64
    mixed = ((mixed ^ (mixed >> 30)) * _FIRST_FACTOR) & _UINT64
    mixed = ((mixed ^ (mixed >> 27)) * _SECOND_FACTOR) & _UINT64
    return (mixed ^ (mixed >> 31)) % groups


def groups_of(checksums: ClusterChecksums, groups: int) -> IntArray:
    """Return the group of each key, given their CRC-32: what `group_of` returns. O(n).

    Examples
    --------
    >>> keys = [b"user-17", b"user-18"]
    >>> groups_of(np.array([zlib.crc32(key) for key in keys], dtype=np.uint32), 32).tolist()
    [20, 31]
    """
    # Arithmetic of uint64 columns is modulo 2**64.
    mixed = checksums.astype(np.uint64)
    mixed += np.uint64(_INCREMENT)
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(_FIRST_FACTOR)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(_SECOND_FACTOR)
    mixed ^= mixed >> np.uint64(31)
    if groups & (groups - 1):
        mixed %= np.uint64(groups)
    else:
        mixed &= np.uint64(groups - 1)  # the same, without a division
    return mixed.view(np.int64)


def check_cluster_groups(groups: Any) -> int | None:
    """Read the number of groups, or refuse it; None declares no clusters."""
    if groups is None:
        return None
    if not is_number(groups) or not isinstance(groups, int | np.integer):
        message = f"cluster_groups must be an integer or None, got {shown(groups)}"
        raise InvalidInputError(message, field="cluster_groups")
    if not MIN_CLUSTER_GROUPS <= groups <= MAX_CLUSTER_GROUPS:
        message = (
            f"cluster_groups must be between {MIN_CLUSTER_GROUPS} and {MAX_CLUSTER_GROUPS}, "
            f"got {shown(groups)}"
        )
        raise InvalidInputError(message, field="cluster_groups")
    return int(groups)


def check_clusters(
    clusters: Any, groups: int | None, size: int, *, like: str = "labels"
) -> GroupArray | None:
    """Return the group of each row's cluster, or refuse them. O(n), and 1 us a distinct key.

    Parameters
    ----------
    clusters : column of str, int or bytes, or None
        Where no clusters are declared, None.
    groups : int or None
        How many groups the evaluator declares; None declares no clusters.
    size : int
        The number of rows.
    like : str
        The column that has as many rows, for the message.

    Raises
    ------
    InvalidInputError
        For clusters where none are declared, none where they are, another length, and
        values of other or of mixed types.
    """
    _check_declared(clusters, groups, field="clusters")
    if groups is None:
        return None
    hashed = groups_of(cluster_checksums(clusters), groups)
    check_length("clusters", hashed.size, like=like, length=size)
    return hashed.astype(np.uint16)


def cluster_checksums(clusters: Any) -> ClusterChecksums:
    """Return the CRC-32 of each key of a column, or refuse it. O(n), and 1 us a distinct key.

    Parameters
    ----------
    clusters : column of str, int or bytes

    Raises
    ------
    InvalidInputError
        For values of other or of mixed types, with ``index``.

    Examples
    --------
    >>> cluster_checksums(["17", "18"]).tolist(), cluster_checksums([17, 18]).tolist()
    ([1060745282, 2944839123], [1060745282, 2944839123])
    """
    column = read_column(clusters, "clusters")
    if isinstance(clusters, list | tuple):
        # The caller's objects: numpy converts mixed types to one.
        return _checksums(clusters)
    if column.dtype.kind in "iuSU":
        distinct, index = np.unique(column, return_inverse=True)
        return _checksums(distinct.tolist())[index]
    return _checksums(column.tolist())


def cluster_checksum(cluster: Any) -> int:
    """Return the CRC-32 of one key, or refuse it. O(length)."""
    return zlib.crc32(_encoded(cluster, _kind_of(cluster)))


def check_cluster(cluster: Any, groups: int | None) -> GroupArray | None:
    """Return the group of one cluster as a column of one row, or refuse it. O(1)."""
    _check_declared(cluster, groups, field="cluster")
    if groups is None:
        return None
    return np.array([group_of(_encoded(cluster, _kind_of(cluster)), groups)], dtype=np.uint16)


def _check_declared(clusters: Any, groups: int | None, *, field: str) -> None:
    if groups is None and clusters is not None:
        message = f"{field} needs an evaluator that declares clusters: give it cluster_groups=32"
        raise InvalidInputError(message, field=field)
    if groups is not None and clusters is None:
        message = f"the evaluator declares clusters, so every case needs one: give {field}="
        raise InvalidInputError(message, field=field)


def _checksums(keys: Sequence[Any]) -> ClusterChecksums:
    """Return the CRC-32 of each key, computed once for each distinct key."""
    kinds = {_kind_of_type(each) for each in set(map(type, keys))}
    if len(kinds) > 1 or None in kinds:
        raise _refused_key(keys)
    kind = next(iter(kinds), None)
    known = {key: zlib.crc32(_encoded(key, kind)) for key in set(keys)}
    return np.fromiter(map(known.__getitem__, keys), dtype=np.uint32, count=len(keys))


def _kind_of(cluster: Any) -> str:
    """Return the kind of one key's type, or refuse the key."""
    kind = _kind_of_type(type(cluster))
    if kind is None:
        raise _refused_type(cluster, "cluster")
    return kind


def _kind_of_type(each: type) -> str | None:
    if issubclass(each, bool):
        return None
    if issubclass(each, int | np.integer):
        return "int"
    return "str" if issubclass(each, str) else "bytes" if issubclass(each, bytes) else None


def _refused_key(keys: Sequence[Any]) -> InvalidInputError:
    """Return the error for the first key of another type than the first one."""
    first = _kind_of_type(type(keys[0]))
    kinds = (_kind_of_type(type(key)) for key in keys)
    index, kind = next((at, kind) for at, kind in enumerate(kinds) if kind is None or kind != first)
    if kind is None:
        return _refused_type(keys[index], "clusters", index)
    message = f"clusters must all be of one type, got {kind} after {first} at index {index}"
    return InvalidInputError(message, field="clusters", index=index)


def _refused_type(key: Any, field: str, index: int | None = None) -> InvalidInputError:
    message = f"a cluster must be str, int or bytes, got {shown(key)}{at_row(index)}"
    return InvalidInputError(message, field=field, index=index)


def _encoded(key: Any, kind: str | None) -> bytes:
    if kind == "bytes":
        return bytes(key)
    if kind == "int":
        return b"%d" % int(key)
    # A lone surrogate, which no UTF-8 has, still has a group.
    return str(key).encode("utf-8", "surrogatepass")
