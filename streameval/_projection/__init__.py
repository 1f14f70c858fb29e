"""What a window will read once its labels are in, and how sure that is.

- `delay_counts`: for one pane, predictions by cell of score and labels by cell, class
  and delay; `delay_panes`: the same for all panes, counted from effects.
- `label_table`: the rows of all panes as columns, and what was known at a time.
- `delay_model`: the share of labels that has arrived, from panes whose labels are in.
- `estimate`: the projected counts of a window, their figures and variances.
- `label_history`: models and estimates at any time, computed once.
- `delay_scale`: whether the labels of the window come slower or faster than the model says.
- `projected_interval`: the interval of a projected value.
- `label_limits`: limits that hold whatever the missing labels are.
- `projection`: the public answer, with its backtest and the reasons to refuse.
"""
