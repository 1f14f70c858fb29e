"""From the command line to a running server: configuration, logs, start, stop."""
