"""Weights, label probabilities and clusters of callers, checked by the library's rules.

A row has a weight or a cluster, never both: the groups of clusters keep numbers of cases.
Whether the stream declares clusters is for the server to check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streameval._counts.cluster_counts import ClusterCounts
from streameval._counts.cluster_keys import (
    cluster_checksum,
    cluster_checksums,
)
from streameval._counts.columns import check_length
from streameval._counts.weight_columns import check_unit, check_units, check_weights_allowed

if TYPE_CHECKING:
    from streameval._common.arrays import IntArray
    from streameval._counts.cluster_keys import ClusterChecksums


def check_row_sampling(
    weight: Any, label_probability: Any, cluster: Any
) -> tuple[int | None, int | None]:
    """Return the units of one row's weight, and the checksum of its cluster. O(1).

    Examples
    --------
    >>> check_row_sampling(0.5, 0.25, None), check_row_sampling(None, None, "17")
    ((131072, None), (None, 1060745282))
    """
    if weight is None and label_probability is None:
        return None, None if cluster is None else cluster_checksum(cluster)
    _check_no_cluster(cluster, "weight")
    return check_unit(weight, label_probability), None


def check_sampling_columns(
    weights: Any,
    label_probability: Any,
    clusters: Any,
    *,
    size: int,
    counts: IntArray | None,
    like: str,
) -> tuple[IntArray | None, ClusterChecksums | None]:
    """Return columns of weights in units and of checksums of clusters. O(rows).

    Parameters
    ----------
    weights, label_probability, clusters
        As in `CaseVerbs.add_cases`.
    size, counts
        The number of rows, and how many cases each stands for.
    like
        The column that has this number of rows.
    """
    if weights is None and label_probability is None:
        if clusters is None:
            return None, None
        checksums = cluster_checksums(clusters)
        check_length("clusters", checksums.size, like=like, length=size)
        return None, checksums
    _check_no_cluster(clusters, "weights")
    return check_units(weights, label_probability, size=size, counts=counts, like=like), None


def _check_no_cluster(clusters: Any, field: str) -> None:
    """Refuse weights together with clusters, whatever the stream declares."""
    groups = None if clusters is None else ClusterCounts.DEFAULT_GROUPS
    check_weights_allowed(groups, field=field, holder="a stream")
