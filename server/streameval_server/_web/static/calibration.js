// Whether scores are probabilities: observed rate against mean score by bin, and the figures of it.

import { ChartCard } from "./card.js";
import { fill, h, setText } from "./dom.js";
import { count, figure, interval, reason, score, titleOf } from "./format.js";
import { axis, line, tooltip, unitAxis } from "./plot.js";
import { intervals, numbers } from "./sheet.js";

const GRID = { left: 52, right: 14, top: 12, bottom: 44 };
const SIZES = [6, 14]; // of a point, in pixels, for no case and for all

export class CalibrationCard {
  constructor(signal) {
    this.card = new ChartCard(signal, {
      id: "calibration", title: "Calibration", shape: "low",
      keys: [["line a", "observed rate, 95 % interval"], ["dashed", "calibrated"]],
      note: "Below the line scores are too high. A larger point has more cases. Chance alone gives calibrated scores "
        + "an error, too: its interval reaches 0 where chance explains it.",
    });
    this.element = this.card.element;
    this.summary = h("p", { class: "summary", id: "calibration-counts" });
    this.figures = h("dl", { class: "headline calibration" });
    this.card.plotted.before(this.summary, this.figures);
    this.axes = h("select", { id: "calibration-axes", onchange: () => this.plot() },
      h("option", { value: "linear" }, "linear"), h("option", { value: "log" }, "logarithmic"));
    this.card.heading.after(h("div", { class: "kind" }, h("label", { for: "calibration-axes" }, "axes"), this.axes));
  }

  /** Draw an answer. */
  draw(answer) {
    const bins = answer.bins.map(({ meanScore, observedRate, ...bin }) => ({ ...bin, at: [meanScore, observedRate] }));
    const cases = bins.reduce((total, bin) => total + bin.cases, 0);
    setText(this.summary, `${count(answer.observedPositives)} of ${count(cases)} scored cases are positive; by their scores `
      + `${count(Number(answer.expectedPositives.toFixed(1)))} were expected.`);
    this.show(answer.metrics);
    this.bins = bins;
    this.plot();
  }

  plot() {
    const { bins } = this;
    const label = `Observed rate against mean score in ${bins.length} bins of scores. The table has the figures.`;
    this.card.draw(label, (colours) => option(colours, bins, this.axes.value === "log"), () => ({
      caption: "Calibration by score",
      columns: [numbers("From", score), numbers("To", score), numbers("Cases", count), numbers("Positives", count),
        numbers("Mean score", figure), numbers("Observed rate", figure), intervals("95 % interval")],
      rows: bins.map((bin) => [bin.lower, bin.upper, bin.cases, bin.positives, ...bin.at, bin.interval]),
    }));
  }

  show(metrics) {
    if (!this.figures.childElementCount) {
      this.cells = metrics.map(({ name }) => [
        h("dt", {}, titleOf(name)), h("dd", { class: "value", id: `calibration-${name}` }),
        h("dd", { class: "more", id: `calibration-more-${name}` }),
      ]);
      fill(this.figures, this.cells.map((cells) => h("div", {}, cells)));
    }
    metrics.forEach((found, index) => {
      const [, value, more] = this.cells[index];
      setText(value, found.value === undefined ? "–" : figure(Number(found.value))); // infinite numbers are texts
      setText(more, found.value === undefined ? reason(found) : found.interval
        ? interval(found.interval) ?? `no interval: ${reason(found.interval)}` : "");
    });
  }
}

function option(colours, bins, isLog) {
  const cases = bins.reduce((total, bin) => total + bin.cases, 0);
  const top = isLog ? 1 : topOf(Math.max(...bins.flatMap(({ at, interval: limits }) => [...at, limits?.upper ?? 0])));
  const lowest = Math.min(0.5, ...bins.flatMap(({ at }) => at).filter((each) => each > 0)) / 2;
  const floor = isLog ? lowest : 0;
  const within = (value) => Math.max(value, floor);
  const limited = bins.filter(({ interval: limits }) => limits?.lower !== undefined);
  const whiskers = limited.flatMap(({ at, interval: limits }) =>
    [[at[0], within(limits.lower)], [at[0], limits.upper], ["-", "-"]]);
  const points = bins.filter(({ at }) => at[1] > 0 || !isLog);
  const size = (bin) => SIZES[0] + (SIZES[1] - SIZES[0]) * Math.sqrt(bin.cases / cases);
  const side = (name, nameGap) => (isLog ? logAxis(colours, name, floor, nameGap) : unitAxis(colours, name, { nameGap, max: top, interval: top / 5, axisLabel: labels(colours) }));
  return {
    grid: GRID,
    xAxis: side("Mean score", 28),
    yAxis: side("Observed rate", 38),
    tooltip: { ...tooltip(colours, ({ data }) => tooltipText(data.bin)), trigger: "item" },
    series: [
      line("calibrated", [[floor, floor], [top, top]], colours.muted, { lineStyle: { width: 1.2, type: [5, 4] } }),
      line("intervals", whiskers, colours.a, { lineStyle: { width: 1.4, opacity: 0.6 } }),
      line("observed", points.map(({ at }) => at.map(within)), colours.a, { lineStyle: { width: 1.2, opacity: 0.6 } }),
      {
        name: "bins", type: "scatter", symbol: "circle", z: 4, itemStyle: { color: colours.a },
        data: points.map((bin) => ({ value: bin.at.map(within), symbolSize: size(bin), bin })),
      },
      {
        name: "bins without positives", type: "scatter", symbol: "circle", symbolSize: 8, z: 4,
        itemStyle: { color: colours.surface, borderColor: colours.a, borderWidth: 1.8 },
        data: bins.filter((bin) => !points.includes(bin)).map((bin) => ({ value: bin.at.map(within), bin })),
      },
    ],
  };
}

/** Where linear axes end: at 1, or of rare positives at 1, 2 or 5 times a power of ten. */
function topOf(highest) {
  const power = 10 ** Math.floor(Math.log10(Math.min(1, Math.max(1e-6, highest))));
  return [1, 2, 5, 10].map((each) => each * power).find((each) => each >= highest * 0.999) ?? 1;
}

const labels = (colours) => ({
  color: colours.muted, fontSize: 11, hideOverlap: true, formatter: (value) => String(Number(value.toPrecision(2))),
});

function logAxis(colours, name, min, nameGap) {
  return axis(colours, name, {
    type: "log", min, max: 1, nameLocation: "middle", nameGap,
    axisLabel: { ...labels(colours), showMinLabel: false },
  });
}

function tooltipText(bin) {
  return [
    `Score ${score(bin.lower)} to ${score(bin.upper)}, mean ${figure(bin.at[0])}`,
    `${count(bin.positives)} of ${count(bin.cases)} positive: ${figure(bin.at[1])}`,
    `interval ${interval(bin.interval) ?? "–"}`,
  ].join("\n");
}
