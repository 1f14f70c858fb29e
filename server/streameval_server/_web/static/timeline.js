// A metric over time with its interval, and below it the share of predictions that are labelled.

import { metric } from "./api.js";
import { ChartCard } from "./card.js";
import { h } from "./dom.js";
import { count, day, figure, hour, interval, isShare, measured, moment, percent, period, reason, titleOf, zone } from "./format.js";
import { axis, line, tooltip } from "./plot.js";
import { isProjected, projectedArea, projectedText } from "./projected.js";
import { windowBetween } from "./route.js";
import { intervals, measures, numbers, periods, words } from "./sheet.js";

const STEPS_S = [60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800];
const TARGET_ROWS = 60;
const MIN_ROWS = 12; // with fewer rows a finer step is tried
const PROJECTED_ROWS = 12; // a projection needs more labels than a row has
// Of both grids. Grids that make room for their labels end at different places, with bars beside their points.
const SIDES = { left: 58, right: 14, outerBoundsMode: "none" };
const TICKS = [0.2, 0.1, 0.05, 0.02, 0.01, 0.005];

/** The narrowest step that cuts a span into about 60 rows. */
export function stepOf(seconds) {
  return STEPS_S.find((step) => step >= seconds / TARGET_ROWS) ?? STEPS_S.at(-1);
}

/** The span of the rows from the first immature one on, and the step to project it by; null without one. */
export function immatureSpan(rows) {
  const first = rows.find((each) => each.isImmature);
  if (!first) return null;
  const [start, end] = [first.start, rows.at(-1).end];
  return { start, end, step: STEPS_S.find((step) => step >= (end - start) / 1000 / PROJECTED_ROWS) ?? STEPS_S.at(-1) };
}

/** The rows from the first one that is not empty, and whether a finer step would show more. */
export function trimmed(snapshots, delayS, now) {
  const rows = snapshots.map((each) => row(each, delayS, now));
  const first = rows.findIndex((each) => !each.isEmpty);
  const kept = first < 0 ? [] : rows.slice(first);
  return { rows: kept, isShort: first > 0 && kept.length < MIN_ROWS };
}

// Immature: more than a tenth of its predictions are unlabelled, and it is younger than the 90 % label delay.
function row(snapshot, delayS, now) {
  const start = new Date(snapshot.window.startTime);
  const end = new Date(snapshot.window.endTime);
  const coverage = snapshot.coverage;
  const expected = coverage ? Number(coverage.predictions) - Number(coverage.retracted) : 0;
  const ageS = (now - (start.getTime() + end.getTime()) / 2) / 1000;
  return {
    start, end, middle: (start.getTime() + end.getTime()) / 2,
    snapshot,
    positives: Number(snapshot.numPositiveRef),
    negatives: Number(snapshot.numNegativeRef),
    coverage: expected > 0 ? coverage.labelledShare ?? 0 : null,
    isImmature: expected > 0 && Number(coverage.pending) > expected / 10 && ageS < delayS,
    isEmpty: snapshot.numPositiveRef === "0" && snapshot.numNegativeRef === "0" && !expected,
  };
}

export class TimelineCard {
  /** `toWindow(window)` returns the link to a row's window; `title` is the card's. */
  constructor(signal, toWindow, { id, title }) {
    this.toWindow = toWindow;
    this.card = new ChartCard(signal, { id, title, shape: "wide" });
    this.element = this.card.element;
  }

