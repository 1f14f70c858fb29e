"""The wire form of rows: each column of a batch, encoded and decoded side by side.

The client encodes rows and the server decodes them. Some columns have two forms: a
plain repeated field, which is natural in every language, and a bytes column, which
this library writes because it takes about 1 ns a value instead of 80 ns.

- Scores of cases: little-endian float64. Labels of cases: one bit each, the first
  row in the lowest bit of the first byte.
- Event times: one for all rows, one for each row, or none (the server's time).
- Segments: for each key its distinct values, and a code for each row, or one code for
  all rows. Codes are little-endian uint16 unless a key has more than 65,536 values.
- Weights: float64, divided by the label probabilities. Clusters: the CRC-32 of each
  row's key, little-endian uint32.

Decoding accepts every form of the contract, and checks that columns fit together and
that values are valid, with the library's own messages. The `field` of an
`InvalidInputError` is the path inside the message of the kind (``segments[0].codes``).
Limits and the settings of a stream are for the server to check.

Cost: O(rows), a few nanoseconds a value; the number of calls does not depend on the rows.

- `encode`: rows as a message, for each kind of rows.
- `decode`: the rows of a batch, read and checked column by column.
- `segments`: columns of segments.
- `weights`, `clusters`: columns of weights and label probabilities, and of clusters.
"""
