// The operating point: the rates at the declared threshold, and what errors cost, with their intervals; one of them over time.

import { metric } from "./api.js";
import { h, setText } from "./dom.js";
import { cost, count, interval, measured, reason, titleOf } from "./format.js";
import { COSTS, RATES } from "./metrics.js";
import { TimelineCard } from "./timeline.js";

export class PointCard {
  /** `toWindow(window)` returns the link to a row's window. */
  constructor(signal, toWindow) {
    this.chosen = RATES[0];
    this.timeline = new TimelineCard(signal, toWindow, { id: "point", title: "At the declared threshold", note: "Intervals hold if the threshold was chosen on other cases." });
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
    this.figures = h("dl", { class: "headline aside" }, RATES.map((name) => this.cells[name].element));
    this.course = h("details", { class: "course", hidden: true }, h("summary", {}, "Over time"));
    card.plotted.before(this.figures, this.summary, this.course);
    this.course.append(card.keys, h("div", { class: "timed" }, card.plotted, card.foot));
    this.element.classList.remove("timed");
  }

  /** Show the figures of a snapshot; without a declared threshold there is no card. */
  update(snapshot) {
    const point = snapshot.operatingPoint;
    this.element.hidden = !point;
    if (!point) return;
    const hasCosts = point.costFp !== undefined;
    setText(this.title, `At threshold ${point.threshold}`.replace("-", "−"));
    setText(this.summary, `${count(point.tp)} of ${count(point.tp + point.fn)} positives and ${count(point.fp)} of ${count(point.fp + point.tn)} negatives are flagged`
      + (hasCosts ? `; a false positive costs ${cost(point.costFp)}, a missed positive ${cost(point.costFn)}.` : "."));
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
    this.course.hidden = !isDrawn;
  }

  choose(name) {
    this.chosen = name;
    for (const [each, { title }] of Object.entries(this.cells)) title.setAttribute("aria-pressed", String(each === name));
    if (!this.rows) return;
    this.course.open = true;
    this.draw(this.rows, this.marks);
  }
}

// Where nothing is called positive the precision is 1 by convention: no point of a chart.
const limited = (found) => (found.interval?.lower === undefined
  ? { undefinedReason: found.interval?.undefinedReason ?? found.undefinedReason } : found);