  /**
   * Draw `read(metric)` of rows, and the projected values of spans of them. A single point is no timeline:
   * return whether there are more.
   */
  draw(snapshots, name, { read = (found) => found, spans = [] } = {}) {
    const rows = snapshots.map((each) => ({ ...each, value: read(metric(each.snapshot, name)) }));
    if (rows.filter((each) => each.value.value !== undefined).length < 2) return false;
    const title = titleOf(name);
    const hasCoverage = rows.some((each) => each.coverage !== null);
    const immature = rows.filter((each) => each.isImmature).length;
    const projected = spans.filter(isProjected);
    this.card.legend([
      ["line a", title], ["band", "95 % interval"],
      ...(immature ? [["young", "immature: labels still arriving"]] : []),
      ...(projected.length ? [["area projected", "projected, with its 95 % interval"]] : []),
      ...(hasCoverage ? [["bar", "labelled share"]] : []),
    ]);
    this.card.note.textContent = `Times are ${zone()}. ` + (hasCoverage ? ""
      : "These cases arrived with their labels: there is no delay to show.");
    const ends = [rows[0]?.start.getTime(), rows.at(-1)?.end.getTime()];
    const label = `${title} in ${rows.length} steps of time`
      + (immature ? `, ${immature} of them immature` : "")
      + (projected.length ? `, the newest projected to ${figure(projected.at(-1).found.projected)}` : "") + ". The table has the figures.";
    this.card.plotted.classList.toggle("tall", hasCoverage);
    this.card.draw(label, (colours) => option(colours, name, rows, ends, hasCoverage, spans),
      () => this.sheet(name, rows, spans));
    return true;
  }

  sheet(name, rows, spans) {
    return {
      caption: `${titleOf(name)} over time, the newest first`,
      columns: [
        periods("From", (start, end) => h("a", { href: this.toWindow(windowBetween(start, end)) }, moment(start))),
        measures(titleOf(name), name), intervals("95 % interval", name),
        numbers("Positives", count), numbers("Negatives", count), numbers("Labelled", percent),
        words("", "State"), ...(spans.length ? [words("Projected")] : [])],
      rows: rows.toReversed().map((each) => [
        [each.start, each.end], each.value, each.value.interval, each.positives, each.negatives, each.coverage,
        each.isImmature ? "immature" : "", ...(spans.length ? [projectedText(spans, each) ?? ""] : [])]),
    };
  }
}

function option(colours, name, rows, ends, hasCoverage, spans) {
  const title = titleOf(name);
  const known = rows.filter((each) => each.value.value !== undefined);
  const projected = spans.filter(isProjected);
  const reached = projected.map((each) => each.found.interval);
  const highest = Math.max(isShare(name) ? 0.02 : 0.1, ...reached.map((each) => each.upper), ...known.map((each) => each.value.interval?.upper ?? each.value.value));
  const lowest = Math.min(1, ...reached.map((each) => each.lower), ...known.map((each) => each.value.interval?.lower ?? each.value.value));
  const tick = TICKS.find((each) => (highest - lowest) / each > 2.5) ?? TICKS.at(-1);
  const main = { ...SIDES, top: 12, height: 170 };
  const time = { type: "time", min: ends[0], max: ends[1] };
  const hours = { color: colours.muted, fontSize: 11, hideOverlap: true, formatter: tickOf };
  const grids = [main];
  const xAxes = [axis(colours, "", { ...time, splitLine: { show: false }, axisLabel: { ...hours, show: !hasCoverage } })];
  const yAxes = [axis(colours, title, {
    type: "value", nameLocation: "middle", nameGap: 40, interval: tick,
    min: tick * Math.floor(lowest / tick), max: Math.min(1, tick * Math.ceil(highest / tick)),
    axisLine: { show: false },
    axisLabel: {
      color: colours.muted, fontSize: 11,
      formatter: (value) => (isShare(name) ? `${Number((100 * value).toPrecision(3))}%` : String(Number(value.toPrecision(3)))),
    },
  })];
  const series = [
    { ...shapes("immature", rows.filter((each) => each.isImmature), immatureArea(colours)), z: 0 },
    { ...shapes("projected", projected, projectedArea(colours)), z: 1 },
    { ...shapes("interval", runs(rows), band(colours, rows)), z: 1 },
    line(title, rows.map((each) => [each.middle, each.value.value ?? null]), colours.a,
      { showSymbol: true, symbol: "circle", symbolSize: rows.length > 80 ? 3 : 5, silent: false, z: 3 }),
    {
      name: "immature points", type: "scatter", symbol: "circle", symbolSize: 7, silent: true, z: 4,
      data: rows.filter((each) => each.isImmature && each.value.value !== undefined)
        .map((each) => [each.middle, each.value.value]),
      itemStyle: { color: colours.surface, borderColor: colours.a, borderWidth: 1.8 },
    },
  ];
  if (hasCoverage) {
    grids.push({ ...SIDES, top: 206, height: 54 });
    xAxes.push(axis(colours, "", { ...time, gridIndex: 1, splitLine: { show: false }, axisLabel: hours }));
    yAxes.push(axis(colours, "Labelled", {
      type: "value", gridIndex: 1, min: 0, max: 1, interval: 0.5, nameLocation: "middle", nameGap: 40,
      axisLine: { show: false },
      axisLabel: { color: colours.muted, fontSize: 11, formatter: (value) => `${100 * value}%` },
    }));
    series.push({
      ...shapes("labelled", rows.filter((each) => each.coverage !== null), bar(colours)),
      xAxisIndex: 1, yAxisIndex: 1,
    });
  }
  return {
    grid: grids, xAxis: xAxes, yAxis: yAxes, series,
    axisPointer: { link: [{ xAxisIndex: "all" }] },
    tooltip: tooltip(colours, (found) => tooltipText(name, rows, spans, found)),
  };
}

