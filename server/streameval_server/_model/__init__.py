"""The ground of the server: errors, limits, names, rows, settings."""
