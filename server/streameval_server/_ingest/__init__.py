"""Sessions and unary calls that take batches in; no I/O."""
