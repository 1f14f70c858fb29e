"""The kinds and probabilities of failures in one run; each seed has its own mixture.

A run in which everything fails all the time finds little, because no operation
completes. So each seed disables some failures and makes others more likely.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval_server import Limits

if TYPE_CHECKING:
    import random


@dataclass(frozen=True)
class Plan:
    """The parameters of one run. Probabilities are those of one occasion.

    Attributes
    ----------
    clients : int
        Producers that stream, each with its own client.
    operations : int
        The number of operations of each application.
    slow : bool
        Messages and disks sometimes take seconds.
    lulls : float
        An application pauses for minutes or hours.
    preemption : float
        Another thread runs at a failpoint of the core.
    kills_at_failpoints : float
        The server dies there.
    crashes, power_cuts, drains : float
        Ends of the server, at each step of `Trouble`; `power_cuts` is the share of the
        crashes that cut the power.
    compactions : float
        The log is compacted at a checkpoint.
    lost_writes, kept_writes, cached_writes : float
        A write fails: not done, done, or done and not synced.
    outages : float
        The disk fails for a while.
    rot : float
        A checkpoint is damaged while the server is down.
    breaks : float
        Connections break.
    repeats : float
        A message arrives twice.
    restarts : float
        A client is killed, or runs on beside its successor.
    clock_steps : float
        The server's clock is set.
    limits : Limits
        The limits of the server's first life.
    shrinks : bool
        Later lives take smaller batches.
    auto_create : bool
    """

    clients: int
    operations: int
    slow: bool
    lulls: float
    preemption: float
    kills_at_failpoints: float
    crashes: float
    power_cuts: float
    drains: float
    compactions: float
    lost_writes: float
    kept_writes: float
    cached_writes: float
    outages: float
    rot: float
    breaks: float
    repeats: float
    restarts: float
    clock_steps: float
    limits: Limits
    shrinks: bool
    auto_create: bool


def plan_of(dice: random.Random) -> Plan:
    """Return a run's plan."""

    def some(probability: float) -> float:
        """Return 0, the probability, or twice the probability."""
        return dice.choice((0.0, 1.0, 1.0, 2.0)) * probability

    tight = dice.random() < 0.25
    limits = Limits(
        apply_rows=dice.choice((3, 20, 1_000)),
        max_lag_rows=dice.choice((10, 60, 10_000)),
        max_commit_bytes=dice.choice((300, 2_000, 1 << 20)),
        max_queue_bytes=dice.choice((1_500, 6_000, 1 << 20)),
        max_inflight_bytes=dice.choice((600, 3_000, 1 << 20)),
        max_batch_rows=dice.choice((6, 30, 1_000)),
        checkpoint_bytes=dice.choice((400, 1_500, 6_000)),
        max_streams=dice.choice((3, 100)),
        max_segment_values=2,
        max_cells=4 if tight else 100_000,
        pane_cells=3 if tight else 10_000,
        tick_us=30_000_000,
    )
    return Plan(
        clients=dice.choice((1, 2, 3)),
        operations=dice.choice((12, 25)),
        slow=dice.random() < 0.4,
        lulls=some(0.08),
        preemption=some(0.05),
        kills_at_failpoints=some(0.0006),
        crashes=some(0.04),
        power_cuts=0.5,
        drains=some(0.04),
        compactions=some(0.05),
        lost_writes=some(0.02),
        kept_writes=some(0.02),
        cached_writes=some(0.02),
        outages=some(0.05),
        rot=some(0.3),
        breaks=some(0.3),
        repeats=some(0.1),
        restarts=some(0.08),
        clock_steps=some(0.1),
        limits=limits,
        shrinks=dice.random() < 0.3,
        auto_create=dice.random() < 0.85,
    )