/** The hour; at midnight, the day. */
function tickOf(time) {
  const date = new Date(time);
  const isMidnight = date.getHours() === 0 && date.getMinutes() === 0;
  return isMidnight ? day(date) : hour(date);
}

function tooltipText(name, rows, spans, found) {
  const at = found[0]?.axisValue;
  const each = rows.find((row) => row.start <= at && at < row.end);
  if (!each) return "";
  const limits = interval(each.value.interval, name);
  const projected = projectedText(spans, each);
  return [
    period(each.start, each.end),
    each.value.value === undefined ? `${titleOf(name)}: ${reason(each.value)}`
      : `${titleOf(name)} ${measured(name, each.value.value)}${limits ? `, ${limits}` : ""}`,
    `${count(each.positives)} positives, ${count(each.negatives)} negatives`,
    ...(each.coverage === null ? [] : [`${percent(each.coverage)} labelled`]),
    ...(each.isImmature ? ["immature: labels still arriving"] : []),
    ...(projected === null ? [] : [projected]),
  ].join("\n");
}

/** A custom series: each item is drawn by `draw(item, api)`. */
function shapes(name, items, draw) {
  return {
    name, type: "custom", silent: true, clip: true,
    data: items.map((_, index) => [index]),
    encode: { x: -1, y: -1 },
    renderItem: (parameters, api) => draw(items[parameters.dataIndex], api, parameters.coordSys),
  };
}

/** Runs of consecutive rows that have intervals. */
function runs(rows) {
  const found = [];
  let run = [];
  for (const each of [...rows, null]) {
    if (each?.value.interval?.lower !== undefined) run.push(each);
    else if (run.length) { found.push(run); run = []; }
  }
  return found;
}

function band(colours) {
  return (run, api) => {
    const upper = run.map((each) => api.coord([each.middle, each.value.interval.upper]));
    const lower = run.map((each) => api.coord([each.middle, each.value.interval.lower])).toReversed();
    if (run.length === 1) {
      const [[x, top], [, bottom]] = [upper[0], lower[0]];
      return { type: "rect", shape: { x: x - 3, y: top, width: 6, height: bottom - top }, style: { fill: colours.a, opacity: 0.18 } };
    }
    return { type: "polygon", shape: { points: [...upper, ...lower] }, style: { fill: colours.a, opacity: 0.18 } };
  };
}

function immatureArea(colours) {
  return (each, api, box) => {
    const [left] = api.coord([each.start.getTime(), 0]);
    const [right] = api.coord([each.end.getTime(), 0]);
    return { type: "rect", shape: { x: left, y: box.y, width: right - left, height: box.height }, style: { fill: colours.region } };
  };
}

function bar(colours) {
  return (each, api) => {
    const [left, top] = api.coord([each.start.getTime(), each.coverage]);
    const [right, bottom] = api.coord([each.end.getTime(), 0]);
    const gap = right - left > 4 ? 1 : 0;
    return {
      type: "rect", shape: { x: left, y: top, width: right - left - gap, height: bottom - top },
      style: each.isImmature
        ? { fill: colours.surface, stroke: colours.negative, lineWidth: 1 } : { fill: colours.negative },
    };
  };
}
