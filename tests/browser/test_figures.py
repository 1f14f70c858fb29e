"""The page's figures equal the snapshot's, curves have the hull's vertices, counts are exact."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
import pytest

from streameval import Evaluator

from .conftest import (
    COUNTRIES,
    MINUS,
    NOTHING,
    OTHER,
    STREAM,
    Served,
    between,
    complete_list,
    expect,
    figure,
    percent,
    signed,
)

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

    from streameval import Snapshot

DAY = timedelta(hours=24)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ("", {"window": DAY}),
        ("?window=all", {}),
        ("?window=1h", {"window": HOUR}),
        ("?window=all&segment=country:BR", {"segment": ("country", "BR")}),
    ],
)
def test_figures_are_the_snapshots(page: Page, served: Served, query: str, asked: dict) -> None:
    """For every window and slice, each figure equals the client's."""
    page.goto(served.url(f"stream/{STREAM}{query}"))
    stream = served.client.stream(STREAM)
    while True:
        known = stream.snapshot(**asked)
        try:
            expect_figures(page, known)
        except AssertionError:
            if stream.snapshot(**asked).window == known.window:
                raise
            # A minute ended meanwhile, and the window moved.
        else:
            break


OUTSIDE = """(plot) => {
    const { left, right } = plot.getBoundingClientRect();
    return [...plot.querySelectorAll("text")].filter((each) => {
        const box = each.getBoundingClientRect();
        return box.left < left - 0.5 || box.right > right + 0.5;
    }).map((each) => each.textContent);
}"""
"""The texts of a chart that are cut off at its sides."""


def expect_figures(page: Page, known: Snapshot) -> None:
    for name in ("auc_pr", "auc_roc", "average_precision"):
        expect(page.locator(f"#figure-{name}")).to_have_text(figure(getattr(known, name)))
        expect(page.locator(f"#more-{name}")).to_contain_text(between(known.intervals[name]))
    expect(page.locator("#more-auc_pr")).to_contain_text(f"achievable {known.auc_pr_hull:.3f}")
    expect(page.locator("#figure-prevalence")).to_have_text(percent(known.prevalence))
    total = known.num_positive_ref + known.num_negative_ref
    expect(page.locator("#figure-counts")).to_have_text(f"{total:,}")
    expect(page.locator("#more-counts")).to_have_text(
        f"{known.num_positive_ref:,} positive, {known.num_negative_ref:,} negative"
    )
    expect(page.locator("#figure-coverage")).to_have_text(percent(known.coverage.labelled_share))
    expect(page.locator("#internals")).to_contain_text(f"Revision {known.revision:,}")


def test_the_list_has_the_snapshots_figures(page: Page, served: Served) -> None:
    """Rows are in the order of the API's list, with its figures; undefined ones say why."""
    page.goto(served.url())
    rows = page.locator("table.streams tbody tr")
    expect(rows).to_have_count(9)
    names = [each.stream for each in complete_list(served)]
    expect(page.locator("table.streams tbody th a")).to_have_text(names)
    for name in (STREAM, OTHER):
        row = rows.nth(names.index(name))
        snapshot = served.client.stream(name).snapshot(window=DAY)
        expect(row.locator(".value .at")).to_have_text(figure(snapshot.auc_pr))
        expect(row.locator(".value .limits")).to_have_text(between(snapshot.intervals["auc_pr"]))
        expect(row.locator(".coverage")).to_have_text(percent(snapshot.coverage.labelled_share))
        expect(row.locator(".fresh")).to_have_text(re.compile(r"(< 1|[\d.]+) min"))
        expect(row.locator("svg.sparkline polyline").first).to_be_attached()
    for name, words in (
        ("one/negative", "no positive case yet"),
        ("wait/labels", "no label yet"),
        ("old/data", "no labelled cases"),
    ):
        expect(rows.nth(names.index(name)).locator(".value .at")).to_have_text(words)


