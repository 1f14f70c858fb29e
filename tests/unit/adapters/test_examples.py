"""Adapters: their examples run, and `import streameval` imports no host library."""

from __future__ import annotations

import doctest
import importlib
import subprocess
import sys

import pytest


@pytest.mark.filterwarnings("ignore")  # of the host libraries, at import
@pytest.mark.parametrize("host", ["river", "sklearn", "torchmetrics"])
def test_examples_run(host: str, require) -> None:
    """The doctests of each adapter pass."""
    require(host)
    adapter = importlib.import_module(f"streameval.adapters.{host}")
    result = doctest.testmod(adapter)
    assert result.attempted > 1
    assert result.failed == 0


def test_areas_examples_run() -> None:
    """The doctest of an unknown name passes."""
    from streameval.adapters import _areas

    assert doctest.testmod(_areas) == (0, 1)


def test_hosts_stay_out() -> None:
    """Neither the library nor the adapters' package imports a host library."""
    code = (
        "import sys, streameval, streameval.adapters;"
        "sys.exit(str({'river', 'sklearn', 'torch', 'torchmetrics'} & set(sys.modules) or ''))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""


def test_areas_are_the_snapshot_s() -> None:
    """An area has the name and the value that a snapshot gives it."""
    from streameval import Evaluator
    from streameval.adapters._areas import area_of
    from streameval.statistics import Place

    ev = Evaluator()
    ev.add_cases(labels=[1, 0, 1, 0, 0], scores=[0.9, 0.7, 0.4, 0.1, 0.4])
    snapshot = ev.snapshot()
    assert {name: area_of(name).value(ev) for name in Place.ADAPTER.names()} == {
        name: getattr(snapshot, name) for name in Place.ADAPTER.names()
    }
