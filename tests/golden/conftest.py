"""What the tests of golden logs share."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def log_facts() -> ModuleType:
    """Return server_log_facts.py: a file of this directory, which is no package."""
    path = Path(__file__).with_name("server_log_facts.py")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
