"""Alarms with a stated rate: whether a stream has become worse than a frozen reference.

- `watches`: what may be watched, and the value from 0 to 1 of each case for it.
- `reference`: the frozen reference: bands of scores, tables of values, means and limits.
- `band_index`, `cell_residuals`: the band of a score, and the residual of a cell, by look-up.
- `side_table`: the sums of all values over many rows; `open_panes`: such sums for each pane that
  is not observed yet.
- `evidence`: the arithmetic of bets, without state.
- `processes`: the evidence of all processes, by the time at which a change may have begun.
- `change`: since when and by how much a mean has changed, from the evidence.
- `alarm`: the public answer, and the segments that explain it.
- `engine`: from rows to alarms; `detector`: the public detector; `codec`: its bytes.
"""

# What the server may use; the library imports the modules themselves.
from streameval._drift.alarm import Alarm
from streameval._drift.codec import decode_engine, encode_engine
from streameval._drift.engine import DriftEngine
from streameval._drift.frozen import FrozenReference, freeze
from streameval._drift.reference import MIN_CASES, ReferenceCases, cells_of_state
from streameval._drift.settings import DriftSettings, check_settings
from streameval._drift.side_table import (
    CLUSTER_GROUPS,
    MAX_MULTIPLICITY,
    CellCases,
    DriftRows,
    RowKind,
)
from streameval._drift.watches import WATCHES

__all__ = [
    "CLUSTER_GROUPS",
    "MAX_MULTIPLICITY",
    "MIN_CASES",
    "WATCHES",
    "Alarm",
    "CellCases",
    "DriftEngine",
    "DriftRows",
    "DriftSettings",
    "FrozenReference",
    "ReferenceCases",
    "RowKind",
    "cells_of_state",
    "check_settings",
    "decode_engine",
    "encode_engine",
    "freeze",
]
