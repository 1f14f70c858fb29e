"""Authentication and authorisation, for gRPC and HTTP alike.

- `tokens` reads and writes the tokens file, `tls` holds the certificates;
  `file_signature` detects that either changed.
- `rules` states what each method requires; `access` decides what a caller may do,
  and holds the call in progress. `answer_streams` ends streams of answers whose token
  no longer covers them.
"""
