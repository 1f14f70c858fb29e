"""Figures of parts of the data: of each group of cases, and of each class of several.

- `factors`: a column of any values as distinct values and codes.
- `groups`: one evaluator for each group, ranked by the difference from the rest.
- `one_vs_rest`: one evaluator for each class, with means over the classes.
- `tables`: rows of text in aligned columns.
"""
