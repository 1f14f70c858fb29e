"""streameval: live, exact evaluation of binary scorers."""

__version__ = "0.1.0"
