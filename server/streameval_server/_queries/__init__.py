"""Answers to queries, computed from views: pure functions from a request to a message.

- `selection`, `resolved_selection`: which cases a request selects.
- `query_engine`: windows and snapshots, cached. `metrics`, `convert`: values as messages;
  `warnings`: what to know before trusting them.
- `curves`, `histogram`, `decision`: points and states, how scores are distributed, and what a
  threshold does.
- `projections`: what a window will read once its labels are in.
- `overview`, `series`, `comparison`, `ranking`: many streams, over time, against another
  selection, and by segment. `falls`: since when a figure is lower.
"""
