"""Drift that an all-time metric hides: an online model on a stream with late labels.

An online logistic regression scores payments, of which 2 % are fraudulent. Labels
arrive minutes of stream time later. Halfway through the day the pattern of fraud
changes. The hour's AUC-PR falls, with its interval; the all-time AUC-PR hardly
changes; a detector that compares with the first hours raises an alarm. A day of stream
time takes about a minute, so the detector runs here, on the stream's time: that of a server
runs on the server's clock.

``make demo`` runs this after the digits.
"""

from __future__ import annotations

import heapq
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from sklearn.linear_model import SGDClassifier

from streameval import DriftDetector

if TYPE_CHECKING:
    from streameval.client import Client, Stream

SEED = 2
STREAM = "fraud/online"
PREVALENCE = 0.02
HOURS = 24
DRIFT_AT_HOUR = 12
STEP = timedelta(minutes=5)
ROWS_PER_STEP = 500
FEATURES = 12
COUNTRIES = ("DE", "FR", "IT", "NL", "PT")
HARD = "PT"  # the country in which fraud resembles other payments more
SECONDS_AN_HOUR = 2.2
REFERENCE_HOURS = 8
WATCH, TOLERANCE = "auc_roc", 0.02
RULE_LEVEL = 0.99
HOUR = timedelta(hours=1)

console = Console(highlight=False)


class Payments:
    """A stream of payments whose fraud can change its pattern."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._direction = self._pattern()

    def _pattern(self) -> np.ndarray:
        pattern = self._random.normal(size=FEATURES)
        return 3.0 * pattern / np.linalg.norm(pattern)

    def drift(self) -> None:
        """Change the pattern of fraud from now on."""
        self._direction = 0.35 * self._direction + 0.75 * self._pattern()

    def take(self, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the features of payments, whether each is fraudulent, and its country."""
        fraud = self._random.random(rows) < PREVALENCE
        countries = self._random.choice(COUNTRIES, rows)
        features = self._random.normal(size=(rows, FEATURES))
        features[fraud] += self._direction
        features[fraud & (countries == HARD)] -= 0.4 * self._direction
        return features, fraud, countries

    def delays(self, rows: int) -> np.ndarray:
        """Return the delay of each label in minutes."""
        return self._random.gamma(shape=2.0, scale=6.0, size=rows)


