"""Run by its path, from a checkout: ``python tests/simulation --seeds 0:50``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from simulation.command import main

if __name__ == "__main__":
    sys.exit(main())
