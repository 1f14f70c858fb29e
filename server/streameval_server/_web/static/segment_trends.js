// Segments over time: small charts on one axis of time and one of the metric, the worst segment first.

import { metric } from "./api.js";
import { ChartCard } from "./card.js";
import { count, figure, interval, moment, period, segmentName, titleOf } from "./format.js";
import { HEADLINE } from "./metrics.js";
import { axis, line, tooltip } from "./plot.js";
import { windowBetween } from "./route.js";
import { intervals, measures, numbers, periods, words } from "./sheet.js";
import { bandShape, shapes, tickOf } from "./time_chart.js";
import { positivesOf, stepOf, trimmed } from "./time_rows.js";

const MAX_SEGMENTS = 6;
const TARGET_ROWS = 24;
const ROW_HEIGHT = 132;
const WIDE = 720; // from this width on there are two charts a row

export class SegmentTrends {
  /** `toSegment(segment)` returns the link to a segment. */
  constructor(signal, toSegment) {
    this.toSegment = toSegment;
    this.card = new ChartCard(signal, {
      id: "trends", title: `${titleOf(HEADLINE)} by segment over time, the worst first`, shape: "wide",
      keys: [["line a", "segment"], ["band", "95 % interval"], ["line muted", "whole stream"]],
      note: "All on one scale, each step at the prevalence that it has. Click a chart for its segment.",
    });
    this.element = this.card.element;
    this.element.hidden = true;
    this.card.plotted.addEventListener("click", (event) => this.open(event), { signal });
    this.trends = [];
  }

  /** Load and draw the first segments of a ranking; map the name of each that fell to its {since, by, range, warnings}. */
  async load(reader, snapshot, ranked, wholeRows) {
    const [start, end] = await reader.span(snapshot);
    const first = wholeRows.length ? wholeRows[0].start : start;
    const chosen = ranked.filter((each) => each.value.value !== undefined).slice(0, MAX_SEGMENTS);
    this.whole = wholeRows;
    this.trends = await Promise.all(chosen.map((each) => this.loadOne(reader, each, first, end)));
    this.element.hidden = !this.trends.some(({ rows }) => rows.filter(({ value }) => value.value !== undefined).length > 1);
    this.draw();
    return new Map(this.trends.filter(({ fall }) => fall).map(({ segment, fall }) => [segmentName(segment), fall]));
  }

  async loadOne(reader, { segment, numPositiveRef }, start, end) {
    const step = `${stepOf((end - start) / 1000, TARGET_ROWS)}s`;
    const { snapshots, fall } = await reader.read("windows", { step, minPositives: positivesOf(Number(numPositiveRef)), metrics: [HEADLINE] },
      reader.select(windowBetween(start, end), segment));
    const rows = trimmed(snapshots, 0, Date.now()).rows.map((each) => ({ ...each, value: metric(each.snapshot, HEADLINE) }));
    return { segment, rows, fall: fall && { by: fall.difference, since: new Date(fall.step.startTime), range: [fall.since.startTime, fall.since.endTime].map((at) => new Date(at)), warnings: fall.warnings ?? [] } };
  }

  draw() {
    const { trends } = this;
    if (this.element.hidden) return;
    const perRow = () => (this.card.plotted.clientWidth >= WIDE && trends.length > 1 ? 2 : 1);
    this.card.plotted.style.height = `${ROW_HEIGHT * Math.ceil(trends.length / perRow()) + 24}px`;
    const names = trends.map(({ segment }) => segmentName(segment)).join(", ");
    this.card.draw(`${titleOf(HEADLINE)} over time of ${names}. The table has the figures.`,
      (colours, width) => option(colours, width, perRow(), trends, this.whole), () => this.sheet());
  }

  sheet() {
    return {
      caption: `${titleOf(HEADLINE)} by segment over time`,
      columns: [words("Segment"), periods("From", (start) => moment(start)), measures(titleOf(HEADLINE), HEADLINE),
        intervals("95 % interval", HEADLINE), numbers("Positives", count), numbers("Negatives", count)],
      rows: this.trends.flatMap(({ segment, rows }) => rows.map((each) =>
        [segmentName(segment), [each.start, each.end], each.value, each.value.interval, each.positives, each.negatives])),
    };
  }

