// The PR and ROC charts of one stream, or of two in one chart.

import { ChartCard } from "./card.js";
import { count, figure, percent, score } from "./format.js";
import { minPrecision, prPath, prPoint, prVertices, rocPath } from "./geometry.js";
import { line, names, tooltip, unitAxis } from "./plot.js";
import { numbers, words } from "./sheet.js";

const GRID = { left: 48, right: 14, top: 12, bottom: 44 };

/** PR curve: measured, achievable, at random, and the region that no ranking can reach. */
export class PrCard {
  constructor(signal) {
    this.card = new ChartCard(signal, {
      id: "pr", title: "Precision and recall", shape: "square",
      note: "Between thresholds the curve is not straight: false positives grow evenly, precision does not. "
        + "The achievable curve chooses its thresholds on these same cases, so it is optimistic.",
    });
    this.element = this.card.element;
  }

  draw({ curve, hull, positives, negatives, chosen }) {
    const prevalence = positives / (positives + negatives);
    const path = prPath(curve, positives);
    const best = prPath(hull, positives);
    const vertices = prVertices(hull, positives);
    const at = chosen && prPoint(chosen.fp, chosen.tp, positives);
    const label = `Precision against recall for ${count(positives)} positives and ${count(negatives)} `
      + `negatives; prevalence ${percent(prevalence)}.`;
    return this.card.draw(label, (colours) => ({
      grid: GRID,
      xAxis: unitAxis(colours, "Recall", { nameGap: 28 }),
      yAxis: unitAxis(colours, "Precision", { nameGap: 34 }),
      tooltip: tooltip(colours, (found) => tooltipText(found, "Recall", "Precision")),
      series: [
        line("unachievable", minPrecision(prevalence), colours.region,
          { lineStyle: { width: 0 }, areaStyle: { color: colours.region, opacity: 1 } }),
        line("at random", [[0, prevalence], [1, prevalence]], colours.muted,
          { lineStyle: { width: 1.2, type: [5, 4] } }),
        line("achievable", best, colours.hull, { lineStyle: { width: 1.6 } }),
        dots("vertices", vertices, colours.hull, 5),
        line("measured", path, colours.a, { lineStyle: { width: 2.2 } }),
        names(colours, prNames(colours, path, best, prevalence)),
        ...mark(at, colours),
      ],
    }), () => pointSheet({ curve, hull, positives, negatives }), () => ({
      caption: "Vertices of the achievable curve",
      columns: [numbers("Threshold", score), numbers("Recall", figure), numbers("Precision", figure)],
      rows: vertices.map(([recall, precision, index]) => [hull.thresholds[index], recall, precision]),
    }));
  }
}

/** ROC curve and its hull. */
export class RocCard {
  constructor(signal) {
    this.card = new ChartCard(signal, {
      id: "roc", title: "ROC", shape: "square",
      note: "Each corner of the hull is the best threshold for some ratio of costs.",
    });
    this.element = this.card.element;
  }

  draw({ curve, hull, positives, negatives, chosen }) {
    const vertices = rocPath(hull, positives, negatives);
    const path = rocPath(curve, positives, negatives);
    const at = chosen && [chosen.fp / negatives, chosen.tp / positives];
    const label = `True positive rate against false positive rate; the hull has ${vertices.length} vertices.`;
    return this.card.draw(label, (colours) => ({
      grid: GRID,
      xAxis: unitAxis(colours, "False positive rate", { nameGap: 28 }),
      yAxis: unitAxis(colours, "True positive rate", { nameGap: 34 }),
      tooltip: tooltip(colours, (found) => tooltipText(found, "False positive rate", "True positive rate")),
      series: [
        line("at random", [[0, 0], [1, 1]], colours.muted, { lineStyle: { width: 1.2, type: [5, 4] } }),
        line("achievable", vertices, colours.hull, { lineStyle: { width: 1.6 } }),
        dots("vertices", vertices, colours.hull, 5),
        line("measured", path, colours.a, { lineStyle: { width: 2.2 } }),
        names(colours, rocNames(colours, path)),
        ...mark(at, colours),
      ],
    }), () => pointSheet({ curve, hull, positives, negatives }), () => ({
      caption: "Vertices of the ROC hull",
      columns: [numbers("Threshold", score), numbers("FPR", figure), numbers("TPR", figure), numbers("FP", count), numbers("TP", count)],
      rows: vertices.map(([fpr, tpr, index]) => [hull.thresholds[index], fpr, tpr, hull.fp[index], hull.tp[index]]),
    }));
  }
}

/** Where a path crosses the line from 0 with a slope. */
const crossing = (path, slope) => path.findLast(([x, y]) => y >= slope * x) ?? path[0];

