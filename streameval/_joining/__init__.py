"""Predictions and labels joined by id, in either order.

- `rules`: what each operation makes of each state of an id, as a table.
- `table`: the ids that wait, as a sharded dict over flat columns.
- `operations`: columns of what is asked, cut into rounds of distinct ids.
- `joiner` applies the rules to columns; `joined` counts their effects; `label_joiner`
  is the public class, `codec` its bytes.
"""

# What the server may use; the library imports the modules themselves.
from streameval._joining.codec import encode_joiner
from streameval._joining.expiry_index import LAST_BUCKET, UNLISTED_BUCKET, SlotArray
from streameval._joining.joiner import Joiner
from streameval._joining.rules import EARLY_POSITIVE, JOIN_COUNTERS, JoinSettings
from streameval._joining.table import FREE_SLOT, JoinTable

__all__ = [
    "EARLY_POSITIVE",
    "FREE_SLOT",
    "JOIN_COUNTERS",
    "LAST_BUCKET",
    "UNLISTED_BUCKET",
    "JoinSettings",
    "JoinTable",
    "Joiner",
    "SlotArray",
    "encode_joiner",
]
