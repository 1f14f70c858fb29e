"""A pair of streams.

- `pair_state`: the pair, with its ids (`pair_joiner`, `pair_table`, `pair_links`) and its counts
  (`pair_panes`). `pair_view`: what queries read.
- `pair_parts`: its form in a checkpoint; `pair_file`: in an export.
"""
