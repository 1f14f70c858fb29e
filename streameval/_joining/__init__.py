"""Predictions and labels joined by id, in either order.

- `rules`: the transition table: the outcome of each operation in each state of an id.
- `table`: the ids that are kept, with flat columns; `expiry_index` is its base, an index of
  slots by due time. Ids and their slots are in an `id_dict`, and above a few thousand ids in
  `id_cells`, which has an `id_column`.
- `operations`: columns of operations, cut into rounds of distinct ids.
- `joiner`: applies the rules to operations and returns their effects. `kept_weights`: the
  rule that an id keeps the weight of its label.
- `effect_counter`: counts effects in an evaluator, with the coverage.
- `label_joiner`: the public class, `outcomes` the part of it that changes nothing; `codec`:
  joiners as bytes.
"""
