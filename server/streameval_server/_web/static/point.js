// The declared threshold: the rates at it, and what errors cost, with their intervals, and one of them over time.

import { metric } from "./api.js";
import { h, setText } from "./dom.js";
import { cost, count, interval, measured, reason, titleOf } from "./format.js";
import { COSTS, RATES } from "./metrics.js";
import { TimelineCard } from "./timeline.js";

export class PointCard {
  /** `toWindow(window)` returns the link to a row's window. */
  constructor(signal, toWindow) {
    this.chosen = RATES[0];
    this.timeline = new TimelineCard(signal, toWindow, { id: "point", title: "At the declared threshold" });
    this.element = this.timeline.element;
    this.element.hidden = true;
    this.summary = h("p", { class: "summary", id: "point-counts" });
    this.cells = Object.fromEntries([...RATES, ...COSTS].map((name) => [name, {
      title: h("button", { type: "button", class: "rate", "aria-pressed": String(name === this.chosen), onclick: () => this.choose(name) }, titleOf(name)),
      value: h("dd", { class: "value", id: `rate-${name}` }),
      more: h("dd", { class: "more", id: `rate-more-${name}` }),
    }]));
    for (const cell of Object.values(this.cells)) cell.element = h("div", {}, h("dt", {}, cell.title), cell.value, cell.more);
    const { card } = this.timeline;
    this.title = card.heading;
    this.drawn = [card.plotted, card.note, card.foot, card.keys];
    this.figures = h("dl", { class: "headline rates" }, RATES.map((name) => this.cells[name].element));
    card.plotted.before(this.summary, this.figures);
    card.plotted.before(card.keys);
  }

  /** Show the figures of a snapshot; without a declared threshold there is no card. */
  update(snapshot) {
    const point = snapshot.operatingPoint;
    this.element.hidden = !point;
    if (!point) return;
    const hasCosts = point.costFp !== undefined;
    setText(this.title, `At the declared threshold ${point.threshold}`.replace("-", "−"));
    setText(this.summary, `${count(point.tp)} of ${count(point.tp + point.fn)} positives are called positive, and ${count(point.fp)} of ${count(point.fp + point.tn)} negatives. `
      + (hasCosts ? `A false positive costs ${cost(point.costFp)}, a missed positive ${cost(point.costFn)}. ` : "")
      + "The intervals hold if the threshold was chosen on other cases.");
    for (const { element } of COSTS.map((name) => this.cells[name])) {
      if (!hasCosts) element.remove();
      else if (!element.parentNode) this.figures.append(element);
    }
    if (!hasCosts && COSTS.includes(this.chosen)) this.choose(RATES[0]);
    for (const [name, { value, more }] of Object.entries(this.cells)) {
      const found = metric(snapshot, name);
      setText(value, measured(name, found.value));
      setText(more, found.value === undefined ? reason(found)
        : interval(found.interval, name) ?? `no interval: ${reason(found.interval)}`);
    }
  }

  /** Keep the rows and the stream's marks, and draw the chosen rate of them. */
  draw(rows, marks) {
    Object.assign(this, { rows, marks });
    const isDrawn = this.timeline.draw(rows, this.chosen, { read: limited, marks });
    for (const each of this.drawn) each.hidden = !isDrawn;
  }

  choose(name) {
    this.chosen = name;
    for (const [each, { title }] of Object.entries(this.cells)) title.setAttribute("aria-pressed", String(each === name));
    if (this.rows) this.draw(this.rows, this.marks);
  }
}

// Where nothing is called positive the precision is 1 by convention: no point of a chart.
const limited = (found) => (found.interval?.lower === undefined
  ? { undefinedReason: found.interval?.undefinedReason ?? found.undefinedReason } : found);
