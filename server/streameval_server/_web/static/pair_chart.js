// The difference of a pair over time: of each step, or of all steps so far, with its limits.

import { ChartCard } from "./card.js";
import { h } from "./dom.js";
import { count, moment, period, signed, titleOf, zone } from "./format.js";
import { axis, line, tooltip } from "./plot.js";
import { intervals, numbers, periods } from "./sheet.js";
import { shapes, tickOf } from "./time_chart.js";

const GRID = { left: 62, right: 14, top: 14, bottom: 26 };
const TICKS = [0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001];
const MAX_TICKS = 6;

/** Rows from the first one with a difference, the view's B minus its A. `isTurned`: the view's A is the pair's b. */
export function rowsOf(comparisons, { isTurned, isCumulative }) {
  const rows = comparisons.map((each, index) => {
    const limits = isCumulative ? each.anytime : each.compared.difference.interval;
    const value = each.compared.difference.value;
    const known = limits?.lower !== undefined && value !== undefined;
    const [lower, upper] = known ? (isTurned ? [limits.lower, limits.upper] : [-limits.upper, -limits.lower]) : [];
    return {
      // The window of all labels so far begins with the span, and its step where the last one ended.
      start: new Date(isCumulative && index ? comparisons[index - 1].compared.windowA.endTime : each.compared.windowA.startTime),
      end: new Date(each.compared.windowA.endTime),
      value: value === undefined || isTurned ? value : -value,
      limits: known ? { lower, upper } : undefined,
      labelled: Number(each.coverage.labelled), positives: Number(each.coverage.positives),
    };
  });
  const first = rows.findIndex((each) => each.value !== undefined);
  return first < 0 ? [] : rows.slice(first);
}

export class PairChart {
  /** `changed()` is called when the reader chooses the other kind of steps. */
  constructor(signal, changed) {
    this.card = new ChartCard(signal, { id: "pair-time", title: "Difference over time", shape: "wide" });
    this.element = this.card.element;
    this.kind = h("select", { id: "pair-kind", onchange: changed },
      h("option", { value: "so-far" }, "all labels so far"), h("option", { value: "steps" }, "each step alone"));
    this.card.heading.after(h("div", { class: "kind" }, h("label", { for: "pair-kind" }, "of"), this.kind));
  }

  get isCumulative() {
    return this.kind.value === "so-far";
  }

  /** Draw the rows; return whether there are enough of them. `since`: when the evidence began to suffice. */
  draw({ rows, metric, names, since }) {
    const known = rows.filter((each) => each.value !== undefined);
    if (known.length < 2) return false;
    const title = `${names[1]} minus ${names[0]}`;
    const isCumulative = this.isCumulative;
    const place = isCumulative ? (each) => each.end.getTime() : (each) => (each.start.getTime() + each.end.getTime()) / 2;
    const mark = isCumulative && since && since <= rows.at(-1).end ? Math.max(since.getTime(), rows[0].start.getTime()) : null;
    this.card.heading.textContent = `Difference in ${titleOf(metric)} over time`;
    this.card.legend([["line a", title], ["band", isCumulative ? "95 % at all looks together" : "95 % interval of each step"],
      ...(mark === null ? [] : [["upright", "evidence suffices"]])]);
    this.card.note.textContent = `Above 0, ${names[1]} is better. ${isCumulative
      ? "The limits hold the true difference at every look at once: where they leave out 0, it is decided."
      : "Each step stands alone, so that some of many leave out 0 by chance."} Times are ${zone()}.`;
    const label = `${title} in ${rows.length} steps of time, ${signed(known.at(-1).value)} at the end. The table has the figures.`;
    this.card.draw(label, (colours) => option(colours, { rows, known, title, place, mark }), () => ({
      caption: `${title}, the newest first`,
      columns: [periods("From", (start, end) => (isCumulative ? `until ${moment(end)}` : moment(start))),
        numbers("Difference", signed), intervals("Limits"), numbers("Labelled ids", count), numbers("Positives", count)],
      rows: rows.toReversed().map((each) => [
        [isCumulative ? rows[0].start : each.start, each.end], each.value, each.limits, each.labelled, each.positives]),
    }));
    return true;
  }
}

function option(colours, { rows, known, title, place, mark }) {
  const ends = known.flatMap((each) => [each.value, each.limits?.lower ?? each.value, each.limits?.upper ?? each.value]);
  // Limits of the first labels are as wide as can be: the later half sets the scale.
  const late = known.slice(Math.floor(known.length / 2)).flatMap((each) => [each.limits?.lower ?? each.value, each.limits?.upper ?? each.value]);
  const reach = 1.6 * Math.max(0.01, ...late.map(Math.abs));
  const [lowest, highest] = [Math.max(-reach, Math.min(0, ...ends)), Math.min(reach, Math.max(0, ...ends))];
  const tick = TICKS.findLast((each) => (highest - lowest) / each <= MAX_TICKS) ?? TICKS[0];
  return {
    grid: GRID,
    xAxis: axis(colours, "", { type: "time", min: place(rows[0]), max: place(rows.at(-1)), splitLine: { show: false },
      axisLabel: { color: colours.muted, fontSize: 11, hideOverlap: true, formatter: tickOf } }),
    yAxis: axis(colours, "", {
      type: "value", interval: tick, min: tick * Math.floor(lowest / tick), max: tick * Math.ceil(highest / tick), axisLine: { show: false },
      axisLabel: { color: colours.muted, fontSize: 11, formatter: (value) => (Math.abs(value) < tick / 2 ? "0" : signed(value, 3)) },
    }),
    series: [
      { ...shapes("limits", runs(known), band(colours, place)), z: 1 },
      line("no difference", [[place(rows[0]), 0], [place(rows.at(-1)), 0]], colours.muted, { lineStyle: { width: 1.4 }, z: 2 }),
      line(title, rows.map((each) => [place(each), each.value ?? null]), colours.a, { silent: false, z: 3, lineStyle: { width: 2.2 } }),
      ...(mark === null ? [] : [line("evidence suffices", [[mark, tick * Math.floor(lowest / tick)], [mark, tick * Math.ceil(highest / tick)]],
        colours.mark, { z: 4, lineStyle: { width: 1.6 } })]),
    ],
    tooltip: tooltip(colours, (found) => tooltipText(rows, place, found)),
  };
}

function tooltipText(rows, place, found) {
  const at = found[0]?.axisValue;
  const each = rows.toSorted((x, y) => Math.abs(place(x) - at) - Math.abs(place(y) - at))[0];
  if (!each) return "";
  return [
    period(each.start, each.end),
    each.value === undefined ? "no difference yet" : `${signed(each.value)}${each.limits ? `, ${signed(each.limits.lower)} to ${signed(each.limits.upper)}` : ""}`,
    `${count(each.labelled)} labelled ids, ${count(each.positives)} positive`,
  ].join("\n");
}

/** Runs of consecutive rows with limits. */
function runs(rows) {
  const found = [];
  let run = [];
  for (const each of [...rows, null]) {
    if (each?.limits) run.push(each);
    else if (run.length) { found.push(run); run = []; }
  }
  return found;
}

function band(colours, place) {
  return (run, api) => {
    const side = (name) => run.map((each) => api.coord([place(each), each.limits[name]]));
    const points = run.length === 1
      ? [-3, 3].flatMap((aside) => [side("upper"), side("lower")][aside < 0 ? 0 : 1].map(([x, y]) => [x + aside, y]))
      : [...side("upper"), ...side("lower").toReversed()];
    return { type: "polygon", shape: { points }, style: { fill: colours.a, opacity: 0.18 } };
  };
}
