// What a stream was called over time: a strip of coloured spans below its chart, and the same as a list.

import { fill, h } from "./dom.js";
import { moment, period } from "./format.js";
import { qualityOf, statesOf } from "./verdict.js";

const wordOf = (row) => statesOf(row)[0][0];

/**
 * The spans of a verdict's history, oldest first: {row, start, end}. Each lasts from when it was so, as far as that
 * is known, or was called so, until the next one began; the last one has no end.
 */
export function spansOf(history) {
  const spans = [];
  for (const row of history) {
    const start = new Date(row.isAccepted ? row.called : row.since ?? row.called);
    while (spans.length && spans.at(-1).start >= start) spans.pop(); // what is known now replaces what was thought
    if (spans.length) spans.at(-1).end = start;
    spans.push({ row, start, end: null });
  }
  return spans;
}

export class CalledStrip {
  constructor() {
    this.strip = h("div", { class: "called-strip", "aria-hidden": true });
    this.list = h("ol", { class: "hidden" });
    this.element = h("section", { class: "called", "aria-label": "What the stream was called", hidden: true },
      h("span", { class: "called-name", "aria-hidden": true }, "Verdict"), this.strip, this.list);
  }

  /** Show the spans of a history within the times of the chart. */
  draw(history, ...times) {
    const [start, end] = times.map(Number);
    const shown = spansOf(history).map((span) => ({ ...span, left: Math.max(span.start, start), right: Math.min(span.end ?? end, end) }))
      .filter(({ left, right }) => left < right);
    this.element.hidden = !shown.length;
    const part = (time) => `${100 * time / (end - start)}%`;
    fill(this.strip, shown.map(({ left, right, ...span }) => h("span", {
      class: `${qualityOf(span.row)}${span.row.isAccepted && left > start ? " accepted" : ""}`, title: spanWords(span),
      style: { left: part(left - start), width: `calc(${part(right - left)} - 1px)` },
    }, wordOf(span.row))));
    fill(this.list, history.map((row) => h("li", {}, rowWords(row))));
  }
}

/** From when to when, and when it was called so. */
function spanWords({ row, start, end }) {
  const time = end ? period(start, end) : `since ${moment(start)}`;
  return row.isAccepted ? `${time}: ${wordOf(row)}, accepted as the new normal` : `${time}: ${wordOf(row)}, called ${moment(new Date(row.called))}`;
}

function rowWords(row) {
  const called = moment(new Date(row.called));
  if (row.isAccepted) return `${called}: accepted as the new normal`;
  return `${called}: called ${wordOf(row)}${row.since ? `, since ${moment(new Date(row.since))}` : ""}`;
}
