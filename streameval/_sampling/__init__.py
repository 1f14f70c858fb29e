"""Which predictions to label next: counts by band of score, and a draw of ids.

- `cell_gradient`: how much a label in each cell of score would move a metric.
- `neyman`: cells cut into bands, and labels divided among bands.
- `draw`: which ids of a band a seed chooses.
- `allocation`: the public functions and classes.
"""