def test_negative_labels_are_labels(page: Page, served: Served) -> None:
    """A stream with negative labels only lacks a positive case, while others are awaited."""
    stream = served.client.stream("wait/positives")
    ids = [str(index) for index in range(20)]
    stream.log_cases(ids=ids, scores=np.linspace(0.1, 0.9, 20))
    stream.label_cases(ids=ids[:13], labels=[0] * 13)
    stream.flush()
    page.goto(served.url("?window=all&find=wait/"))
    row = page.locator("tr", has_text="wait/positives")
    expect(row.locator(".value .at")).to_have_text("no positive case yet")
    expect(page.locator("tr", has_text="wait/labels").locator(".value .at")).to_have_text(
        "no label yet"
    )
    page.goto("about:blank")  # an open page would report that its stream was deleted
    served.client.delete_stream("wait/positives")


def test_search_and_order_of_the_list(page: Page, served: Served) -> None:
    """Search by part of a name, and the order; both are in the URL."""
    page.goto(served.url())
    page.get_by_label("Search").fill("FRAUD")
    names = page.locator("table.streams tbody th")
    expect(names).to_have_count(2)
    assert "find=FRAUD" in page.url
    page.get_by_label("Order").select_option("name")
    expect(names).to_have_text([STREAM, OTHER])
    page.reload()
    expect(names).to_have_count(2)
    expect(page.get_by_label("Search")).to_have_value("FRAUD")
    page.get_by_label("Search").fill("nothing like it")
    expect(page.get_by_text("No stream's name contains “nothing like it”.")).to_be_visible()


# --- Curves -----------------------------------------------------------------------------------


class Axes:
    """Where a plot's SVG has 0 and 1 of each axis, read from its tick labels."""

    def __init__(self, plot: Locator) -> None:
        self.plot = plot
        labels = plot.evaluate(
            """(plot) => [...plot.querySelectorAll("svg text")].map((text) => {
                const box = text.getBoundingClientRect();
                const svg = plot.querySelector("svg").getBoundingClientRect();
                const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
                return [text.textContent, x - svg.x, y - svg.y];
            })"""
        )
        ticks = [(float(text), x, y) for text, x, y in labels if re.fullmatch(r"[\d.]+", text)]
        # The labels of the horizontal axis share their height, those of the other their right end.
        lowest = max(y for _, _, y in ticks)
        across = {text: x for text, x, y in ticks if abs(y - lowest) < 2}
        up = {text: y for text, _, y in ticks if abs(y - lowest) >= 2}
        self.x = np.polyfit(list(across), list(across.values()), 1)
        self.y = np.polyfit(list(up), list(up.values()), 1)

    def pixels(self, points: np.ndarray) -> np.ndarray:
        """Return where data points are drawn."""
        return np.column_stack([np.polyval(self.x, points[:, 0]), np.polyval(self.y, points[:, 1])])

    def data(self, pixels: np.ndarray) -> np.ndarray:
        """Return the data points of pixels."""
        return np.column_stack(
            [
                (pixels[:, 0] - self.x[1]) / self.x[0],
                (pixels[:, 1] - self.y[1]) / self.y[0],
            ]
        )

    def lines(self, colour: str) -> list[np.ndarray]:
        """Return the lines that are drawn in a colour of the page's, as pixels."""
        found = self.plot.evaluate(
            """(plot, name) => {
                const probe = document.createElement("i");
                probe.style.color = `var(--${name})`;
                document.body.append(probe);
                const colour = getComputedStyle(probe).color;
                probe.remove();
                return [...plot.querySelectorAll("svg path")]
                    .filter((path) => getComputedStyle(path).stroke === colour)
                    .map((path) => path.getAttribute("d"));
            }""",
            colour,
        )
        return [
            np.array(re.findall(r"(-?[\d.]+) (-?[\d.]+)", re.sub(r"[A-Za-z,]", " ", d)), float)
            for d in found
        ]


def is_within(points: np.ndarray, among: np.ndarray, pixels: float = 0.75) -> bool:
    """Whether each point is close to one of the others."""
    distance = np.hypot(*(points[:, None, :] - among[None, :, :]).transpose(2, 0, 1))
    return bool((distance.min(axis=1) <= pixels).all())


@pytest.fixture
def evaluator(served: Served) -> Evaluator:
    """Return the stream's own counts."""
    return served.client.stream(STREAM).evaluator()


def drawn(page: Page, card: str) -> Axes:
    """Return a card's plot once its lines are there."""
    expect(page.locator(f"#{card}-plot svg path").first).to_be_attached()
    expect(page.locator("#tp")).not_to_be_empty()
    return Axes(page.locator(f"#{card}-plot"))


