"""A stream's counts, by slice and pane.

- `counts`: collects rows (`collected_rows`) and counts them in bulk; rows of closed panes
  wait longer (`deferred_rows`).
- `pane_store`, `pane_content`: where the counts are, by slice and pane; `empty_counts`: without
  cases.
- `slice_sort`, `slice_table`: the counts of many slices at once.
- `coverage`, `delays`: how much of the truth was seen, and how late.
"""
