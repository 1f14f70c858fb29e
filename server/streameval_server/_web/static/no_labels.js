// A stream, or a window of it, whose predictions have no label yet: what is known of them, and what to send next.

import { ChartCard } from "./card.js";
import { fill, h, redraw, setText } from "./dom.js";
import { count, moment, percent, period, score, span, zone } from "./format.js";
import { grpcAddress } from "./grpc_address.js";
import { scoreAxis, shares, steps } from "./histogram.js";
import { axis, tooltip } from "./plot.js";
import { seconds, windowBetween, WINDOWS } from "./route.js";
import { numbers, periods } from "./sheet.js";
import { code } from "./states.js";
import { shapes, tickOf } from "./time_chart.js";
import { stepOf } from "./time_rows.js";

const BINS = 40;
const HOUR_MS = 3_600_000;
const HALVES = 2; // times as long as half of the labels take: such a window has most of them
const GRID = { left: 58, right: 14, top: 12, bottom: 26, outerBoundsMode: "none" };

export class NoLabels {
  /** `toWindow(window)` returns the link to a window of the stream `name`. */
  constructor(name, signal, toWindow) {
    Object.assign(this, { name, toWindow });
    this.title = h("h2", { id: "no-data-title" });
    this.text = h("p");
    this.next = h("div");
    this.volume = new ChartCard(signal, { id: "volume", title: "Predictions an hour", shape: "wide" });
    this.scores = new ChartCard(signal, { id: "waiting-scores", title: "Scores of predictions without a label", shape: "wide" });
    this.element = h("div", { class: "cards" },
      h("section", { class: "state card wide", id: "no-data", "aria-labelledby": "no-data-title" }, this.title, this.text, this.next),
      h("div", { class: "pair" }, this.volume.element, this.scores.element));
  }

  /** Say what has come, and once it is known, what to do. */
  show(reader, { coverage }) {
    if (reader !== this.reader) Object.assign(this, { reader, halfS: null });
    const [predictions, expired, orphans] = ["predictions", "expired", "orphans"].map((each) => Number(coverage[each]));
    setText(this.title, `${count(predictions)} predictions, no label yet`);
    setText(this.text, [
      expired ? `${count(expired)} expired: their label did not come in time.` : "",
      orphans ? `${count(orphans)} labels came for ids that no prediction has: compare the ids of both.` : "",
      this.halfS ? `They are young: half of this stream's labels come within ${span(this.halfS)}.`
        : "AUC-PR and AUC-ROC appear with the first labels of both classes. Send them under the ids of the predictions:",
    ].filter(Boolean).join(" "));
  }

  /** Offer a window that has labels, where half of them come within `halfS` seconds; else what to send next, for 0. */
  async advise(halfS) {
    if (halfS === this.halfS) return;
    this.halfS = halfS;
    const [window, title] = WINDOWS.find(([key]) => key === "all" || seconds(key) >= HALVES * halfS);
    const next = halfS ? h("a", { class: "button", href: this.toWindow(window) }, `Show ${title.replace("All", "all")}`)
      : lines(this.name, await grpcAddress());
    redraw(this.next, () => fill(this.next, next));
  }

  async load(reader, snapshot) {
    const [[start, end], halfS] = await Promise.all([reader.span(snapshot), reader.delayS(snapshot, 0.5)]);
    await this.advise(Number.isFinite(halfS) && Date.now() - start < 1000 * HALVES * halfS ? halfS : 0);
    this.show(reader, snapshot);
    const [series, histogram] = await Promise.all([
      reader.read("windows", { step: `${stepOf((end - start) / 1000)}s`, metrics: "prevalence" }, reader.select(windowBetween(start, end), reader.segment)),
      reader.read("histogram", { bins: BINS, waiting: true }),
    ]);
    this.drawVolume(series.snapshots);
    this.drawScores(histogram);
  }

