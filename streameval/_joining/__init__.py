"""Predictions and labels joined by id, in either order.

- `rules`: what each operation makes of each state of an id, as a table.
- `table`: the ids that wait, as a sharded dict over flat columns.
- `operations`: columns of what is asked, cut into rounds of distinct ids.
- `joiner` applies the rules to columns; `joined` counts their effects; `label_joiner`
  is the public class, `codec` its bytes.
"""
