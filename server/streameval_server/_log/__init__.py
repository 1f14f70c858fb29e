"""The log: entries, storage, checkpoints, producer marks, the data directory."""
