"""The verdict on a stream: what changed, since when, because of whom, and how sure that is.

- `base`: the weeks that now is compared with; `base_changes`: whether ranking changed in them.
- `verdict`: the result, which every place renders and none computes. `words`: its sentence.
"""
