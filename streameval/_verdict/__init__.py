"""The verdict on a stream: what changed, since when, because of whom, and how sure that is.

- `verdict`: the result, which every place renders and none computes. `words`: its sentence.
"""
