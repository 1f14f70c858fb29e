"""Writes every golden file of bytes again: python tests/golden.

For the commit that freezes the formats. After it a file is never written again: a change of a
format gets the next number, a new file and a test that reads both.
"""

import test_detector_bytes
import test_log
import test_pair_file
import test_state_bytes
import test_stream_file
import test_time_state_bytes

for each in (
    test_detector_bytes,
    test_log,
    test_pair_file,
    test_state_bytes,
    test_stream_file,
    test_time_state_bytes,
):
    each.write()
