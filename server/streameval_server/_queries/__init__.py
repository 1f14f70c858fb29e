"""Answers to queries, computed from views: from a request to a message.

- `selection`, `resolved_selection`: which cases a request selects.
- `query_engine`: windows and answers, cached; `derived_answers`: a limit on what states keep of
  answers. `metrics`, `convert`: values as messages; `warnings`: what to know before trusting them.
- `curves`, `histogram`, `decision`, `reliability`: points and states, how scores are distributed,
  what a threshold does, and whether scores are probabilities.
- `coverage_answers`: how many predictions have their label. `projections`: what a window will
  read once its labels are in. `label_sample`: what to label next.
- `overview`, `series`, `comparison`, `ranking`: many streams, over time, against another
  selection, and by segment. `alarms`: alarms as messages.
- `pair_request`, `pair_window`, `pair_answer`: comparisons of a pair on the ids of both.
- `stream_list_request`, `stream_list`: a page of streams in an order (`summary_order`).
  `stream_summaries` has a thread that keeps the tables (`summary_table`) of one entry a stream
  (`summary_entry`, made by `stream_summary`); `summary_file` keeps the last
  day's for the next server.
"""
