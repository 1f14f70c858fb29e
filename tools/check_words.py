"""List words and phrases that leave the subject of a sentence open; ``make check`` runs it.

Comments, messages and docs are written in plain technical English: the role, the
invariant and the reason, in the terms of the field. Each word below replaces the name
of a thread, a caller, a row or a limit: write that name instead. A limit is ``MAX_`` or
``MIN_`` with a noun and a unit.

In the sources a phrase such as "those of" stands for a noun: name the noun. "anew" and
"beside" hide what happens: say what is rebuilt, added or kept.
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
PHRASES = re.compile(r"\b(?:(?:that|those)[\s#]+of|those[\s#]+that|that[\s#]+which|anew|beside)\b")
SOURCES = ("streameval/", "server/streameval_server/")
# How many phrases a source may have, each where no better wording was found.
ALLOWED_PHRASES = {
    "streameval/_metrics/tied_ranks.py": 3,  # a variable
}
SUFFIXES = {".py", ".pyi", ".js", ".html", ".css", ".proto", ".md", ".yml", ".yaml", ".toml", ".sh"}
# Reason codes of the public API.
PUBLISHED = {"TOO_FEW", "UNDEFINED_REASON_TOO_FEW", "TOO_FEW_EFFECTIVE", "TOO_MANY"}


def find_words(text: str) -> list[tuple[int, str]]:
    """Return the line and the text of each word to replace."""
    return [
        (number, match[0])
        for number, line in enumerate(text.splitlines(), 1)
        for match in WORDS.finditer(line)
        if match[0] not in PUBLISHED
    ]


def find_phrases(name: str, text: str) -> list[tuple[int, str]]:
    """Return the line and the text of each phrase of a source, if it has more than allowed.

    A phrase may be broken over the end of a line, also of a comment's.
    """
    if not name.startswith(SOURCES) or not name.endswith(".py") or "/v1/" in name:
        return []
    found = [
        (text.count("\n", 0, match.start()) + 1, " ".join(match[0].replace("#", " ").split()))
        for match in PHRASES.finditer(text)
    ]
    return found if len(found) > ALLOWED_PHRASES.get(name, 0) else []


def main() -> int:
    """Print every occurrence with file and line; return 1 if there is one."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    count = 0
    for name in filter(None, listed):
        path = Path(name)
        if path.suffix not in SUFFIXES or name == "tools/check_words.py" or not path.exists():
            continue
        text = path.read_text()
        lines = text.splitlines()
        for number, found in [*find_words(text), *find_phrases(name, text)]:
            count += 1
            print(f"{name}:{number}: {found!r} in: {lines[number - 1].strip()[:100]}")
    print(f"{count} words to say plainly")
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main())
