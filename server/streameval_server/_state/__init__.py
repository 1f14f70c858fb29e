"""What the engine holds of each stream and pair.

- `stream_state`: one stream, changed by rows and by time. `stream_parts`: its form in a
  checkpoint; `stream_file`: in an export. `stream_marks`: its annotations. `segments`: numbers
  segment values. `memory`: what counts take.
- `counting`: its counts by slice and pane. `ids`: ids that wait for their other half.
  `alarms`: its detector. `delays`: how late labels come.
- `pairs`: two streams compared.
- `file_values`: checks of values in exports.
- `views`: what queries read of a stream; immutable.
"""
