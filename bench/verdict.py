"""Simulations of the verdict: how often a healthy stream is called, and what is said of a fall.

    python bench/verdict.py check
    python bench/verdict.py healthy --streams 1000 --days 60
    python bench/verdict.py beyond --streams 100
    python bench/verdict.py steady --streams 60 --days 42
    python bench/verdict.py drops --streams 100
    python bench/verdict.py shares --streams 50
    python bench/verdict.py cost

The evidence of many streams is computed in arrays (`verdict_streams`), by the library's bets;
`check` compares it with the library's own, row by row. Everything else is the library itself.
Seeds from 900 on are for the figures that docs/evidence-verdict.md shows, lower ones for tuning.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import product
from time import process_time

import numpy as np
from verdict_shares import print_shares
from verdict_streams import (
    APART,
    DAY,
    HOUR_US,
    START_US,
    WORSE,
    SideSums,
    Traffic,
    cases_of,
    evaluator_of,
    evidence_of,
    in_time,
    lanes_of,
    population_auc_pr,
    rows_of,
)

from streameval import WindowedEvaluator
from streameval._evaluator_queries import RevisionQueries
from streameval._time.times import to_datetime, to_us
from streameval._verdict.decide import Question, decide
from streameval._verdict.difference import cases_since, changed_figure
from streameval._verdict.doubts import doubts
from streameval._verdict.evidence import Evidence
from streameval._verdict.evidence_base import CALLS, MEAN_US, Pane
from streameval._verdict.evidence_codec import decode_evidence, encode_evidence
from streameval._verdict.level_sums import LevelSums, steps_of
from streameval._verdict.now import cases_of_now, excluded_fall, figures_of
from streameval._verdict.search import Change, StepSums, find_change
from streameval._verdict.verdict import MARGIN

HEALTHY = {
    "independent": {},
    "bursts of 10": {"burst": 10},
    "daily cycle": {"daily": 0.03},
    "weekly cycle": {"weekly": 0.03},
    "prevalence moves": {"moving": 0.5},
    "late by class": {"is_late": True},
}
BEYOND = {
    "daily cycle, 0.4": {"daily": 0.4},
    "walk, 0.3": {"walk": 0.3},
    "bursts, cycle 0.03": {"burst": 10, "daily": 0.03},
}
HEALTHY_RATES = (2.0, 5.0, 20.0)
SMALL_DROPS = (1.9, 1.75)
DROPS = {
    "to 1.7": {"drop": 1.7},
    "to 1.5": {"drop": 1.5},
    "to 1.0": {"drop": 1.0},
    "to 1.0 in 48 h": {"drop": 1.0, "ramp": 48.0},
    "to 0 in 20 %": {"drop": 0.0, "share": 0.2},
}
DROP_RATES = (2.0, 5.0, 20.0, 1000.0)
LATER_HOURS = 48
_CHUNK = 50


@dataclass
class Stream:
    """A simulated stream: evidence at the end of the base, counts by hour before and step since."""

    traffic: Traffic
    evidence: Evidence
    before: np.ndarray
    change: float
    counts: np.ndarray

    @property
    def step(self) -> float:
        """Hours of a step."""
        return self.evidence.step_us / HOUR_US

    def panes(self, first: int, last: int) -> list[Pane]:
        """Return some steps as panes."""
        starts = [START_US + each * self.evidence.step_us for each in range(first, last)]
        return [
            Pane(start, start + self.evidence.step_us, evaluator_of(each)._view())
            for start, each in zip(starts, self.counts[first:last], strict=True)
        ]

    def steps(self, last: int) -> tuple[StepSums, StepSums]:
        """Return the base, and what the search reads of the steps until the last."""
        sums = SideSums(self.evidence)
        levels = LevelSums(max(HOUR_US, self.evidence.step_us), START_US)
        for place, level in enumerate(sums.levels(self.counts[:last])):
            start = START_US + place * self.evidence.step_us
            levels.add(start, start + self.evidence.step_us, level)
        end_us = START_US + last * self.evidence.step_us
        levels.close(end_us)
        span_us = self.evidence.base.start_us, START_US
        base = steps_of(self.evidence.base_level(), span_us, "order")
        return base, levels.sums("order")


def simulated(
    traffic: Traffic, seed: list[int], hours: float, change_hours: tuple[float, float] | None = None
) -> Stream:
    """Return a stream of some hours after its base."""
    rng = np.random.default_rng(seed)
    evidence, before = evidence_of(traffic, rng)
    change = math.inf if change_hours is None else rng.uniform(*change_hours)
    step = evidence.step_us / HOUR_US
    rows = in_time(traffic, rng, rows_of(traffic, rng, 0.0, hours, change=change), step)
    counts = rows.by_step(0.0, step, round(hours / step)).astype(np.int32)
    return Stream(traffic, evidence, before, change, counts)


def calls_of(streams: list[Stream]) -> Iterator[tuple[int, int, int]]:
    """Yield the step, the call and the stream of every call."""
    lanes = lanes_of([each.evidence for each in streams])
    sides = [SideSums(each.evidence).of(each.counts) for each in streams]
    sums, rows = (np.stack(each, axis=-1) for each in zip(*sides, strict=True))
    a_day = round(DAY / streams[0].step)
    for day in range(sums.shape[1] // a_day):
        here = slice(day * a_day, (day + 1) * a_day)
        for place, found in enumerate(lanes.day(day, sums[:, here], rows[:, here])):
            if found.max() >= len(CALLS):
                for call, stream in np.argwhere(found >= len(CALLS)):
                    yield day * a_day + place, int(call), int(stream)
                    lanes.restart(int(call), int(stream))


def print_healthy(chosen: argparse.Namespace) -> None:
    """Print a line for each kind: streams called worse, and called at all."""
    allowed = chosen.streams * chosen.days * DAY * HOUR_US / MEAN_US
    print(
        f"{chosen.streams} healthy streams of each kind, {chosen.days} days, 2 to 20 positives an "
        f"hour, a look at every step.\nAllowed are {allowed:.2f} calls of all means together.\n"
    )
    print(f"{'kind':<20}{'worse':>7}{'all':>6}  streams by call")
    for place, (name, options) in enumerate(HEALTHY.items()):
        called = Counter()
        for first in range(0, chosen.streams, _CHUNK):
            streams = [
                simulated(
                    Traffic(HEALTHY_RATES[number % len(HEALTHY_RATES)], **options),
                    [chosen.seed, place, number],
                    chosen.days * DAY,
                )
                for number in range(first, min(first + _CHUNK, chosen.streams))
            ]
            called.update({(call, first + stream) for _, call, stream in calls_of(streams)})
        worse = {stream for call, stream in called if call in WORSE}
        any_call = {stream for _, stream in called}
        by_call = Counter(CALLS[call] for call, _ in called)
        said = ", ".join(f"{call} {number}" for call, number in by_call.most_common()) or "none"
        print(f"{name:<20}{len(worse):>7}{len(any_call):>6}  {said}", flush=True)


def print_beyond(chosen: argparse.Namespace) -> None:
    """Print what is said of streams whose level is not constant."""
    print(f"{chosen.streams} streams of each kind, {chosen.days} days: what is said at the first")
    print(f"call, or at the end\n\n{'kind':<20}{'worse':>7}{'better':>8}  what could be wrong")
    for place, (name, options) in enumerate(BEYOND.items()):
        worse, better, said = 0, 0, Counter()
        for number in range(chosen.streams):
            traffic = Traffic(HEALTHY_RATES[1 + number % 2], **options)
            stream = simulated(traffic, [chosen.seed, 100 + place, number], chosen.days * DAY)
            calls = [(step, call) for step, call, _ in calls_of([stream]) if call < 4]
            worse += any(call in WORSE for _, call in calls)
            better += any(call not in WORSE for _, call in calls)
            last = calls[0][0] + 1 if calls else len(stream.counts)
            base, steps = stream.steps(last)
            change = find_change(base, steps) if calls else None
            texts = doubts(steps, change, base_start_us=stream.evidence.base.start_us)
            said.update({_kind(each) for each in texts} or {"nothing"})
        text = ", ".join(f"{kind} {times}" for kind, times in said.most_common())
        print(f"{name:<20}{worse:>7}{better:>8}  {text}", flush=True)


def print_steady(chosen: argparse.Namespace) -> None:
    """Print in how many streams a fall that is there from the base on is ever excluded."""
    print(f"{chosen.streams} streams of each kind, {chosen.days} days, a look every other day\n")
    print(f"{'fall of d from 2':<18}{'pos./h':>7}{'of AUC-PR':>11}{'excluded':>10}{'steady':>8}")
    for drop, rate in product(SMALL_DROPS, HEALTHY_RATES[1:]):
        looks = np.array(
            [_looks(chosen, Traffic(rate, drop=drop), number) for number in range(chosen.streams)]
        )
        wrong = int((looks[..., 0] < looks[..., 1]).any(axis=1).sum())
        steady = np.mean(looks[..., 0] < MARGIN)
        fall = looks[..., 1].mean()
        print(f"to {drop:<15}{rate:>7g}{fall:>11.3f}{wrong:>10}{steady:>8.2f}", flush=True)


def _looks(chosen: argparse.Namespace, traffic: Traffic, number: int) -> list[tuple[float, float]]:
    seed = [chosen.seed, 500, round(100 * traffic.drop), int(traffic.positives), number]
    stream = simulated(traffic, seed, chosen.days * DAY, (0.0, 0.0))
    return [_excluded(stream, day) for day in range(2, chosen.days + 1, 2)]


def _excluded(stream: Stream, day: int) -> tuple[float, float]:
    """Return the fall that is excluded after some days, and the one of the populations."""
    last = round(day * DAY / stream.step)
    evidence = stream.evidence
    evidence.next_us = START_US + last * evidence.step_us
    now = cases_of_now(evidence, stream.panes(0, last), None)
    figures = figures_of(evidence, now.states, None, (None, None))
    prevalence = figures[0].prevalence
    assert prevalence is not None
    before, after = (
        population_auc_pr([(apart, 1.0)], prevalence) for apart in (APART, stream.traffic.drop)
    )
    return excluded_fall(evidence, now, figures), before - after


def _kind(text: str) -> str:
    kinds = ("bursts", "daily cycle", "wanders", "two weeks", "two days")
    return next(each for each in kinds if each in text)


@dataclass
class Look:
    """What is said of a fall at one look."""

    is_held: bool
    overlaps: bool
    width: float
    is_difference_held: bool | None
    has_returned: bool


def look_at(stream: Stream, last: int) -> Look:
    """Return what search and difference say of a stream after some steps."""
    base, steps = stream.steps(last)
    change = find_change(base, steps)
    assert change is not None
    earliest, _, latest = ((each - START_US) / HOUR_US for each in change.since)
    end = stream.change + stream.traffic.ramp
    return Look(
        earliest <= stream.change <= latest,
        earliest <= end and stream.change <= latest,
        latest - earliest,
        _holds_difference(stream, change, last),
        change.returned is not None,
    )


def _holds_difference(stream: Stream, change: Change, last: int) -> bool | None:
    """Return whether the limits hold the difference of the populations; None without limits."""
    first = max(0, math.floor((change.since.earliest_us - START_US) / stream.evidence.step_us) - 1)
    panes = stream.panes(first, last)
    since = cases_since([(each.start_us, each.state) for each in panes], change.since)
    if not since:
        return None
    base = RevisionQueries(stream.evidence.base.counts)
    found = changed_figure(base, [RevisionQueries(each) for each in since], "auc_pr")
    if found.difference.reason is not None or found.prevalence is None:
        return None
    cases = since[0].P + since[0].N
    start, total = last, 0
    while total < cases:
        start -= 1
        total += int(stream.counts[start].sum())
    times = np.linspace(start, last, 101)[:-1] * stream.step
    traffic = stream.traffic
    shares = np.clip((times - stream.change) / max(traffic.ramp, 1e-9), 0, 1)
    now = [(APART + share * (traffic.drop - APART), traffic.share) for share in shares]
    truth = population_auc_pr(now, found.prevalence)
    truth -= population_auc_pr([(APART, 1.0)], found.prevalence)
    return truth in found.difference


def print_drops(chosen: argparse.Namespace) -> None:
    """Print delay and found share, and what is held at the call and two days later."""
    print(
        f"{chosen.streams} streams in each cell; the change comes 1 to 15 days after the base (1 "
        "to 3 at 1,000\npositives an hour) and is looked for 40 days (3). At the call / two days "
        "later: since holds the\nbeginning, since overlaps the change, limits hold the difference, "
        "median hours of since.\n"
    )
    print(
        f"{'fall of d from 2':<18}{'pos./h':>7}{'found':>7}{'hours':>7}{'held':>14}{'overlap':>14}"
        f"{'difference':>14}{'width':>13}{'returned':>9}"
    )
    for place, (name, options) in enumerate(DROPS.items()):
        for rate in chosen.rates if name in chosen.falls else ():
            seed = [chosen.seed, 200 + place, int(rate)]
            print(_drop_line(name, Traffic(rate, **options), seed, chosen.streams), flush=True)


def _drop_line(name: str, traffic: Traffic, seed: list[int], streams: int) -> str:
    is_fast = traffic.positives > 100
    first, last, horizon = (24.0, 72.0, 144.0) if is_fast else (24.0, 360.0, 1320.0)
    delays, looks, whole = [], ([], []), 0
    for number in range(streams):
        stream = simulated(traffic, [*seed, number], horizon, (first, last))
        step = next((at for at, call, _ in calls_of([stream]) if call in WORSE), None)
        if step is not None and (step + 1) * stream.step <= stream.change:
            continue  # it was called before anything changed
        whole += 1
        if step is None:
            continue
        delays.append((step + 1) * stream.step - stream.change)
        later = min(step + 1 + round(LATER_HOURS / stream.step), len(stream.counts))
        for found, at in zip(looks, (step + 1, later), strict=True):
            found.append(look_at(stream, at))
    if not delays:
        return f"{name:<18}{traffic.positives:>7g}{0:>7.2f}"
    held, overlaps, widths, returned = (
        [np.mean([getattr(each, key) for each in found]) for found in looks]
        for key in ("is_held", "overlaps", "width", "has_returned")
    )
    widths = [np.median([each.width for each in found]) for found in looks]
    differences = [
        np.mean([each.is_difference_held for each in found if each.is_difference_held is not None])
        for found in looks
    ]
    columns = "".join(f"{a:>8.2f} /{b:>4.2f}" for a, b in (held, overlaps, differences))
    return (
        f"{name:<18}{traffic.positives:>7g}{len(delays) / whole:>7.2f}{np.median(delays):>7.1f}"
        f"{columns}{widths[0]:>7.1f} /{widths[1]:>4.1f}{returned[0]:>9.2f}"
    )


def print_cost(chosen: argparse.Namespace) -> None:
    """Print the median processor time of a closed step and of a verdict, after two weeks."""
    print("20 positives an hour, two weeks after the base: milliseconds of the processor\n")
    for name, options in (("no change", {}), ("a fall", {"drop": 1.0})):
        stream = simulated(Traffic(20.0, **options), [chosen.seed, 600], 14 * DAY, (200.0, 210.0))
        panes = stream.panes(0, len(stream.counts))
        data, steps, verdicts = encode_evidence(stream.evidence), [], []
        for pane in panes:
            begun = process_time()
            evidence = decode_evidence(data)
            evidence.observe([pane], pane.end_us)
            data = encode_evidence(evidence)
            steps.append(process_time() - begun)
        for _ in range(20):
            begun = process_time()
            quality = decide(decode_evidence(data), panes, Question(panes[-1].end_us)).quality
            verdicts.append(process_time() - begun)
        times = f"step {1e3 * np.median(steps):.2f}, verdict {1e3 * np.median(verdicts):.1f}"
        print(f"{name}: {times} ({quality}), {len(data)} bytes", flush=True)


def check(chosen: argparse.Namespace) -> None:
    """Compare evidence in arrays with the library's, and looks with `WindowedEvaluator.verdict`."""
    for number, rate in enumerate(chosen.rates):
        days = 2 if rate > 100 else 20
        stream = simulated(
            Traffic(rate, drop=1.0), [chosen.seed, 300, number], days * DAY, (24.0, 30.0)
        )
        ours = [(step, call) for step, call, _ in calls_of([stream])]
        theirs = []
        for place, pane in enumerate(stream.panes(0, len(stream.counts))):
            before = stream.evidence.called_us.copy()
            stream.evidence.observe([pane], pane.end_us)
            changed = np.flatnonzero(stream.evidence.called_us != before)
            theirs += [(place, call) for call in changed.tolist()]
        first = ours[0][0] if ours else None
        print(f"{rate:g} positives an hour: {len(ours)} calls, the first at step {first}")
        if ours != theirs:
            raise SystemExit(f"the arrays call {ours}, the library {theirs}")
        if first is not None and stream.step == 1:
            _check_verdicts(stream, first)


