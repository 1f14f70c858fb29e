"""From the bytes of a batch or merge to checked rows."""