def watch_drift(client: Client) -> None:
    """Stream a day of payments, hour by hour, and print the metrics of each hour."""
    payments = Payments(SEED)
    model = SGDClassifier(loss="log_loss", alpha=1e-3, learning_rate="constant", eta0=0.002)
    features, fraud, _ = payments.take(20_000)
    model.partial_fit(features, fraud, classes=[False, True])

    client.create_stream(STREAM, segment_keys=["country"])
    stream = client.stream(STREAM)
    begin = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - HOURS * HOUR
    waiting: list[tuple[datetime, int, str, bool, np.ndarray]] = []
    row, first = 0, []
    told: dict[str, tuple[float, datetime, str]] = {}  # what the detector needs of a prediction
    detector: DriftDetector | None = None
    named: dict[str, datetime] = {}  # when the alarm named a country
    rang: list[int] = []  # the hours at which a rule of intervals would have rung
    console.print(
        f"\nA day of payments, {PREVALENCE:.0%} of them fraud; labels arrive minutes later; "
        f"drift at {DRIFT_AT_HOUR}:00\n"
    )
    console.print(
        f"{'hour':>5} {'AUC-PR, the hour':>17} {'95 % interval':>16} {'all time':>9} {'labels':>7}"
    )
    started = time.monotonic()
    for hour in range(HOURS):
        if hour == DRIFT_AT_HOUR:
            payments.drift()
        if hour == REFERENCE_HOURS:
            detector = _detector(stream, begin)
        for step in range(HOUR // STEP):
            now = begin + hour * HOUR + step * STEP
            features, fraud, countries = payments.take(ROWS_PER_STEP)
            ids = [f"payment-{row + index}" for index in range(ROWS_PER_STEP)]
            row += ROWS_PER_STEP
            scores = model.decision_function(features)
            stream.log_cases(
                ids=ids, scores=scores, at=now, segments={"country": countries.tolist()}
            )
            told |= {
                id_: (score, now, country)
                for id_, score, country in zip(ids, scores, countries, strict=True)
            }
            for id_, label, vector, minutes in zip(
                ids, fraud, features, payments.delays(ROWS_PER_STEP), strict=True
            ):
                heapq.heappush(
                    waiting, (now + minutes * timedelta(minutes=1), len(ids), id_, label, vector)
                )
            arrived = []
            while waiting and waiting[0][0] <= now + STEP:
                arrived.append(heapq.heappop(waiting))
            if arrived:
                labels = [bool(label) for _, _, _, label, _ in arrived]
                stream.label_cases(ids=[id_ for _, _, id_, _, _ in arrived], labels=labels)
                model.partial_fit(np.array([vector for *_, vector in arrived]), labels)
                known = [told.pop(id_) for _, _, id_, _, _ in arrived]
                if detector is not None:
                    detector.add_labels(
                        labels=labels,
                        scores=[score for score, _, _ in known],
                        at=[at for _, at, _ in known],
                        segments={"country": [country for *_, country in known]},
                    )
                    detector.advance(now + STEP)
                    _note_named(named, detector, now + STEP)
        stream.flush()
        first.append(_print_hour(stream, hour, begin + hour * HOUR))
        if hour and _is_worse(client, stream, begin, begin + hour * HOUR):
            rang.append(hour + 1)
        time.sleep(max(0.0, started + (hour + 1) * SECONDS_AN_HOUR - time.monotonic()))
    _print_restated(stream, waiting, begin, first)
    assert detector is not None
    _print_alarm(detector, begin, rang)
    _print_countries(stream, detector, begin, named)


def _detector(stream: Stream, begin: datetime) -> DriftDetector:
    """Return a detector that compares with the hours so far, one false alarm a year allowed."""
    window = begin, begin + REFERENCE_HOURS * HOUR
    return DriftDetector(
        stream.evaluator(window=window),
        watch=WATCH,
        tolerance=TOLERANCE,
        mean_time_to_false_alarm=timedelta(days=365),
        pane=STEP,
        segments={
            "country": {
                country: stream.evaluator(window=window, segment=("country", country))
                for country in COUNTRIES
            }
        },
    )


def _note_named(named: dict[str, datetime], detector: DriftDetector, at: datetime) -> None:
    """Note when the first alarm names a country."""
    for alarm in detector.alarms[:1]:
        for each in alarm.segments:
            named.setdefault(each.segment.removeprefix("country="), at)


def _is_worse(client: Client, stream: Stream, begin: datetime, start: datetime) -> bool:
    """Return whether an hour's AUC-PR is below that of the hours before, beyond its interval."""
    change = client.compare(
        stream.select(window=(start, start + HOUR)),
        stream.select(window=(begin, start)),
        level=RULE_LEVEL,
    )
    return change.upper < 0


def _print_alarm(detector: DriftDetector, begin: datetime, rang: list[int]) -> None:
    """Print when the detector rang and what it said, and when a rule of intervals would have."""

    def hour_of(at: datetime) -> str:
        return _hour_of(at, begin)

    console.print(f"\nThe drift began at {DRIFT_AT_HOUR}:00.")
    for alarm in detector.alarms[:1]:
        console.print(
            f"A detector with one false alarm a year allowed rang at {hour_of(alarm.raised_at)}: "
            f"{alarm.changed} {alarm.direction} from {alarm.reference:.3f} to "
            f"{alarm.value.estimate:.3f} ({alarm.value.lower:.3f} to {alarm.value.upper:.3f}), "
            f"since {hour_of(alarm.since)} ({hour_of(alarm.earliest)} to "
            f"{hour_of(alarm.latest)})."
        )
    if not detector.alarms:
        console.print("The detector has not rung.")
    early = sum(hour <= DRIFT_AT_HOUR for hour in rang)
    late = next((hour for hour in rang if hour > DRIFT_AT_HOUR), None)
    found = "never after it" if late is None else f"first after it at {late}:00"
    console.print(
        f"A rule that asks at each hour's end whether a {RULE_LEVEL:.0%} interval says worse than "
        f"before would have rung {early} times before the drift, and {found}."
    )


def _print_countries(
    stream: Stream, detector: DriftDetector, begin: datetime, named: dict[str, datetime]
) -> None:
    """Print which countries the alarm names, and how each changed: the drift is in all."""
    if not detector.alarms:
        return
    drift = begin + DRIFT_AT_HOUR * HOUR
    spans = (begin, begin + REFERENCE_HOURS * HOUR), (drift, drift + HOUR)
    changes = []
    for country in COUNTRIES:
        before, after = (
            stream.snapshot(window=span, segment=("country", country)).auc_roc for span in spans
        )
        changes.append(f"{country} from {before:.3f} to {after:.3f}")
    console.print(
        "A country is named when its own rows alone are evidence enough, with a share of "
        f"{1 / len(COUNTRIES):.0%} of them: "
        + (
            ", ".join(f"{country} at {_hour_of(at, begin)}" for country, at in named.items())
            or "none is"
        )
        + ". One that is not named may have changed as well. In the drift's first hour AUC-ROC "
        f"fell in {_listed(changes)}; then the model learned the new pattern."
    )


def _hour_of(at: datetime, begin: datetime) -> str:
    minutes = (at - begin) // timedelta(minutes=1)
    return f"{minutes // 60:02}:{minutes % 60:02}"


def _listed(parts: list[str]) -> str:
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def _print_restated(
    stream: Stream, waiting: list[tuple], begin: datetime, first: list[float]
) -> None:
    """Send the last labels, and show that they change past results."""
    stream.label_cases(
        ids=[id_ for _, _, id_, _, _ in waiting], labels=[bool(label) for *_, label, _ in waiting]
    )
    stream.flush()
    rows = stream.series(begin, begin + HOURS * HOUR, step=HOUR, metrics=["auc_pr"])
    restated = [row.auc_pr for row in rows]
    moved = max(range(HOURS), key=lambda hour: abs(restated[hour] - first[hour]))
    console.print(
        f"\nLate labels change past results: with all labels, the AUC-PR of hour {moved} is "
        f"{restated[moved]:.3f}; when the hour ended it was {first[moved]:.3f}."
    )


def _print_hour(stream: Stream, hour: int, start: datetime) -> float:
    window = stream.snapshot(window=(start, start + HOUR))
    everything = stream.snapshot()
    interval = window.intervals["auc_pr"]
    coverage = window.coverage
    drifted = "  drift" if hour == DRIFT_AT_HOUR else ""
    console.print(
        f"{hour:>4}h {window.auc_pr:>17.3f} {f'{interval.lower:.3f} to {interval.upper:.3f}':>16} "
        f"{everything.auc_pr:>9.3f} {coverage.labelled_share if coverage else 0.0:>7.0%}{drifted}"
    )
    return window.auc_pr
