"""How late labels come, for projections: `label_delays`, and at one moment, `frozen_delays`."""
