"""Work on a data directory: verify, restore, replay to a revision, offline commands."""
