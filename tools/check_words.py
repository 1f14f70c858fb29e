"""List words that leave the subject of a sentence open; ``make check`` runs it.

Comments, messages and docs are written in plain technical English: the role, the
invariant and the reason, in the terms of the field. Each word below replaces the name
of a thread, a caller, a row or a limit: write that name instead. A limit is ``MAX_`` or
``MIN_`` with a noun and a unit.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

WORDS = re.compile(
    r"\b(?i:somebody|anybody|nobody|whoever|so many|so much|what waits|the thing for)\b"
    r"|\b_?(?:MUCH|FEW|MANY|MOST|LEAST|ENOUGH|BRISK)(?:_[A-Z_]+)?\b"
    r"|\b_?[A-Z][A-Z_]*_(?:MUCH|FEW|MANY|MOST|LEAST|ENOUGH)\b"
)
SUFFIXES = {".py", ".pyi", ".js", ".html", ".css", ".proto", ".md", ".yml", ".yaml", ".toml", ".sh"}
# Reason codes of the public API.
PUBLISHED = {"TOO_FEW", "UNDEFINED_REASON_TOO_FEW", "TOO_FEW_EFFECTIVE", "TOO_MANY"}


def main() -> int:
    """Print every occurrence with file and line; return 1 if there is one."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    found = 0
    for name in filter(None, listed):
        path = Path(name)
        if path.suffix not in SUFFIXES or name == "tools/check_words.py" or not path.exists():
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for match in WORDS.finditer(line):
                if match[0] not in PUBLISHED:
                    found += 1
                    print(f"{name}:{number}: {match[0]!r} in: {line.strip()[:100]}")
    print(f"{found} words to say plainly")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
