// The drawing of a time chart: a metric with its intervals, and what it is read beside: the reference behind, what
// is projected ahead of the labels, the labelled share below, deployments.

import { changeNames, changeShape } from "./change_shape.js";
import { day, figure, hour, interval, isCost, isShare, measured, percent, period, reason, count, titleOf } from "./format.js";
import { axis, line, names, tooltip } from "./plot.js";
import { isProjected, projectedArea, projectedText } from "./projected.js";

// Of both grids. Grids that make room for their labels end at different places, with bars beside their points.
const SIDES = { left: 64, right: 14, outerBoundsMode: "none" };
const TICKS = [0.2, 0.1, 0.05, 0.02, 0.01, 0.005];
const FAINT = 0.35;
const MAX_NAME = 24; // characters of a mark in the chart; the tooltip has all

/**
 * The ECharts option of rows with a `value` each.
 *
 * `beside` has what the rows are read beside: `spans` of projected values, the `reference`'s interval or
 * null, and `marks`.
 */
export function timeOption(colours, name, rows, { spans, reference, change, marks }) {
  const title = titleOf(name);
  const ends = [rows[0]?.start.getTime(), rows.at(-1)?.end.getTime()];
  const hasCoverage = rows.some((each) => each.coverage !== null);
  const known = rows.filter((each) => each.value.value !== undefined);
  const projected = spans.filter(isProjected);
  const limits = [...projected.map((each) => each.found.interval), ...(reference ? [reference] : []),
    ...(change ? [change.before, change.after].map((level) => ({ lower: level, upper: level })) : []),
    ...known.map((each) => (each.value.interval?.lower === undefined ? { lower: each.value.value, upper: each.value.value } : each.value.interval))];
  const greatest = isCost(name) ? Infinity : 1;
  const highest = Math.max(isCost(name) ? 0 : isShare(name) ? 0.02 : 0.1, ...limits.map((each) => each.upper));
  const lowest = Math.min(greatest, ...limits.map((each) => each.lower));
  const tick = isCost(name) ? roundStep((highest - lowest) / 2.5)
    : TICKS.find((each) => (highest - lowest) / each > 2.5) ?? TICKS.at(-1);
  const top = Math.min(greatest, tick * Math.max(1, Math.ceil(highest / tick)));
  const main = { ...SIDES, top: 12, height: 170 };
  const time = { type: "time", min: ends[0], max: ends[1] };
  const hours = { color: colours.muted, fontSize: 11, hideOverlap: true, formatter: tickOf };
  const grids = [main];
  const xAxes = [axis(colours, "", { ...time, splitLine: { show: false }, axisLabel: { ...hours, show: !hasCoverage } })];
  const yAxes = [axis(colours, title, {
    type: "value", nameLocation: "middle", nameGap: 40, interval: tick,
    min: tick * Math.floor(lowest / tick), max: top,
    axisLine: { show: false },
    axisLabel: {
      color: colours.muted, fontSize: 11,
      formatter: (value) => (isShare(name) ? `${Number((100 * value).toPrecision(3))}%` : String(Number(value.toPrecision(3)))),
    },
  })];
  const series = [
    ...(reference ? [{ ...shapes("reference", [reference], referenceBand(colours, ends)), z: 0 }] : []),
    { ...shapes("immature", rows.filter((each) => each.isImmature), immatureArea(colours)), z: 0 },
    { ...shapes("projected", projected, projectedArea(colours)), z: 1 },
    { ...shapes("interval", runs(rows), bandShape(colours)), z: 1 },
    { ...shapes("few", known.filter((each) => each.isFew), whisker(colours)), z: 1 },
    line(title, rows.map((each) => [each.middle, each.value.value ?? null]), colours.a,
      { showSymbol: false, silent: false, z: 3, lineStyle: { opacity: known.some((each) => !each.isFew) ? 1 : FAINT } }),
    {
      name: "points", type: "scatter", symbol: "circle", symbolSize: rows.length > 80 ? 3 : 5, silent: true, z: 3,
      data: known.map((each) => ({ value: [each.middle, each.value.value], itemStyle: { opacity: each.isFew ? FAINT : 1 } })),
      itemStyle: { color: colours.a },
    },
    ...(change ? [{ ...shapes("change", [change], changeShape(colours, ends)), z: 4 }] : []),
    { ...shapes("marks", marks.filter((each) => ends[0] <= each.time && each.time < ends[1]), markLine(colours)), z: 5 },
    {
      name: "immature points", type: "scatter", symbol: "circle", symbolSize: 7, silent: true, z: 4,
      data: rows.filter((each) => each.isImmature && each.value.value !== undefined)
        .map((each) => [each.middle, each.value.value]),
      itemStyle: { color: colours.surface, borderColor: colours.a, borderWidth: 1.8 },
    },
  ];
  series.push(names(colours, namesOf(colours, { rows, projected, reference, change, marks: marks.filter((each) => ends[0] <= each.time && each.time < ends[1]), top })));
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
    tooltip: tooltip(colours, (found) => tooltipText(name, rows, spans, marks, found)),
  };
}

