"""The rate of senders without tokens, on a clock of the test."""

from __future__ import annotations

import pytest

pytest.importorskip("jmespath", reason="needs the extra payloads")
from streameval_server._model.errors import Code, RequestError
from streameval_server._payloads.row_budget import RowBudget


class Clock:
    """Seconds that the test lets pass."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def admitted(budget: RowBudget, rows: int) -> bool:
    """Whether a request of some rows may come, and be stored."""
    try:
        budget.check()
        budget.spend(rows)
    except RequestError:
        return False
    return True


@pytest.mark.parametrize("rows", [1, 7, 400])
def test_the_rate_holds_in_the_long_run(rows: int) -> None:
    """Requests without end for a minute: the burst, the rate, and at most one request more."""
    clock = Clock()
    budget = RowBudget(100, clock)
    stored = 0
    for _ in range(60 * 8):
        clock.now_s += 1 / 8
        while admitted(budget, rows):
            stored += rows
    # At the first moment the burst is full, so that nothing was added.
    assert stored == pytest.approx(100 * (10 + 60 - 1 / 8), abs=rows)


def test_when_to_come_again_is_true() -> None:
    """A moment before it is too early."""
    clock = Clock()
    budget = RowBudget(2, clock)
    assert admitted(budget, 31)
    with pytest.raises(RequestError) as caught:
        budget.check()
    assert (caught.value.code, caught.value.reason) == (Code.RESOURCE_EXHAUSTED, "RATE_LIMITED")
    assert caught.value.retry_after_s == pytest.approx(6)
    clock.now_s = 5.99
    assert not admitted(budget, 1)
    clock.now_s = 6.001
    assert admitted(budget, 1)


def test_requests_without_rows_count_too() -> None:
    """So bodies that are refused, and events that are ignored, have the same rate."""
    budget = RowBudget(1, Clock())
    assert [admitted(budget, 0) for _ in range(12)] == [True] * 10 + [False] * 2


def test_requests_that_came_together_are_not_all_stored() -> None:
    """Both were let in before either was read; the first takes all that is left, and more."""
    budget = RowBudget(1, Clock())
    budget.check()
    budget.check()
    budget.spend(1000)
    with pytest.raises(RequestError, match="more than 1 rows a second"):
        budget.spend(1)


def test_time_costs_as_much_of_the_rate() -> None:
    """Also of requests that are refused; a request is not refused for its own."""
    clock = Clock()
    budget = RowBudget(100, clock)
    read_s = 0.0
    for _ in range(60 * 8):
        clock.now_s += 1 / 8
        try:
            budget.check()
        except RequestError:
            continue
        budget.spend_time(2.5)
        budget.spend(1)
        read_s += 2.5
    assert read_s == pytest.approx(10 + 60, abs=2.6)