  /** Show the segment whose chart was clicked. */
  open(event) {
    const { left, top } = this.card.plotted.getBoundingClientRect();
    const index = this.card.plot.gridAt(event.clientX - left, event.clientY - top, this.trends.length);
    if (index !== null) location.hash = this.toSegment(this.trends[index].segment);
  }
}

function option(colours, width, perRow, trends, whole) {
  const wholeKnown = whole.map((each) => ({ ...each, value: metric(each.snapshot, HEADLINE) })).filter((each) => each.value.value !== undefined);
  const all = [...trends.flatMap(({ rows }) => rows), ...wholeKnown].filter((each) => each.value.value !== undefined);
  const ends = [Math.min(...all.map(({ start }) => start)), Math.max(...all.map(({ end }) => end))];
  const values = all.map(({ value }) => value.value);
  const [low, high] = [Math.max(0, Math.floor(10 * Math.min(...values) - 0.5) / 10), Math.min(1, Math.ceil(10 * Math.max(...values) + 0.5) / 10)];
  const cell = width / perRow;
  const label = { color: colours.muted, fontSize: 11, hideOverlap: true };
  const grids = [];
  const [xAxes, yAxes, series, titles] = [[], [], [], []];
  trends.forEach(({ segment, rows, fall }, index) => {
    const [column, row] = [index % perRow, Math.floor(index / perRow)];
    const left = column * cell + 40;
    const isLast = index + perRow >= trends.length;
    grids.push({ left, width: cell - 54, top: row * ROW_HEIGHT + 26, height: ROW_HEIGHT - 46, outerBoundsMode: "none" });
    const note = fall ? `, fell by ${figure(-fall.by, 2)} since about ${moment(fall.since)}` : "";
    titles.push({
      left: left - 4, top: row * ROW_HEIGHT + 2, text: `{name|${escaped(segmentName(segment))}}{note|${note}}`,
      textStyle: { rich: { name: { fontSize: 12, fontWeight: 600, color: colours.ink }, note: { fontSize: 12, color: fall ? colours.b : colours.muted } }, width: cell - 50, overflow: "truncate" },
    });
    const place = { gridIndex: index };
    xAxes.push(axis(colours, "", { ...place, type: "time", min: ends[0], max: ends[1], splitLine: { show: false }, axisLabel: { ...label, show: isLast, formatter: tickOf } }));
    yAxes.push(axis(colours, "", { ...place, type: "value", min: low, max: high, interval: (high - low) / 2, axisLine: { show: false },
      axisLabel: { ...label, formatter: (value) => String(Number(value.toPrecision(2))) } }));
    const on = { xAxisIndex: index, yAxisIndex: index };
    const known = rows.filter((each) => each.value.value !== undefined);
    const sure = known.filter((each) => each.value.interval?.lower !== undefined);
    series.push(
      { ...line("whole", wholeKnown.map((each) => [each.middle, each.value.value]), colours.muted, { lineStyle: { width: 1.2, opacity: 0.8 } }), ...on },
      { ...shapes("interval", sure.length ? [sure] : [], bandShape(colours)), ...on, z: 1 },
      { ...line(segmentName(segment), known.map((each) => [each.middle, each.value.value]), colours.a, { silent: false, lineStyle: { width: 1.8 } }), ...on, z: 3 },
      {
        name: "points", type: "scatter", symbol: "circle", symbolSize: 4, silent: true, z: 3, ...on, itemStyle: { color: colours.a },
        data: known.map((each) => ({ value: [each.middle, each.value.value], itemStyle: { opacity: each.isFew ? 0.35 : 1 } })),
      });
  });
  return {
    title: titles, grid: grids, xAxis: xAxes, yAxis: yAxes, series,
    tooltip: tooltip(colours, (found) => tooltipText(trends, found)),
  };
}

/** Braces and bars are markup of rich text. */
const escaped = (text) => text.replace(/[{}|]/g, " ");

function tooltipText(trends, found) {
  const { axisIndex, axisValue: at } = found[0] ?? {};
  const trend = trends[axisIndex];
  const row = trend?.rows.find((each) => each.start <= at && at < each.end);
  if (!row) return "";
  const limits = interval(row.value.interval);
  return [segmentName(trend.segment), period(row.start, row.end), `${titleOf(HEADLINE)} ${figure(row.value.value)}${limits ? `, ${limits}` : ""}`,
    `${count(row.positives)} positives, ${count(row.negatives)} negatives`].join("\n");
}
