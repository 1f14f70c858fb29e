"""Shared basics that import nothing else of the project.

`errors`, `values` (one value that a caller passed), `labels` (which values are a class),
`keywords` (calls by keyword), `names` (streams, ids, segments), `times` (as text or numbers),
`arrays` (array types), `frame` (framed, checksummed bytes), `atomic_file`, `coverage`,
`addresses` (of servers), `spans` (of time, as text), `redaction` (of tokens), `lazy_module`
(names that are imported on first use), `result` (equality of what calls return), `extras`
(what is said when an extra is not installed), `grpc_log` (gRPC's own lines), `slow_sort`
(numpy's, on one processor), `text_file` (files that are read whole).
"""