const ROOM = 0.25; // of an axis, for a name left of a point

function prNames(colours, path, best, prevalence) {
  const [x, y] = crossing(path, 1);
  return [
    { text: "measured", at: [x, y], colour: colours.a, ...(x < ROOM ? { side: "right", up: 14 } : { side: "left", up: -8 }) },
    { text: "achievable", at: crossing(best, 2), colour: colours.hull, side: "right", up: 4 },
    { text: "at random", at: [0, prevalence], colour: colours.muted, side: "right", up: 8 },
    { text: "unachievable", at: [1, 0], colour: colours.muted, side: "left", up: 7 },
  ];
}

function rocNames(colours, path) {
  const [x, y] = path.find((each) => each[0] + each[1] >= 1) ?? path.at(-1);
  return [
    { text: "measured", at: [x, y], colour: colours.a, side: "right", up: -8 },
    { text: "hull", at: [x, y], colour: colours.hull, side: "right", up: -24 },
    { text: "at random", at: [0.35, 0.35], colour: colours.muted, side: "right", up: -8 },
  ];
}

/** The operating points of a curve, which both charts draw, and whether each is a vertex of the hull. */
function pointSheet({ curve, hull, positives, negatives }) {
  const vertices = new Set(hull.thresholds);
  return {
    caption: "Operating points",
    columns: [numbers("Threshold", score), numbers("TP", count), numbers("FP", count), numbers("Recall", figure),
      numbers("Precision", figure), numbers("FPR", figure), words("On the hull")],
    rows: curve.thresholds.map((threshold, index) => {
      const [tp, fp] = [curve.tp[index], curve.fp[index]];
      return [threshold, tp, fp, tp / positives, tp + fp ? tp / (tp + fp) : null, fp / negatives, vertices.has(threshold) ? "yes" : ""];
    }),
  };
}

function dots(name, data, colour, size) {
  return {
    name, data, type: "scatter", symbol: "circle", symbolSize: size, silent: true,
    itemStyle: { color: colour }, tooltip: { show: false },
  };
}

function mark(at, colours) {
  if (!at) return [];
  return [{
    name: "threshold", data: [at], type: "scatter", symbol: "circle", symbolSize: 12, silent: true, z: 5,
    itemStyle: { color: colours.surface, borderColor: colours.mark, borderWidth: 2.5 },
  }];
}

function tooltipText(found, across, up, names = ["measured", "achievable"]) {
  const lines = found.filter((each) => names.includes(each.seriesName));
  if (!lines.length) return "";
  return [
    `${across} ${figure(lines[0].value[0])}`,
    ...lines.map((each) => `${up} ${figure(each.value[1])}  ${each.seriesName}`),
  ].join("\n");
}

/** Two curves in one chart; sides are {curve, positives, negatives, skew}. */
export class Overlay {
  constructor(signal, { id, title }) {
    this.card = new ChartCard(signal, { id, title, shape: "square" });
    this.element = this.card.element;
  }

  /** Set what the sides are called. */
  name(a, b) {
    this.names = [a, b];
    this.card.legend([["line a", a], ["line dash b", b]]);
  }

  draw(sides, { across, up, path, floor }) {
    const drawn = sides.map(path);
    const [a, b] = this.names;
    return this.card.draw(`${up} against ${across} of ${a} and ${b}.`, (colours) => ({
      grid: GRID,
      xAxis: unitAxis(colours, across, { nameGap: 28 }),
      yAxis: unitAxis(colours, up, { nameGap: 34 }),
      tooltip: tooltip(colours, (found) => tooltipText(found, across, up, [a, b])),
      series: [
        line("at random", floor, colours.muted, { lineStyle: { width: 1.2, type: [5, 4] } }),
        line(a, drawn[0], colours.a, { lineStyle: { width: 2.2 } }),
        line(b, drawn[1], colours.b, { lineStyle: { width: 2.2, type: [8, 4] } }),
      ],
    }), () => ({
      caption: `${up} against ${across.toLowerCase()}`,
      columns: [words("Side"), numbers(across, figure), numbers(up, figure)],
      rows: drawn.flatMap((points, side) => points.map(([x, y]) => [this.names[side], x, y])),
    }), () => ({
      caption: `${up} at each tenth of ${across.toLowerCase()}`,
      columns: [numbers(across, (value) => figure(value, 1)), numbers(a, figure), numbers(b, figure)],
      rows: Array.from({ length: 11 }, (_, index) => [index / 10, ...drawn.map((each) => nearest(each, index / 10))]),
    }));
  }
}

function nearest(path, at) {
  let best = path[0];
  for (const each of path) if (Math.abs(each[0] - at) < Math.abs(best[0] - at)) best = each;
  return best?.[1];
}