/** What the chart has beside its line is named where it is. */
function namesOf(colours, { rows, projected, reference, change, marks, top }) {
  const [start, end] = [rows[0].start.getTime(), rows.at(-1).end.getTime()];
  const sideOf = (time) => (time - start > (end - start) / 2 ? "left" : "right");
  const young = rows.find((each) => each.isImmature)?.start.getTime();
  const last = projected.at(-1);
  return [
    ...(young === undefined ? [] : [{ text: "labels still arriving", at: [young, top], colour: colours.muted, side: sideOf(young), up: -8 }]),
    ...marks.map((each) => ({ text: shortened(each.text), at: [each.time.getTime(), top], colour: colours.mark, side: sideOf(each.time.getTime()), up: -22, mayHide: true })),
    ...(last ? [{ text: "projected", at: [last.start.getTime(), last.found.projected], colour: colours.hull, side: "left", up: 8 }] : []),
    ...(change ? changeNames(colours, change, [start, end], sideOf) : []),
    ...(reference ? [{ text: reference.title, at: [start, reference.upper], colour: colours.muted, side: "right", up: 8 }] : []),
  ];
}

const shortened = (text) => (text.length > MAX_NAME ? `${text.slice(0, MAX_NAME - 1)}…` : text);

/** The largest step of 1, 2 or 5 times a power of ten that is not above a length; 1 of none. */
function roundStep(length) {
  if (!(length > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(length));
  return power * ([5, 2].find((each) => each * power <= length) ?? 1);
}

/** The hour; at midnight, the day. */
export function tickOf(time) {
  const date = new Date(time);
  return hour(date) === "00:00" ? day(date) : hour(date);
}

function tooltipText(name, rows, spans, marks, found) {
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
    ...marks.filter((mark) => each.start <= mark.time && mark.time < each.end).map((mark) => `${hour(mark.time)}: ${mark.text}`),
  ].join("\n");
}

/** A custom series: each item is drawn by `draw(item, api)`. */
export function shapes(name, items, draw) {
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
    if (each && !each.isFew && each.value.interval?.lower !== undefined) run.push(each);
    else if (run.length) { found.push(run); run = []; }
  }
  return found;
}

export function bandShape(colours) {
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

/** A step of few positives: its interval as a faint line. */
function whisker(colours) {
  return (each, api) => {
    const limits = each.value.interval;
    const [x, top] = api.coord([each.middle, limits?.upper ?? each.value.value]);
    const [, bottom] = api.coord([each.middle, limits?.lower ?? each.value.value]);
    return { type: "line", shape: { x1: x, y1: top, x2: x, y2: bottom }, style: { stroke: colours.a, lineWidth: 1.5, opacity: FAINT } };
  };
}

function referenceBand(colours, ends) {
  return ({ lower, upper, value }, api) => {
    const [left, top] = api.coord([ends[0], upper]);
    const [right, bottom] = api.coord([ends[1], lower]);
    const [, y] = api.coord([ends[0], value]);
    return {
      type: "group",
      children: [
        { type: "rect", shape: { x: left, y: top, width: right - left, height: bottom - top }, style: { fill: colours.muted, opacity: 0.16 } },
        { type: "line", shape: { x1: left, y1: y, x2: right, y2: y }, style: { stroke: colours.muted, lineWidth: 1.2, lineDash: [2, 3] } },
      ],
    };
  };
}

/** A deployment: an upright line with a flag. */
function markLine(colours) {
  return (mark, api, box) => {
    const [x] = api.coord([mark.time.getTime(), 0]);
    return {
      type: "group",
      children: [
        { type: "line", shape: { x1: x, y1: box.y, x2: x, y2: box.y + box.height }, style: { stroke: colours.mark, lineWidth: 1.2, opacity: 0.75 } },
        { type: "polygon", shape: { points: [[x, box.y], [x + 8, box.y + 4], [x, box.y + 8]] }, style: { fill: colours.mark } },
      ],
    };
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
