"""Folders that are tables: more files than rows count, so they are refused with a command."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from ...commands import refusal, run

if TYPE_CHECKING:
    from pathlib import Path

ROWS = pd.DataFrame({"score": [0.9, 0.1], "label": [1, 0]})
VERSION = "00002-21a5d874-f56f-4f68-a425-52d81fec8f28.metadata.json"

LAKES = {
    "Delta Lake": ["_delta_log/00000000000000000000.json", "part-0.parquet", "part-1.parquet"],
    "Delta Lake, partitioned": ["_delta_log/0.json", "day=1/a.parquet", "day=2/b.parquet"],
    # delta-rs#207: deletion vectors and change data lie next to the files
    "Delta Lake, change data": ["_delta_log/0.json", "_change_data/c.parquet", "a.parquet"],
    "Delta Lake, a checkpoint alone": ["_delta_log/1.checkpoint.parquet", "a.parquet"],
    "Apache Iceberg": [f"metadata/{VERSION}", "metadata/00001-x.metadata.json", "data/a.parquet"],
    "Apache Iceberg, of Hadoop": ["metadata/v10.metadata.json", "metadata/v9.metadata.json"],
    "Apache Iceberg, packed": ["metadata/v3.gz.metadata.json", "data/country=DE/a.parquet"],
    "Apache Iceberg, packed by Hadoop": ["metadata/v3.metadata.json.gz", "data/a.parquet"],
    "Apache Hudi": [".hoodie/hoodie.properties", "a_0-1-0_2026.parquet"],
    "Apache Hudi, partitioned": [".hoodie/timeline/1.commit", "2026/11/26/a.parquet"],
}


@pytest.mark.parametrize("name", LAKES)
def test_a_table_is_refused_from_everywhere(tmp_path: Path, name: str) -> None:
    """Its folder, the folder above, a folder in it and a file in it; the command can be run."""
    table = tmp_path / "all of it" / "clicks"
    for each in LAKES[name]:
        (table / each).parent.mkdir(parents=True, exist_ok=True)
        (table / each).write_bytes(b"{}")
    files = [each for each in table.rglob("*.parquet") if "_log" not in str(each)]
    for file in files:
        ROWS.to_parquet(file)
    for path in (table, tmp_path, *files, *(file.parent for file in files)):
        line = refusal(run("evaluate", path))
        assert f"makes it a table of {name.partition(',')[0]}" in line
        install, command = line.partition("; run: ")[2].split(" && ")
        python, option, script, source, target = shlex.split(command)
        assert (python, option, install.split()[:2]) == ("python", "-c", ["pip", "install"])
        compile(script, "remedy", "exec")
        assert target == f"{table}.rows.parquet"
        assert source.startswith(str(table))
        assert ("metadata" in source) == ("Iceberg" in name)
    if "Hadoop" in name and "packed" not in name:
        assert source.endswith("v10.metadata.json")
    assert refusal(run("push", "s", table, "--server", "127.0.0.1:1")) == line.replace(
        str(path), str(table), 1
    )


@pytest.mark.parametrize("other", ["metadata/readme.txt", "_SUCCESS", "_metadata/x", "a.crc"])
def test_other_folders_are_read(tmp_path: Path, other: str) -> None:
    """What Spark and others write besides; and a partition whose key begins with "_"."""
    (tmp_path / "_day=1").mkdir()
    (tmp_path / other).parent.mkdir(exist_ok=True)
    (tmp_path / other).write_text("")
    ROWS.to_parquet(tmp_path / "_day=1" / "a.parquet")
    result = run("evaluate", tmp_path, "--by", "_day")
    assert result.exit_code == 0, result.output


def test_a_file_of_text_in_a_table_s_folder_is_read(tmp_path: Path) -> None:
    """Tables have no CSV: it is the user's own."""
    (tmp_path / "_delta_log").mkdir()
    ROWS.to_csv(tmp_path / "mine.csv", index=False)
    assert run("evaluate", tmp_path / "mine.csv").exit_code == 0