def test_the_roc_chart_has_the_hulls_vertices(
    page: Page, served: Served, evaluator: Evaluator
) -> None:
    """Each vertex is a corner of the hull's line, at its place, and there is no other corner."""
    page.goto(served.url(f"stream/{STREAM}?window=all"))
    axes = drawn(page, "roc")
    hull = evaluator.roc_hull()
    vertices = axes.pixels(np.column_stack([hull.fpr, hull.tpr]))
    (line,) = axes.lines("hull")
    assert is_within(vertices, line)
    assert is_within(line, vertices)
    points = evaluator.operating_points()
    measured = np.column_stack([points.fp / points.fp[-1], points.tp / points.tp[-1]])
    (line,) = axes.lines("a")
    assert is_within(line, axes.pixels(measured))


def test_charts_draw_what_cases_weigh(page: Page, served: Served) -> None:
    """Curves and histogram are of weights where cases have weights, as the figures are."""
    rng = np.random.default_rng(33)
    labels = rng.random(600) < 0.3
    scores = np.clip(rng.random(600) / 2 + labels * 0.4, 0, 1)
    weights = np.where(scores > 0.5, 0.25, 3.5)
    stream = served.client.stream("weighted/charts")
    stream.add_cases(labels=labels, scores=scores, weights=weights)
    served.client.flush()
    page.goto(served.url("stream/weighted/charts?window=all"))
    own = Evaluator()
    own.add_cases(labels=labels, scores=scores, weights=weights)
    axes = drawn(page, "roc")
    measured = own.operating_points()
    (line,) = axes.lines("a")
    rates = np.column_stack([measured.fp / measured.fp[-1], measured.tp / measured.tp[-1]])
    assert is_within(line, axes.pixels(rates))
    axes = drawn(page, "pr")
    (line,) = axes.lines("a")
    recall, precision = axes.data(line).T
    assert np.trapezoid(precision, recall) == pytest.approx(own.auc_pr(), abs=0.003)
    page.get_by_role("tab", name="Scores").click()
    said = f"{weights[labels].sum():,.1f} positives and {weights[~labels].sum():,.0f}"
    expect(page.locator("#histogram-plot")).to_have_attribute("aria-label", re.compile(said))


def test_the_pr_chart_is_joined_as_the_paper_joins(
    page: Page, served: Served, evaluator: Evaluator
) -> None:
    """The achievable curve passes its vertices; between them it is the library's, and bent."""
    page.goto(served.url(f"stream/{STREAM}?window=all"))
    axes = drawn(page, "pr")
    hull = evaluator.pr_hull()
    (line,) = axes.lines("hull")
    assert is_within(axes.pixels(np.column_stack([hull.recall, hull.precision])), line)
    recall, precision = axes.data(line).T
    inner = (recall > 0.002) & (recall < 0.998)
    np.testing.assert_allclose(precision[inner], hull.at(recall[inner]), atol=0.004)
    straight = np.interp(recall[inner], hull.recall, hull.precision)
    assert np.abs(straight - hull.at(recall[inner])).max() > 0.008, "no piece is bent visibly"
    # The curve as measured: never above the achievable one, and with its area.
    (line,) = axes.lines("a")
    recall, precision = axes.data(line).T
    inner = (recall > 0.002) & (recall < 0.998)
    assert (precision[inner] <= hull.at(recall[inner]) + 0.004).all()
    assert np.trapezoid(precision, recall) == pytest.approx(evaluator.auc_pr(), abs=0.003)


