"""The requests of the recorded trace to a server: written once, with numpy's generator seeded.

They cover weights, clusters, late, changed and retracted labels, merges, segments, pairs, alarms,
caps, coarsening and restarts. What is asked after each part is asked again at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

SECOND = 1_000_000
MINUTE, HOUR = 60 * SECOND, 3_600 * SECOND
DAY = 24 * HOUR
BEGIN = 20_800 * DAY + 9 * HOUR
COUNTRIES = ("US", "DE", "FR", "JP", "BR", "IT")


class Story:
    """Collects requests, each with the time at which it arrives."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.rng = np.random.default_rng(34)
        self.now = BEGIN

    def do(self, verb: str, *arguments: str, **given: Any) -> None:
        """Send a request a second after the last one."""
        self.now += SECOND
        names = {"create_pair": ("a", "b"), "delete_pair": ("a", "b"), "describe_pair": ("a", "b")}
        named = dict(zip(names.get(verb, ("stream",)), arguments, strict=False))
        self.lines.append({"at_us": self.now, "do": verb} | named | given)

    def ask(self, about: str, stream: str = "", **given: Any) -> None:
        """Ask about a stream; `window` and `segment` belong to the selection."""
        selection = {"stream": stream} if stream else {}
        for name in ("segment", "last", "lastCases", "halfLife", "between", "matureAfter"):
            if name in given:
                selection[name] = given.pop(name)
        if selection:
            given["selection"] = selection
        self.do("ask", about=about, **given)

    def stamp(self, ago_us: int = 0) -> str:
        """Return a time before now, as the contract's JSON has it."""
        return np.datetime64(self.now - ago_us, "us").item().isoformat() + "Z"

    def wait(self, later_us: int) -> None:
        """Let time pass."""
        self.now += later_us
        self.do("wait")

    def scored(self, size: int, separation: float = 1.5) -> tuple[list[bool], list[float]]:
        """Return labels, and scores of a model that separates the classes."""
        labels = self.rng.random(size) < 0.3
        logits = self.rng.normal(separation * (2 * labels - 1))
        return labels.tolist(), np.round(1 / (1 + np.exp(-logits)), 4).tolist()

    def country(self, size: int) -> dict[str, list[str]]:
        """Return a column of segments with more values than a key keeps."""
        return {"country": self.rng.choice(COUNTRIES, size).tolist()}

    def weights(self, size: int) -> list[float]:
        """Return weights on the grid on which they are kept."""
        return (self.rng.integers(1, 2**18, size) / 2**16).tolist()

    def clusters(self, size: int) -> list[str]:
        """Return the cluster of each row."""
        return [f"user-{number}" for number in self.rng.integers(0, 60, size)]

    def ago(self, size: int, span_us: int) -> list[int]:
        """Return event times within a span before now."""
        return (self.now - self.rng.integers(0, span_us, size)).tolist()


def requests() -> list[dict[str, Any]]:
    """Return the whole trace."""
    story = Story()
    parts = (_plain, _weighted, _clustered, _late, _alarms, _pairs)
    running = [part(story) for part in parts]
    for turn in range(4):
        for part in running:
            next(part)
            _questions(story)
        story.do("checkpoint")
        story.wait(40 * MINUTE)
        if turn in {1, 2}:
            story.do("restart", clean=turn == 1)
            _questions(story)
    story.wait(3 * DAY)  # panes coarsen, labels expire
    _questions(story)
    story.do("delete_stream", "plain")
    story.do("restart", clean=False)
    _questions(story)
    return story.lines


