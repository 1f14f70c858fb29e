"""Columns of clusters as messages and back: the CRC-32 of each row's key, never the key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._counts.cluster_keys import cluster_checksums
from streameval._counts.columns import check_length

if TYPE_CHECKING:
    from streameval._counts.cluster_keys import ClusterChecksums
    from streameval.v1 import ingest_pb2

CLUSTER_BYTES = 4
"""Bytes of a cluster."""

_UINT32LE = np.dtype("<u4")


def encode_clusters(clusters: ClusterChecksums | None) -> bytes:
    """Return checksums of clusters as a bytes column. O(rows)."""
    return b"" if clusters is None else clusters.astype(_UINT32LE, copy=False).tobytes()


def cluster_column(keys: Any) -> bytes:
    """Return cluster keys as a bytes column, or refuse them. O(n), and 1 us a distinct key."""
    return encode_clusters(cluster_checksums(keys))


def decode_clusters(
    rows: ingest_pb2.Cases | ingest_pb2.Predictions, size: int, *, like: str
) -> ClusterChecksums | None:
    """Return the checksum of each row's cluster; None without clusters.

    O(rows). `like` is the column that has `size` rows. Raises InvalidInputError.
    """
    packed = rows.clusters_u32le
    if not packed:
        if not rows.clusters:
            return None
        clusters = np.array(rows.clusters, dtype=np.uint32)
        check_length("clusters", clusters.size, like=like, length=size)
        return clusters
    if rows.clusters:
        raise InvalidInputError(
            "clusters and clusters_u32le must not both be given", field="clusters_u32le"
        )
    if len(packed) % CLUSTER_BYTES:
        raise InvalidInputError(
            f"clusters_u32le must have 4 bytes for each cluster, got {len(packed)} bytes",
            field="clusters_u32le",
        )
    check_length("clusters_u32le", len(packed) // CLUSTER_BYTES, like=like, length=size)
    return np.frombuffer(packed, _UINT32LE).astype(np.uint32, copy=False)