def test_prevalence_and_the_impossible_are_drawn(
    page: Page, served: Served, evaluator: Evaluator
) -> None:
    """A level line at the prevalence, and below it the region that no ranking reaches."""
    page.goto(served.url(f"stream/{STREAM}?window=all"))
    axes = drawn(page, "pr")
    pi = evaluator.prevalence
    level = [each for each in axes.lines("muted") if len(each) == 2]
    ends = axes.data(level[0])
    np.testing.assert_allclose(ends, [[0, pi], [1, pi]], atol=0.004)
    region = axes.plot.evaluate(
        """(plot) => {
            const probe = document.createElement("i");
            probe.style.color = "var(--region)";
            document.body.append(probe);
            const colour = getComputedStyle(probe).color;
            probe.remove();
            return [...plot.querySelectorAll("svg path")]
                .filter((path) => getComputedStyle(path).fill === colour)
                .map((path) => path.getAttribute("d"));
        }"""
    )
    (area,) = region
    corners = np.array(re.findall(r"(-?[\d.]+) (-?[\d.]+)", re.sub(r"[A-Za-z,]", " ", area)), float)
    recall, precision = axes.data(corners).T
    upper = precision > 0.005
    np.testing.assert_allclose(
        precision[upper], pi * recall[upper] / (1 - pi + pi * recall[upper]), atol=0.004
    )
    assert recall.max() == pytest.approx(1, abs=0.01)


# --- The threshold ----------------------------------------------------------------------------


def confusion(page: Page) -> dict[str, int]:
    """Return the counts that are shown."""
    return {
        name: int(page.locator(f"#{name}").inner_text().replace(",", ""))
        for name in ("tp", "fp", "fn", "tn")
    }


def threshold(page: Page) -> float:
    """Return the threshold that is chosen, unrounded."""
    return float(page.locator("#threshold-value").get_attribute("data-value"))


