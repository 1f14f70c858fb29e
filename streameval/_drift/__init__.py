"""Alarms with a stated rate: whether a stream has become worse than a frozen reference.

- `watches`: what may be watched, and the value from 0 to 1 of each case for it.
- `settings`: what the user declares. `reference`: the frozen reference: bands of scores, tables
  of values, means and limits; `frozen`: of the whole and of segments;
  `slow`: how its panes depend on one another over hours.
- `band_index`, `cell_residuals`: the band of a score, and the residual of a cell, by look-up.
- `side_table`: the sums of all values over many rows; `open_panes`: such sums for each pane that
  is not observed yet.
- `past_cases`: cases of before, by the panes that were kept, to be replayed.
- `evidence`: the arithmetic of bets, without state.
- `processes`: the evidence of all processes, by the time at which a change may have begun.
- `change`: since when and by how much a mean has changed, from the evidence.
- `alarm`: the public answer, and the segments that explain it.
- `engine`: from rows to alarms; `detector`: the public detector; `codec`: its bytes,
  `alarm_codec`: alarms as bytes.
"""
