"""How many cases can be counted exactly."""

from __future__ import annotations

from streameval._errors import InvalidInputError

LIMIT = 2**62
"""All counts together stay below this, so that doubled counts fit int64."""


def too_many() -> InvalidInputError:
    """Return the refusal of more cases than can be counted exactly."""
    return InvalidInputError("all counts together must stay below 2**62", field="counts")
