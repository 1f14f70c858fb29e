"""The simulations of the verdict, small: what they say of healthy streams, of falls and shares."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"
SEED = 801


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Benchmarks import one another from their folder."""
    monkeypatch.syspath_prepend(str(BENCH))


def lines(capsys: pytest.CaptureFixture[str], header: str) -> list[list[str]]:
    """Return the columns of the rows below a header, which two blanks or a slash part."""
    text = capsys.readouterr().out
    rows = text[text.index("\n" + header) + 1 :].splitlines()[1:]
    return [[each.strip() for each in row.replace("/", "  ").split("  ") if each.strip()]
            for row in rows]  # fmt: skip


def test_the_arrays_are_the_library(capsys: pytest.CaptureFixture[str]) -> None:
    """Evidence in arrays calls at the same steps, otherwise it exits."""
    import verdict

    verdict.check(Namespace(seed=SEED, rates=(2.0, 20.0)))
    assert capsys.readouterr().out.count("calls") == 2


def test_no_healthy_stream_is_worse(capsys: pytest.CaptureFixture[str]) -> None:
    """Of three streams of each kind over 20 days."""
    import verdict

    verdict.print_healthy(Namespace(streams=3, days=20, seed=SEED))
    found = lines(capsys, "kind")
    assert len(found) == len(verdict.HEALTHY)
    assert all(row[1] == "0" for row in found)


def test_falls_are_found_and_held(capsys: pytest.CaptureFixture[str]) -> None:
    """All six falls to 1.0, a median of less than two days after they began."""
    import verdict

    verdict.print_drops(Namespace(streams=6, rates=(5.0,), seed=SEED, falls=("to 1.0",)))
    (row,) = lines(capsys, "fall of d")
    name, rate, found, hours, held, held_later, *_ = row
    assert (name, rate, found) == ("to 1.0", "5", "1.00")
    assert float(hours) < 48
    assert min(float(held), float(held_later)) > 0.8


@pytest.mark.heavy
def test_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """A tenth of the figures in docs/evidence-verdict.md, by the same code and other seeds."""
    import verdict

    verdict.print_healthy(Namespace(streams=100, days=60, seed=SEED))
    assert sum(int(row[1]) for row in lines(capsys, "kind")) <= 2
    falls = tuple(verdict.DROPS)
    verdict.print_drops(Namespace(streams=20, rates=(5.0, 20.0), seed=SEED, falls=falls))
    for name, _, found, _, held, later, overlap, overlap_later, *_ in lines(capsys, "fall of d"):
        assert float(found) > 0.9
        limits = (overlap, overlap_later) if "in 48 h" in name else (held, later)
        assert min(map(float, limits)) >= 0.85


def test_shares_are_the_parts(capsys: pytest.CaptureFixture[str]) -> None:
    """Of five populations whose parts are known, each within 0.1 in nine of ten draws."""
    import verdict_shares

    verdict_shares.print_shares(Namespace(streams=10, seed=SEED))
    found = lines(capsys, "change")
    assert len(found) == 15
    assert all(float(row[-1]) >= 0.9 for row in found)