def _plain(story: Story) -> Iterator[None]:
    """Send cases in panes and segments, with merges, misses and caps."""
    story.do("create_stream", "plain", segmentKeys=["country"], request_id="made-once")
    story.do("create_stream", "plain", segmentKeys=["country"], request_id="made-once")
    story.do("create_stream", "plain")
    story.do(
        "create_stream", "narrow", resolution=5, scale="SCALE_PROBABILITY", retention="172800s"
    )
    for turn in range(4):
        for size in (1, 40, 150):
            labels, scores = story.scored(size)
            times = story.ago(size, (turn + 1) * 6 * HOUR)
            story.do(
                "cases", "plain", labels=labels, scores=scores, times_us=times,
                segments=story.country(size),
            )  # fmt: skip
            labels, scores = story.scored(size, 0.7)
            story.do("cases", "narrow", labels=labels, scores=scores)
        story.do("misses", "plain", positives=2, negatives=turn, segments={"country": "US"})
        labels, scores = story.scored(60)
        pane = {"labels": labels, "scores": scores, "misses": 1, "time_us": story.now - HOUR}
        cells = {"labels": labels[:20], "scores": scores[:20], "resolution": 12}
        for_us = cells | {"segments": {"country": "US"}, "time_us": story.now - HOUR}
        story.do("merge", "plain", source="edge", epoch=turn + 1, panes=[pane, for_us])
        story.do("merge", "plain", source="edge", epoch=turn + 1, panes=[pane, for_us])
        story.do("cases", "plain", labels=[True], scores=[0.5], segments={"planet": ["Mars"]})
        story.do("annotate", "plain", time_us=story.now - MINUTE, text=f"deployed v{turn}")
        if turn == 2:
            story.do("forget_annotation", "plain", number=1)
            story.do("update_stream", "plain", threshold=0.5, cost_fp=1.0, cost_fn=8.0)
        yield


def _weighted(story: Story) -> Iterator[None]:
    """Send weights and label probabilities, also in segments."""
    story.do("create_stream", "weighted", segmentKeys=["country"], threshold=0.6)
    for _ in range(4):
        labels, scores = story.scored(120)
        story.do(
            "cases", "weighted", labels=labels, scores=scores, weights=story.weights(120),
            segments=story.country(120),
        )  # fmt: skip
        labels, scores = story.scored(80)
        shares = story.rng.choice([1.0, 0.5, 0.25, 0.125], 80).tolist()
        story.do("cases", "weighted", labels=labels, scores=scores, label_probabilities=shares)
        labels, scores = story.scored(40)
        weights = story.weights(40)
        pane = {"labels": labels, "scores": scores, "weights": weights, "time_us": story.now}
        story.do("merge", "weighted", source="audit", epoch=story.now, panes=[pane])
        yield


def _clustered(story: Story) -> Iterator[None]:
    """Send rows of users, with and without weights."""
    story.do("create_stream", "clustered", clusterKey="user", clusterGroups=16)
    for turn in range(4):
        for size in (30, 200):
            labels, scores = story.scored(size)
            story.do(
                "cases", "clustered", labels=labels, scores=scores,
                clusters=story.clusters(size), times_us=story.ago(size, 2 * HOUR),
            )  # fmt: skip
        more = {"weights": [2.0]} if turn else {}
        story.do("cases", "clustered", labels=[True], scores=[0.25], **more)  # refused
        yield


