"""What the engine holds of each stream: its counts by slice and pane, and its ids.

- `stream_state`: one stream, changed by rows and by time. `stream_parts`: its form in a
  checkpoint; `stream_file`: in an export.
- `counts`: collects rows and counts them in bulk. `pane_store`, `pane_content`: where the
  counts are, by slice and pane; `memory`: what they take.
  `slice_sort`, `slice_table`: the counts of many slices at once.
- `segments`: numbers segment values. `coverage`, `delays`: how much of the truth was seen, and
  how late. `label_delays`: how late labels come, by score, for projections;
  `frozen_delays`: the same at one moment.
- `join_table`, `join_segment`: ids that wait for their other half.
- `views`: what queries read; immutable.
"""
