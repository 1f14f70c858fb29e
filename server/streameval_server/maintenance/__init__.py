"""Work on a data directory: verify, restore, replay to a revision, offline commands."""

from streameval_server._log.data_directory import LOG_NAME

__all__ = ["LOG_NAME"]
