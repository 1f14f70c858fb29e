"""What the engine holds of each stream: its counts by slice and pane, and its ids.

- `stream_state`: one stream, changed by rows and by time. `stream_parts`: its form in a
  checkpoint; `stream_file`: in an export.
- `counts`: collects rows (`collected_rows`) and counts them in bulk; rows of closed panes
  wait longer (`deferred_rows`). `pane_store`, `pane_content`: where the counts are, by slice
  and pane; `empty_counts`: without cases; `memory`: what they take. `slice_sort`,
  `slice_table`, `weighted_slices`: the counts of many slices at once.
- `segments`: numbers segment values. `coverage`, `delays`: how much of the truth was seen, and
  how late. `label_delays`: how late labels come, by score, for projections;
  `frozen_delays`: the same at one moment.
- `join_table`, `join_segment`: ids that wait for their other half.
- `stream_alarms`: a stream's detector, with its rows (`watched_rows`) and its frozen reference
  (`alarm_reference`). `stream_marks`: annotations.
- `pair_state`: a pair of streams, with its ids (`pair_joiner`, `pair_table`, `pair_links`) and
  its counts (`pair_panes`). `pair_parts`: its form in a checkpoint; `pair_file`: in an export.
- `file_values`: checks of values in exports.
- `views`, `pair_view`: what queries read; immutable.
"""
