"""The printable report of a stream: one HTML file without scripts, from a server's answers.

`answers` asks the server, `charts` draws, `words` formats what people read, `markup` escapes
and builds elements, `style` has the sheet; `figures`, `sections` and `assumptions` write the
parts of the `document`.
"""
