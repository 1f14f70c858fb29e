"""Generated messages and services of ``streameval.v1``; ``make stubs`` writes them."""
