"""What the demo's eight streams are: whose cases they score, how well, and what happens to them.

Times are days before the demo begins, so that each figure is there at any hour of the day.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

COUNTRIES = {"DE": 0.3, "FR": 0.25, "IT": 0.25, "NL": 0.1, "PT": 0.1}
"""The share of the cases of each country."""

WEEKS = 6
"""How much history a stream has that is not new."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """From when on a model separates the classes less, in one country or in all.

    Attributes
    ----------
    days_ago, separation : float
    country : str or None
        None means all of them.
    """

    days_ago: float
    separation: float
    country: str | None = None


@dataclass(frozen=True, kw_only=True)
class Model:
    """One stream.

    Attributes
    ----------
    stream : str
    separation : float
        By how many of their standard deviations the scores of the two classes lie apart, on the
        scale of the logit.
    change : Change or None
    marks : mapping of float to str
        What was deployed, by days ago.
    settings : mapping
        As `Client.create_stream` takes them.
    watches : mapping of str to float
        What its alarms watch, with the tolerance of each.
    """

    stream: str
    separation: float
    change: Change | None = None
    marks: Mapping[float, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    watches: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """Cases, and the models that score each of them.

    Attributes
    ----------
    models : tuple of Model
        Two are a pair: they score the same ids.
    rows_per_hour, prevalence : float
    begins, ends : float
        Days ago.
    label_hours : float or None
        The median delay of a label. None: the label comes with the score, without an id.
    labelled : bool
        Whether labels come at all.
    """

    models: tuple[Model, ...]
    rows_per_hour: float
    prevalence: float
    begins: float = 7.0 * WEEKS
    ends: float = 0.0
    label_hours: float | None = None
    labelled: bool = True


CHAMPION, CHALLENGER = "fraud/v3", "fraud/v4"
PAIR = "fraud/rollout"
COSTS = {"threshold": 0.2, "cost_fp": 4.0, "cost_fn": 90.0}

ALL = (
    Traffic(
        models=(
            Model(
                stream=CHAMPION,
                separation=2.4,
                change=Change(days_ago=6, separation=0.3, country="IT"),
                marks={
                    27: "v3.1: weekly retraining",
                    6: "v3.2: merchant features by API",
                },
                settings=COSTS,
            ),
            Model(stream=CHALLENGER, separation=2.7, settings=COSTS),
        ),
        rows_per_hour=200,
        prevalence=0.06,
        label_hours=5,
    ),
    Traffic(
        models=(
            Model(
                stream="credit/v2",
                separation=2.0,
                change=Change(days_ago=3, separation=1.0),
                marks={3: "income taken from the new bureau"},
                watches={"auc_roc": 0.01},
            ),
        ),
        rows_per_hour=120,
        prevalence=0.2,
    ),
    Traffic(models=(Model(stream="churn/v5", separation=1.8),), rows_per_hour=150, prevalence=0.2),
    Traffic(
        models=(Model(stream="claims/v1", separation=2.2),),
        rows_per_hour=60,
        prevalence=0.2,
        label_hours=9 * 24,
    ),
    Traffic(
        models=(Model(stream="returns/v1", separation=1.9),),
        rows_per_hour=80,
        prevalence=0.15,
        begins=2,
        label_hours=20,
    ),
    Traffic(
        models=(Model(stream="spam/v2", separation=2.6),),
        rows_per_hour=150,
        prevalence=0.3,
        ends=4,
    ),
    Traffic(
        models=(Model(stream="leads/v1", separation=1.5),),
        rows_per_hour=60,
        prevalence=0.1,
        label_hours=24,
        labelled=False,
    ),
)
