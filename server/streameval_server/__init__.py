"""The streameval service."""
