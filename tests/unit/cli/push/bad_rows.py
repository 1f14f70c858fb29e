"""Files of good rows with bad ones between them, and what became of them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from streameval.client import Client

from ....commands import run

STREAM = "fraud/v3"


def rejected(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def state_of(address: str, stream: str, **options: Any) -> bytes:
    with Client(address) as client:
        client.list_streams()  # waits until all is visible
        return client.stream(stream).evaluator(**options).to_bytes()


NOW = pd.Timestamp.now("UTC").floor("min")
"""Once for all tests: files that are written twice have the same times."""


def minutes(rows: int) -> list[str]:
    """Return times of the last hours."""
    return [(NOW - pd.Timedelta(minutes=row + 1)).isoformat() for row in range(rows)]


def good_cases(rows: int, seed: int) -> list[dict[str, Any]]:
    """Return rows with every column, as text has them."""
    random = np.random.default_rng(seed)
    scores, labels = random.integers(0, 64, rows) / 64, random.integers(0, 2, rows)
    return [
        {
            "score": float(score),
            "label": int(label),
            "time": time,
            "country": str(random.choice(["DE", "US"])),
            "user": f"u{random.integers(0, 20)}",
        }
        for score, label, time in zip(scores, labels, minutes(rows), strict=True)
    ]


BAD_CASES: list[tuple[dict[str, Any], str, str]] = [
    ({"score": "high"}, "score", "score 'high' is not a number"),
    ({"score": "nan"}, "score", "score must be finite, got nan"),
    ({"score": "-inf"}, "score", "score must be finite, got -inf"),
    ({"score": "[0.1, 0.2]"}, "score", "score '[0.1, 0.2]' is not a number"),
    ({"label": "maybe"}, "label", "label must be true, false, 0 or 1, got 'maybe'"),
    ({"time": "yesterday"}, "time", "time must be a time, got 'yesterday'"),
    ({"time": "1970-01-01"}, "time", "time must be after 1970, got '1970-01-01'"),
    ({"time": "0"}, "time", "time must be after 1970, got '0'"),
    ({"time": "2999-01-01T00:00:00Z"}, "store", "event time must not lie in the future"),
    ({"country": "x" * 200}, "segment", "segment value must be at most 128 bytes of UTF-8"),
]
"""What a case has instead, and the reason and message of its rejection."""


def mixed(good: list[dict[str, Any]], bad: list[tuple[Any, str, str]]) -> list[tuple[Any, Any]]:
    """Return good rows and bad ones between them, with what each bad one is rejected for."""
    rows: list[tuple[Any, Any]] = [(row, None) for row in good]
    for place, (change, *why) in enumerate(bad):
        at = (7 * place * place + 3) % len(rows)
        row = change if isinstance(change, bytes) else good[place] | change
        rows.insert(at, (row, why))
    return rows


def write(path: Path, rows: list[Any]) -> None:
    """Write rows; those that are bytes are lines as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pd.DataFrame(rows).astype({"score": str, "label": str}).to_parquet(path, row_group_size=70)
        return
    if ".csv" in path.name:
        lines = [b"score,label,time,country,user"]
        lines += [
            row if isinstance(row, bytes) else ",".join(f'"{row[key]}"' for key in row).encode()
            for row in rows
        ]
    else:
        lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
    content = b"\n".join(lines) + b"\n"
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


COLUMNS = ("--time", "time", "--segment", "country", "--cluster", "user")


def clean_state(address: str, tmp_path: Path) -> bytes:
    for number in range(3):
        write(tmp_path / "clean" / f"{number}.ndjson", good_cases(130, number))
    command = ("push", "clean", tmp_path / "clean", "--server", address, *COLUMNS)
    assert run(*command).exit_code == 0
    return state_of(address, "clean")