def test_the_sliders_counts_are_exact(page: Page, served: Served, evaluator: Evaluator) -> None:
    """At every position of the slider the counts and figures are those of the threshold."""
    page.goto(served.url(f"stream/{STREAM}?window=all"))
    slider = page.locator("#threshold-slider")
    expect(page.locator("#tp")).not_to_be_empty()
    most = int(slider.get_attribute("max"))
    assert most > 1_000
    page.get_by_label("False positive", exact=True).fill("2")
    page.get_by_label("Missed positive").fill("7")
    for place in (0, 1, most // 7, most // 2, most - 30, most - 1, most):
        slider.fill(str(place))
        cut = threshold(page)
        known = evaluator.confusion_at(cut)
        assert confusion(page) == {"tp": known.tp, "fp": known.fp, "fn": known.fn, "tn": known.tn}
        assert page.locator("#fact-recall").inner_text() == shown_share(known.recall)
        called = known.tp + known.fp
        precision = known.precision if called else math.nan  # none is shown when there are no cases
        assert page.locator("#fact-precision").inner_text() == shown_share(precision)
        cost = 2 * known.fp + 7 * known.fn
        assert page.locator("#fact-cost").inner_text() == f"{cost:,}"
        assert f"at={'Infinity' if math.isinf(cut) else ''}" in page.url
    assert math.isinf(cut)


def test_a_thinned_curve_is_exact_where_it_has_points(page: Page, served: Served) -> None:
    """Of 12,000 distinct scores about 2,048 are drawn, all vertices among them."""
    evaluator = served.client.stream("big/many").evaluator()
    page.goto(served.url("stream/big/many?window=all"))
    axes = drawn(page, "roc")
    hull = evaluator.roc_hull()
    (line,) = axes.lines("hull")
    vertices = axes.pixels(np.column_stack([hull.fpr, hull.tpr]))
    assert is_within(vertices, line)
    assert is_within(line, vertices)
    slider = page.locator("#threshold-slider")
    most = int(slider.get_attribute("max"))
    assert 1_500 < most < 3_000
    for place in range(1, most, most // 5):
        slider.fill(str(place))
        known = evaluator.confusion_at(threshold(page))
        assert confusion(page) == {"tp": known.tp, "fp": known.fp, "fn": known.fn, "tn": known.tn}
    best = evaluator.best_threshold(cost_fp=1, cost_fn=1)
    assert float(page.locator("#advice").get_attribute("data-threshold")) == best


def shown_share(share: float) -> str:
    """Return a share, or its absence, as the page shows it."""
    if math.isnan(share):
        return NOTHING
    value = 100 * share
    if 99.95 <= value < 100:
        return "99.9 %"
    return f"{value:.2f} %" if value and value < 0.95 else f"{value:.1f} %"


@pytest.mark.parametrize(("fp", "fn"), [(1, 1), (1, 10), (5, 1), (0, 1), (1, 0)])
def test_the_hulls_advice(
    page: Page, served: Served, evaluator: Evaluator, fp: float, fn: float
) -> None:
    """For each ratio of costs the advice is the library's best threshold, and a button takes it."""
    page.goto(served.url(f"stream/{STREAM}?window=all&at=0.5"))
    expect(page.locator("#tp")).not_to_be_empty()
    page.get_by_label("Missed positive").fill(str(fn))
    page.get_by_label("False positive", exact=True).fill(str(fp))
    best = evaluator.best_threshold(cost_fp=fp, cost_fn=fn)
    assert float(page.locator("#advice").get_attribute("data-threshold")) == best
    take = page.get_by_role("button", name="Use this threshold")
    if take.is_enabled():
        take.click()
    known = evaluator.confusion_at(best)
    assert confusion(page) == {"tp": known.tp, "fp": known.fp, "fn": known.fn, "tn": known.tn}
    expect(take).to_be_disabled()


def test_the_slider_moves_by_keyboard(page: Page, served: Served) -> None:
    """An arrow key goes to the next operating point, and announces its figures."""
    page.goto(served.url(f"stream/{STREAM}?window=all&at=0.5"))
    slider = page.locator("#threshold-slider")
    expect(page.locator("#tp")).not_to_be_empty()
    before, cut = confusion(page), threshold(page)
    slider.focus()
    page.keyboard.press("ArrowRight")
    after = confusion(page)
    assert threshold(page) > cut
    assert after["tp"] + after["fp"] < before["tp"] + before["fp"]
    assert "precision" in slider.get_attribute("aria-valuetext")


# --- Scores, time, segments -------------------------------------------------------------------


def table_of(page: Page, card: str) -> list[list[str]]:
    """Open a card's table; return its rows."""
    page.locator(f"#{card} .rows > summary").click()
    rows = page.locator(f"#{card} details table tbody tr")
    expect(rows.first).to_be_visible()
    return [row.locator("td").all_inner_texts() for row in rows.all()]


def number(text: str) -> float:
    """Read a number as the page writes it."""
    return float(text.replace(MINUS, "-").replace(",", ""))


def test_histograms_count_every_case(page: Page, served: Served, evaluator: Evaluator) -> None:
    """In each bin the counts of each class equal those of the stream's scores."""
    page.goto(served.url(f"stream/{STREAM}?window=all&tab=scores"))
    expect(page.locator("#histogram-plot svg path").first).to_be_attached()
    rows = table_of(page, "histogram")
    points = evaluator.operating_points()
    scores, positives = points.thresholds[1:], np.diff(points.tp)
    negatives = np.diff(points.fp)
    edges = np.linspace(scores.min(), scores.max(), len(rows) + 1)
    for column, counts in ((2, positives), (4, negatives)):
        known, _ = np.histogram(scores, edges, weights=counts)
        assert [number(row[column]) for row in rows] == known.tolist()
    assert number(rows[0][0]) == pytest.approx(edges[0], rel=1e-3)


MIDDLES = """(plot) => {
    const shapes = [...plot.querySelectorAll("svg path")].map((path) => ({
        box: path.getBoundingClientRect(), text: path.getAttribute("d"),
        fill: path.getAttribute("fill"),
    })).filter(({ fill, box }) => fill && fill !== "none" && box.width);
    const middle = ({ box }) => box.x + box.width / 2;
    const isPoint = ({ text }) => text.startsWith("M1 0A1");
    const lowest = Math.max(...shapes.map(({ box }) => box.bottom));
    const isBar = (each) => !isPoint(each) && Math.abs(each.box.bottom - lowest) < 2;
    return [shapes.filter(isPoint).map(middle), shapes.filter(isBar).map(middle)];
}"""


@pytest.mark.parametrize("width", [1440, 390])
def test_bars_stand_under_their_points(page: Page, served: Served, width: int) -> None:
    """Each point of the time chart is in the middle of its step's bar."""
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(served.url(f"stream/{STREAM}?window=6h"))
    expect(page.locator("#timeline-plot svg path").first).to_be_attached()
    points, bars = page.locator("#timeline-plot").evaluate(MIDDLES)
    assert len(points) > 10
    for each in points:
        assert min(abs(each - bar) for bar in bars) < 1.5, (each, bars)


def test_time_has_its_intervals_and_marks_what_is_immature(page: Page, served: Served) -> None:
    """Rows are the windows' snapshots; those of the last half hour are marked immature."""
    page.goto(served.url(f"stream/{STREAM}"))
    expect(page.locator("#timeline-plot svg path").first).to_be_attached()
    expect(page.locator("#timeline-plot")).to_contain_text("labels still arriving")
    rows = table_of(page, "timeline")
    stream = served.client.stream(STREAM)
    links = page.locator("#timeline details tbody a")
    marked = [row[6] == "immature" for row in rows if row[5] != NOTHING]  # with predictions
    assert marked[0], "the newest first"
    assert not marked[-1]
    assert 2 <= sum(marked) < len(rows) / 2
    assert sorted(marked, reverse=True) == marked, "the youngest rows, and no others"
    for index in (0, len(rows) // 2, len(rows) - 1):
        start, end = re.search(
            r"window=([^&]+)\.\.([^&]+)", links.nth(index).get_attribute("href")
        ).groups()
        window = (np.datetime64(start.rstrip("Z")), np.datetime64(end.rstrip("Z")))
        known = stream.snapshot(window=tuple(at_utc(each) for each in window))
        if not math.isnan(known.auc_pr):
            assert rows[index][1] == figure(known.auc_pr)
        assert number(rows[index][3]) == known.num_positive_ref
        assert number(rows[index][4]) == known.num_negative_ref
        share = NOTHING if known.coverage is None else percent(known.coverage.labelled_share)
        assert rows[index][5] == share


def at_utc(time: np.datetime64):
    """Return a time with its zone."""
    from datetime import UTC

    return time.astype("datetime64[us]").item().replace(tzinfo=UTC)


def test_segments_are_ranked(page: Page, served: Served) -> None:
    """The worst first, with figures, differences and intervals as the server ranks them."""
    page.goto(served.url(f"stream/{STREAM}?window=all"))
    rows = page.locator("#segments tbody tr")
    expect(rows).to_have_count(len(COUNTRIES))
    known = served.client.stream(STREAM).rank_segments("country").segments
    for row, each in zip(rows.all(), known, strict=True):
        name = each.segment[1] or "(no value)"
        assert row.locator("th a").text_content() == f"country {name}"
        value, difference = row.locator("td").first, row.locator(".difference")
        expect(value).to_have_text(figure(each.value.estimate) + between(each.value))
        expect(difference).to_have_text(
            f"{signed(each.difference)}{signed(each.lower)} to {signed(each.upper)}"
        )
        # Of many intervals one in twenty misses, so the colour follows the adjusted p-value.
        kind = ("worse" if each.difference < 0 else "better") if each.p_value < 0.05 else ""
        assert difference.get_attribute("class").split()[2:] == kind.split()
    assert known[0].segment == ("country", "BR")
    rows.first.locator("a").click()
    expect(page.locator(".chip")).to_contain_text("BR")
    snapshot = served.client.stream(STREAM).snapshot(segment=("country", "BR"))
    expect(page.locator("#figure-auc_pr")).to_have_text(figure(snapshot.auc_pr))
    page.get_by_label("Show the whole stream").click()
    expect(page.locator(".chip")).to_have_count(0)


def test_curves_are_named_where_they_are(page: Page, served: Served) -> None:
    """In the chart, in place of a legend; inside the chart's edges on every screen."""
    for width in (1440, 900, 390):
        page.set_viewport_size({"width": width, "height": 900})
        page.goto("about:blank")
        page.goto(served.url(f"stream/{STREAM}?window=all&tab=curves"))
        for card, names in (
            ("pr", {"measured", "achievable", "at random", "unachievable"}),
            ("roc", {"measured", "hull", "at random"}),
        ):
            plot = page.locator(f"#{card}-plot")
            expect(plot).to_contain_text("measured")
            assert names <= set(plot.locator("text").all_text_contents())
            expect(page.locator(f"#{card} .keys li")).to_have_count(0)
            assert plot.evaluate(OUTSIDE) == []
        assert page.locator("#timeline-plot").evaluate(OUTSIDE) == []
        assert page.locator("#timeline .keys li").count() <= 2