def _late(story: Story) -> Iterator[None]:
    """Send predictions and labels by id: early, late, repeated, changed, retracted, weighted."""
    common = {"labelTtl": "7200s", "relabelTtl": "3600s", "segmentKeys": ["country"]}
    story.do("create_stream", "late", **common)
    story.do("create_stream", "missed", labelTtl="3600s", orphans="ORPHAN_POLICY_MISS")
    story.do("create_stream", "negative", labelTtl="3600s", expired="EXPIRY_POLICY_NEGATIVE")
    story.do("create_stream", "few", maxPending=50, clusterGroups=8)
    for turn in range(4):
        ids = [f"order-{turn}-{row}" for row in range(160)]
        labels, scores = story.scored(160)
        story.do("labels", "late", ids=ids[:5], labels=labels[:5])
        story.do(
            "predictions", "late", ids=ids, scores=scores, times_us=story.ago(160, 30 * MINUTE),
            segments=story.country(160),
        )  # fmt: skip
        story.do("predictions", "negative", ids=ids, scores=scores)
        story.do("predictions", "few", ids=ids, scores=scores, clusters=story.clusters(160))
        story.do("predictions", "late", ids=ids[:3], scores=scores[3:6])
        story.wait(7 * MINUTE)
        story.do("labels", "late", ids=ids[3:70], labels=labels[3:70])
        story.do("labels", "few", ids=ids[100:130], labels=labels[100:130])
        story.do("labels", "negative", ids=ids[:40], labels=labels[:40])
        story.wait(23 * MINUTE)
        changed = [not each for each in labels[10:20]]
        story.do("labels", "late", ids=ids[10:20], labels=changed)
        story.do("retract", "late", ids=[*ids[20:24], ids[90], "unknown"])
        story.do("labels", "late", ids=ids[70:80], labels=labels[70:80], weights=[2.0] * 10)
        shares = {"label_probabilities": [0.25] * 10}
        story.do("labels", "late", ids=ids[80:90], labels=labels[80:90], **shares)
        story.do(
            "labels", "late", ids=[f"known-{turn}-{row}" for row in range(4)],
            labels=[True, False, False, True], scores=[0.9, 0.2, 0.4, 0.6],
        )  # fmt: skip
        story.do("labels", "late", ids=[f"orphan-{turn}"], labels=[True])
        story.do("labels", "missed", ids=ids[:20], labels=labels[:20])
        story.do("predictions", "missed", ids=ids[10:40], scores=scores[10:40])
        story.wait(50 * MINUTE)
        story.do("labels", "late", ids=ids[90:120], labels=labels[90:120])
        story.ask("sample", "late", last="10800s", size=12, seed="5", drawIds=True)
        story.ask("snapshot", "late", last="10800s", projection=True)
        story.do("predictions", "late", ids=[""], scores=[0.5])  # refused
        yield


def _alarms(story: Story) -> Iterator[None]:
    """Send hours of a good model, then of one that fails in one country."""
    story.do(
        "create_stream", "watched", segmentKeys=["country"], threshold=0.5,
        scale="SCALE_PROBABILITY",
    )  # fmt: skip
    begin = story.now // HOUR * HOUR
    for turn in range(4):
        for _ in range(12):
            labels, scores = story.scored(40)
            country = story.rng.choice(["BR", "US"], 40)
            if turn > 1:
                scores = np.where(country == "BR", np.round(1 - np.array(scores), 4), scores)
            story.do(
                "cases", "watched", labels=labels, scores=list(map(float, scores)),
                segments={"country": country.tolist()},
            )  # fmt: skip
            story.wait(10 * MINUTE if turn < 2 else 2 * MINUTE)
        if turn == 0:
            story.do("update_stream", "watched", alarms=_declared(story, begin))
        if turn == 2:
            story.do("acknowledge", "watched", number=1)
        yield


def _declared(story: Story, begin_us: int) -> dict[str, Any]:
    """Return what to watch, compared with the whole hours since a time."""
    names = ("ranking", "auc_roc", "precision", "calibration")
    return {
        "watches": [{"name": name, "tolerance": 0.02} for name in names],
        "pane": "60s",
        "maturity": "60s",
        "meanTimeToFalseAlarm": "3600s",
        "labelWait": "0s",
        "reference": {
            "startTime": story.stamp(story.now - begin_us),
            "endTime": story.stamp(story.now % HOUR),
        },
    }