def _check_verdicts(stream: Stream, called: int) -> None:
    """Compare with the verdict on the rows, before the change and half a day after the call.

    It may be called some hours later or earlier, because old panes are kept as days.
    """
    windowed = WindowedEvaluator(pane=timedelta(hours=1), retention=timedelta(days=60))
    last = called + DAY // 2
    hours = np.concatenate((stream.before, stream.counts[:last]))
    for hour, counts in enumerate(hours, -len(stream.before)):
        windowed.add_cases(**cases_of(counts), at=to_datetime(START_US + hour * HOUR_US))
    early = windowed.verdict(at=to_datetime(START_US + int(stream.change) * HOUR_US))
    late = windowed.verdict(at=to_datetime(START_US + last * HOUR_US))
    found = find_change(*stream.steps(last))
    print(f"  verdict: {late.sentence}")
    if early.quality == "worse" or late.quality != "worse":
        raise SystemExit(f"the verdict is {early.quality} before the change, {late.quality} after")
    if found is None or late.since is None or to_us(late.since.likeliest) != found.since[1]:
        raise SystemExit(f"the verdict says since {late.since}, the search {found}")


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parts = {
        "check": check,
        "healthy": print_healthy,
        "beyond": print_beyond,
        "steady": print_steady,
        "drops": print_drops,
        "shares": print_shares,
        "cost": print_cost,
    }
    parser.add_argument("part", choices=parts)
    parser.add_argument("--streams", type=int, default=100)
    parser.add_argument("--days", type=int, default=60)
    parser.add_argument("--rates", type=float, nargs="+", default=DROP_RATES)
    parser.add_argument("--falls", nargs="+", default=tuple(DROPS), help="of drops")
    parser.add_argument("--seed", type=int, default=903)
    chosen = parser.parse_args()
    print(f"seed {chosen.seed}")
    parts[chosen.part](chosen)


if __name__ == "__main__":
    main()
