// The row of figures of a window: metrics with their intervals, counts of cases, labels that are still to come.

import { metric } from "./api.js";
import { fill, h, setText } from "./dom.js";
import { count, figure, interval, measured, percent, reason, span, titleOf } from "./format.js";
import { HEADLINE, SHOWN, TWINS } from "./metrics.js";

export const HULL = `${HEADLINE}_hull`;
const NOTES = { prevalence: `${titleOf(HEADLINE)} of a random order` }; // in place of an interval

const SAME = 0.005; // by less than this a figure says the same as its twin, and is left out

export class FigureRow {
  constructor() {
    this.element = h("dl", { class: "headline aside", id: "figures" });
  }

  /** Show a snapshot; later ones are filled in place. */
  show(snapshot) {
    if (!this.element.childElementCount) this.build();
    for (const name of SHOWN) {
      const found = metric(snapshot, name);
      this.put(name, measured(name, found.value), NOTES[name] ?? (found.value === undefined ? reason(found)
        : interval(found.interval) ?? `no interval: ${reason(found.interval)}`));
    }
    for (const [name, twin] of Object.entries(TWINS)) {
      const [one, other] = [metric(snapshot, name).value, metric(snapshot, twin).value];
      this.cells[name].title.parentElement.hidden = one === other || Math.abs(one - other) < SAME;
    }
    const hull = metric(snapshot, HULL);
    if (hull.value !== undefined) this.cells[HEADLINE].more.append(h("br"), `achievable ${figure(hull.value)}, optimistic`);
    const [positives, negatives] = [Number(snapshot.numPositiveRef), Number(snapshot.numNegativeRef)];
    this.put("counts", count(positives + negatives), `${count(positives)} positive, ${count(negatives)} negative${missesOf(snapshot)}`);
    const { coverage } = snapshot;
    this.put("coverage", coverage ? percent(coverage.labelledShare) : "–", coverage ? waiting(coverage) : "arrived with their cases");
  }

  build() {
    const titles = [...SHOWN.map((name) => [name, titleOf(name)]), ["counts", "Labelled cases"], ["coverage", "Labels"]];
    this.cells = Object.fromEntries(titles.map(([name, title]) => [name, {
      title: h("dt", {}, title),
      value: h("dd", { class: "value", id: `figure-${name}` }), more: h("dd", { class: "more", id: `more-${name}` }),
    }]));
    fill(this.element, Object.entries(this.cells).map(([name, { title, value, more }]) =>
      h("div", { class: name === HEADLINE ? "lead" : null }, title, value, more)));
  }

  put(name, value, more) {
    setText(this.cells[name].value, value);
    setText(this.cells[name].more, more);
  }
}

function missesOf(snapshot) {
  const misses = Number(snapshot.numMisses) + Number(snapshot.numNegativeMisses);
  return misses ? `; ${count(misses)} of them were never scored` : "";
}

function waiting(coverage) {
  const median = coverage.delays.find((each) => each.quantile === 0.5)?.delay;
  const parts = [`${count(Number(coverage.labelled))} of ${count(Number(coverage.predictions))}`];
  if (Number(coverage.pending)) parts.push(`${count(Number(coverage.pending))} waiting`);
  if (Number(coverage.expired)) parts.push(`${count(Number(coverage.expired))} expired`);
  if (median) parts.push(`half within ${span(Number.parseFloat(median))}`);
  return parts.join(", ");
}
