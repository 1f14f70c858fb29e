"""One Spark for all tests: starting it costs more than most of them."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from streameval import Evaluator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# Fixed for drivers and executors, so that the machine's settings do not matter.
ENVIRONMENT = {
    "SPARK_LOCAL_IP": "127.0.0.1",
    "PYSPARK_PYTHON": sys.executable,
    "PYSPARK_DRIVER_PYTHON": sys.executable,
}
SETTINGS = {
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    # Tests are short, so thorough compilation would cost more than it saves.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.session.timeZone": "UTC",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Allow for slow start-up on a busy machine, and ignore pyspark's warning of new pandas."""
    for item in items:
        if "tests/spark/" in item.nodeid:
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(300))
            item.add_marker(pytest.mark.filterwarnings("ignore:PySpark does not yet fully support"))


@pytest.fixture(scope="session")
def spark(
    require: Callable[[str], Any],
    require_command: Callable[[str], str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Any]:
    """Return a session on two threads of this machine."""
    require("pyspark")
    require("pyarrow")
    require_command("java")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        patch.delenv("SPARK_HOME", raising=False)
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]").appName("streameval-tests")
        for name, value in SETTINGS.items():
            builder = builder.config(name, value)
        scratch = tmp_path_factory.mktemp("spark")
        builder = builder.config("spark.local.dir", str(scratch))
        session = builder.config("spark.sql.warehouse.dir", str(scratch / "tables")).getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        try:
            yield session
        finally:
            session.stop()


def fraud(rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Return columns like those of a model in production, with ties and rare positives."""
    rng = np.random.default_rng(seed)
    label = rng.random(rows) < 0.1
    return {
        "model": rng.choice(["a", "b", "b", "b", "b", "b", "b"], rows),
        "country": rng.choice(["US", "DE"], rows),
        "score": np.round(rng.normal(size=rows) + 1.4 * label, 3),
        "label": label,
        "minute": rng.integers(0, 3, rows),
    }


def frame(session: Any, columns: dict[str, Any], schema: str, partitions: int = 3) -> Any:
    """Return columns as a DataFrame."""
    rows = list(zip(*(np.asarray(c, dtype=object).tolist() for c in columns.values()), strict=True))
    return session.createDataFrame(rows, schema).repartition(partitions)


def counted(columns: dict[str, Any], where: Any = slice(None), **settings: Any) -> Evaluator:
    """Return an evaluator with these rows."""
    ev = Evaluator(**settings)
    ev.add_cases(labels=columns["label"][where], scores=columns["score"][where])
    return ev


def write_json(path: Path, columns: dict[str, Any], where: Any = slice(None)) -> None:
    """Write rows as a file of JSON lines, atomically."""
    import json

    picked = {name: np.asarray(column)[where].tolist() for name, column in columns.items()}
    lines = (json.dumps(dict(zip(picked, row, strict=True)))
             for row in zip(*picked.values(), strict=True))  # fmt: skip
    part = path.with_name("." + path.name)
    part.write_text("\n".join(lines))
    part.replace(path)