def _pairs(story: Story) -> Iterator[None]:
    """Send predictions of two models by the same ids, and labels to either stream."""
    for name in ("champion", "challenger"):
        story.do("create_stream", name, segmentKeys=["country"], threshold=1_001.0)
    for name in ("burst-a", "burst-b"):
        story.do("create_stream", name, clusterGroups=8)
    story.do("create_pair", "champion", "challenger", maxCells=16, prevalence=0.1)
    story.do("create_pair", "burst-a", "burst-b", labelTtl="1800s", maxPending="100")
    story.do("create_pair", "champion", "champion")
    for turn in range(4):
        for part in range(3):
            first = 1_000 * turn + 100 * part
            _round(story, ("champion", "challenger"), first, 80, clustered=False)
            _round(story, ("burst-a", "burst-b"), first, 30, clustered=True)
            story.wait(20 * MINUTE)
        if turn == 2:
            story.do("update_stream", "champion", threshold=1_000.5)
        yield


def _round(story: Story, names: tuple[str, str], first: int, size: int, *, clustered: bool) -> None:
    ids = [f"case-{first + row}" for row in range(size)]
    labels = story.rng.random(size) < 0.4
    shared = story.rng.normal(1.5 * labels)
    for name, noise in zip(names, (1.2, 0.1), strict=True):
        scores = np.round(1_000 + shared + story.rng.normal(0, noise, size), 2).tolist()
        group = (
            {"clusters": story.clusters(size)} if clustered else {"segments": story.country(size)}
        )
        story.do("predictions", name, ids=ids, scores=scores, **group)
    half = size // 2
    for name, part in zip(names, (slice(0, half), slice(half, size - 2)), strict=True):
        story.do("labels", name, ids=ids[part], labels=labels[part].tolist())
    story.do("labels", names[0], ids=ids[:2], labels=(~labels[:2]).tolist())
    story.do("retract", names[1], ids=ids[2:3])
    if not clustered:
        weighted = {"weights": story.weights(4)}
        story.do("labels", names[1], ids=ids[4:8], labels=labels[4:8].tolist(), **weighted)


def _questions(story: Story) -> None:
    """Ask for everything that a stream answers; some streams are not there yet, or no more."""
    for name in (
        "plain",
        "narrow",
        "weighted",
        "clustered",
        "late",
        "negative",
        "missed",
        "few",
        "watched",
    ):
        story.do("describe", name)
        story.ask("snapshot", name, anytime=True)
        story.ask("snapshot", name, last="7200s")
    for name in ("plain", "weighted"):
        story.ask("snapshot", name, segment={"key": "country", "value": "US"}, last="86400s")
        story.ask("snapshot", name, segment={"key": "country", "value": "__other__"})
        story.ask("ranking", name, key="country", metric="auc_pr", minReferences="5")
        story.ask("snapshot", name, halfLife="7200s")
        between = {"startTime": story.stamp(DAY), "endTime": story.stamp()}
        metrics = ["auc_pr", "auc_roc"]
        story.ask("series", name, between=between, step="14400s", metrics=metrics)
        story.ask("decision", name, costs={"falsePositive": 1.0, "falseNegative": 5.0})
        story.ask("decision", name, threshold=0.4, lastCases="100")
    story.ask("curve", "plain", kind="CURVE_KIND_HULL")
    story.ask("histogram", "narrow", bins=8)
    story.ask("reliability", "narrow", bins=5)
    story.ask("snapshot", "late", last="10800s", projection=True)
    story.ask("sample", "late", last="10800s", size=12, seed="5", drawIds=True)
    sides = {"a": {"stream": "plain", "last": "86400s"}, "b": {"stream": "narrow"}}
    story.ask("compare", **sides, metric="average_precision")
    story.ask("compare", a={"stream": "clustered"}, b={"stream": "weighted"}, metric="auc_roc")
    for a, b in (("champion", "challenger"), ("burst-a", "burst-b")):
        story.do("describe_pair", a, b)
        for metric in ("auc_roc", "auc_pr", "average_precision"):
            story.do("ask", about="pair", a=a, b=b, metric=metric)
    story.do("ask", about="pair", a="champion", b="challenger", bySegment="country")
