"""Numbered batches, sent until they are acknowledged, over one connection."""
