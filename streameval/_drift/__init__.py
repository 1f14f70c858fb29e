"""Alarms with a stated rate: whether a stream has become worse than a frozen reference.

- `watches`: what may be watched, and the value from 0 to 1 of each case for it.
- `reference`: the frozen reference: bands of scores, tables of values, means and limits.
- `evidence`: the arithmetic of bets, without state.
- `open_panes`: exact sums of the panes that are not observed yet.
- `processes`: the evidence of all processes, by the time at which a change may have begun.
- `change`: since when and by how much a mean has changed, from the evidence.
- `alarm`: the public answer, and the segments that explain it.
- `detector`: the public detector; `codec`: its bytes.
"""
