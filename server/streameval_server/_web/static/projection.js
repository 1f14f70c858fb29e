// What the window will read once its labels are in: projected figures, limits, and the backtest.

import { fill, h, redraw, setText, table } from "./dom.js";
import { figure, interval, percent, period, signed, titleOf } from "./format.js";
import { refusalOf } from "./projected.js";

const UNSEEN = "Against labels that came the same way: a backtest does not see that cases were chosen by something that is not recorded. A random sample that is labelled does.";

export class ProjectionCard {
  constructor() {
    this.figures = h("dl", { class: "headline projected", id: "projected" });
    this.note = h("p", { class: "note", id: "projection-note" });
    this.backtests = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Backtest: tables" });
    this.summary = h("summary", {}, "Backtest");
    this.details = h("details", { id: "backtest", ontoggle: () => this.fillBacktests() }, this.summary, this.backtests);
    this.element = h("section", { class: "card", id: "projection", "aria-labelledby": "projection-title", hidden: true },
      h("div", { class: "card-head" }, h("h2", { id: "projection-title" }, "Once the labels are in")),
      this.figures, this.note, this.details);
  }

  /** Show a projection of the window. */
  update(projection) {
    this.metrics = projection.metrics;
    fill(this.figures, this.metrics.map((each) => h("div", {},
      h("dt", {}, nameOf(each)),
      h("dd", { class: "value" }, figure(each.projected)),
      h("dd", { class: "more" }, linesOf(each).flatMap((text, index) => (index ? [h("br"), text] : [text]))))));
    const notes = [`Assumed: ${projection.assumption}. Limits hold whatever the missing labels are.`];
    if (projection.labelledShare !== undefined) notes.push(`${percent(projection.labelledShare)} of the window's predictions have their label.`);
    setText(this.note, notes.join(" "));
    const windows = Math.max(0, ...this.metrics.map((each) => each.backtest.length));
    this.details.hidden = !windows;
    setText(this.summary, `Backtest of ${windows} window${windows === 1 ? "" : "s"}`);
    this.fillBacktests();
  }

  /** Say why there is no projection. */
  fail(message) {
    this.metrics = [];
    this.element.hidden = false;
    fill(this.figures);
    setText(this.note, message);
    this.details.hidden = true;
  }

  fillBacktests() {
    redraw(this.backtests, () => {
      if (this.details.open) fill(this.backtests, h("p", { class: "note" }, UNSEEN), this.metrics.filter((each) => each.backtest.length).map(backtestOf));
    });
  }
}

function nameOf({ name, prevalence }) {
  return prevalence === undefined ? titleOf(name) : `${titleOf(name)} at a prevalence of ${percent(prevalence)}`;
}

/** Interval or reason, the value now, and the limits, a line each. */
function linesOf(metric) {
  const lines = [metric.projected === undefined ? `not projected: ${refusalOf(metric)}`
    : interval(metric.interval) ?? "no interval"];
  lines.push(`now ${figure(metric.value)}`);
  if (metric.limits) lines.push(`within ${interval(metric.limits)} whatever the labels`);
  return lines;
}

function backtestOf(metric) {
  const worst = Math.max(...metric.backtest.map(({ z }) => Math.abs(z)));
  const widened = metric.widening > 1 ? `, so the standard error is multiplied by ${figure(metric.widening, 2)}` : "";
  return table(`${nameOf(metric)}: the largest error is ${figure(worst, 1)} standard errors${widened}`,
    [{ title: "Window" }, { title: "Projected", numeric: true }, { title: "Final", numeric: true },
      { title: "Error", numeric: true }, { title: "Standard errors", numeric: true }],
    metric.backtest.toReversed().map(({ window, projected, finalValue, z }) => [
      period(new Date(window.startTime), new Date(window.endTime)),
      figure(projected), figure(finalValue), signed(projected - finalValue), signed(z, 1)]));
}
