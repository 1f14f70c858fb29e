"""Configuration, logs, start and stop of the server process."""