  drawVolume(snapshots) {
    const all = snapshots.map(({ window, coverage }) => {
      const [start, end] = [new Date(window.startTime), new Date(window.endTime)];
      const predictions = Number(coverage?.predictions ?? 0);
      return { start, end, predictions, hourly: (HOUR_MS * predictions) / (end - start) }; // steps may differ in length
    });
    const rows = all.slice(Math.max(0, all.findIndex((each) => each.predictions)));
    const ends = [rows[0].start.getTime(), rows.at(-1).end.getTime()];
    const highest = Math.max(...rows.map((each) => each.hourly)) || 1;
    this.volume.draw(`Predictions an hour in ${rows.length} steps of time. The table has the figures.`, (colours) => ({
      grid: GRID,
      xAxis: axis(colours, "", { type: "time", min: ends[0], max: ends[1], splitLine: { show: false },
        axisLabel: { color: colours.muted, fontSize: 11, hideOverlap: true, formatter: tickOf } }),
      yAxis: axis(colours, "", { type: "value", min: 0, max: ceiling(highest), splitNumber: 3, axisLine: { show: false },
        axisLabel: { color: colours.muted, fontSize: 11, hideOverlap: true, formatter: (value) => Number(value.toPrecision(3)).toLocaleString("en-US") } }),
      series: [shapes("predictions", rows, bar(colours))],
      tooltip: tooltip(colours, ([found]) => {
        const row = rows.find((each) => each.start <= found?.axisValue && found.axisValue < each.end);
        return row ? `${period(row.start, row.end)}\n${count(row.predictions)} predictions` : "";
      }),
    }), () => ({
      caption: `Predictions over time, the newest first; times are ${zone()}`,
      columns: [periods("From", (start) => moment(start)), numbers("Predictions", count)],
      rows: rows.toReversed().map((each) => [[each.start, each.end], each.predictions]),
    }));
  }

  drawScores({ edges, waiting }) {
    const counts = waiting.map(Number);
    const drawn = shares(counts);
    this.scores.element.hidden = !edges.length;
    if (!edges.length) return;
    this.scores.draw(`Histogram of the scores of ${count(counts.reduce((sum, each) => sum + each, 0))} predictions. The table has the counts.`, (colours) => ({
      grid: GRID,
      xAxis: scoreAxis(colours, "", edges),
      yAxis: axis(colours, "", { type: "value", min: 0, splitNumber: 3, axisLine: { show: false },
        axisLabel: { color: colours.muted, fontSize: 11, formatter: (value) => `${Math.round(100 * value)}%` } }),
      series: [steps("predictions", edges, drawn, colours.a, 0.25)],
      tooltip: tooltip(colours, ([found]) => {
        const bin = counts.findIndex((_, index) => found?.axisValue <= edges[index + 1]);
        return bin < 0 ? "" : `Score ${score(edges[bin])} to ${score(edges[bin + 1])}\n${count(counts[bin])} predictions, ${percent(drawn[bin])}`;
      }),
    }), () => ({
      caption: "Scores of predictions without a label",
      columns: [numbers("From", score), numbers("To", score), numbers("Predictions", count), numbers("Share", percent)],
      rows: counts.map((each, index) => [edges[index], edges[index + 1], each, drawn[index]]),
    }));
  }
}

/** What to send next, as Python. */
function lines(name, address) {
  return code([
    "from streameval.client import Client",
    `with Client("${address}") as client:`,
    `    client.stream("${name}").label("order-17", True)`,
  ].join("\n"));
}

/** The next number above with one digit that is not 0, so that the axis ends at a label. */
function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * Math.ceil(value / power);
}

function bar(colours) {
  return (each, api) => {
    const [left, top] = api.coord([each.start.getTime(), each.hourly]);
    const [right, bottom] = api.coord([each.end.getTime(), 0]);
    const gap = right - left > 4 ? 1 : 0;
    return { type: "rect", shape: { x: left, y: top, width: right - left - gap, height: bottom - top }, style: { fill: colours.negative } };
  };
}
