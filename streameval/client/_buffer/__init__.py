"""Rows as callers add them, held until they are sent as batches."""
