"""Answers, computed from views: pure functions from a request to a message.

- `selection`, `applied`: which cases a request means.
- `figures`, `answers`, `snapshots`, `curve_state`, `convert`: what is known of them;
  `histogram`, `decision`: how scores lie, and what a threshold does.
- `overview`, `series`, `comparison`, `ranking`, `watching`, `then`: of many streams, over
  time, against others, live, and as it was.
- `warnings`: what to know before trusting an answer.
"""
