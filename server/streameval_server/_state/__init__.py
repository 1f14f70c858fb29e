"""What the engine holds of each stream: its counts by slice and pane, and waiting ids.

- `stream_state` is one stream: `counts` (`binning`, `slice_table`, `store`, `cells`,
  `pending`, `pane_content`) and `joins`, with `segments` numbered and `stream_settings` obeyed;
  `stream_info` describes it.
- `coverage`, `delays`: how much of the truth was seen, and how late.
- `views`: what queries read, immutable; `stream_file`: a stream to take elsewhere.
"""
