"""The verdict on a stream: what changed, since when, because of whom, and how sure that is.

- `decide`: the verdict as a pure function; `now`: cases and figures of now; `moves`:
  what else changed; `replay`: on panes.
- `base`: the weeks that now is compared with; `base_changes`: whether ranking changed in them.
- `verdict`: the result, which every place renders and none computes. `words`: its sentence.
- `evidence`: what decides that there is a change, at any number of looks; `level_sums`: what the
  search reads. `evidence_base`: what of the base is kept. `evidence_codec`: all of it as bytes.
- `search`: since when. `difference`, `share`: how much, and because of whom. `doubts`: what may
  look like a change.
"""
