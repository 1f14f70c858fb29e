"""Who may do what.

- `tokens` is the file of tokens, `tls` the certificates; `watch` notices that they changed.
- `rules` says what each method needs, `access` what a caller may do.
"""
