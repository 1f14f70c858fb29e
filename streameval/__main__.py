"""``python -m streameval``: the ``streameval`` command."""

from streameval.cli import main

if __name__ == "__main__":
    main()
