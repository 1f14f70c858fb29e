// Histogram of the scores of each class, as shares of the class, with the threshold.

import { ChartCard } from "./card.js";
import { count, percent, score } from "./format.js";
import { axis, line, tooltip } from "./plot.js";
import { numbers } from "./sheet.js";

export class HistogramCard {
  constructor(signal) {
    this.card = new ChartCard(signal, {
      id: "histogram", title: "Scores by class", shape: "low",
      keys: [["bar positive", "positives"], ["bar negative", "negatives"], ["upright", "threshold"]],
      note: "Each class adds up to 100 %.",
    });
    this.element = this.card.element;
  }

  draw(histogram, threshold) {
    const isWeighted = histogram.weightedPositives.length > 0;
    const positives = (isWeighted ? histogram.weightedPositives : histogram.positives).map(Number);
    const negatives = (isWeighted ? histogram.weightedNegatives : histogram.negatives).map(Number);
    const [ofPositives, ofNegatives] = [positives, negatives].map(shares);
    const { edges } = histogram;
    const label = `Histogram of the scores of ${count(sum(positives))} positives and `
      + `${count(sum(negatives))} negatives in ${positives.length} bins. The table has the counts.`;
    return this.card.draw(label, (colours) => ({
      grid: { left: 48, right: 14, top: 12, bottom: 44 },
      xAxis: scoreAxis(colours, "Score", edges),
      yAxis: axis(colours, "Share of class", {
        type: "value", min: 0, nameLocation: "middle", nameGap: 34, axisLine: { show: false }, splitNumber: 4,
        axisLabel: { color: colours.muted, fontSize: 11, formatter: (value) => `${Math.round(100 * value)}%` },
      }),
      tooltip: tooltip(colours, (found) => tooltipText(edges, positives, negatives, found)),
      series: [
        steps("negatives", edges, ofNegatives, colours.negative, 0.35),
        { ...steps("positives", edges, ofPositives, colours.positive, 0.25), ...marker(threshold, colours) },
      ],
    }), () => ({
      caption: "Scores by class",
      columns: [numbers("From", score), numbers("To", score), numbers("Positives", count), numbers("Share of positives", percent),
        numbers("Negatives", count), numbers("Share of negatives", percent)],
      rows: positives.map((_, index) => [edges[index], edges[index + 1],
        positives[index], ofPositives[index], negatives[index], ofNegatives[index]]),
    }));
  }
}

export function scoreAxis(colours, name, edges) {
  return axis(colours, name, {
    type: "value", min: edges[0], max: edges.at(-1), nameLocation: "middle", nameGap: 28,
    splitLine: { show: false },
    axisLabel: {
      color: colours.muted, fontSize: 11, hideOverlap: true, showMinLabel: false, showMaxLabel: false,
      formatter: (value) => String(Number(value.toPrecision(3))),
    },
  });
}

const sum = (counts) => counts.reduce((total, each) => total + each, 0);

export function shares(counts) {
  const total = sum(counts);
  return counts.map((each) => (total ? each / total : 0));
}

/** A histogram's outline: constant within each bin. */
export function steps(name, edges, values, colour, opacity) {
  const outline = [[edges[0], 0]];
  values.forEach((value, index) => outline.push([edges[index], value], [edges[index + 1], value]));
  outline.push([edges.at(-1), 0]);
  return line(name, outline, colour, { lineStyle: { width: 1.4 }, areaStyle: { color: colour, opacity } });
}

function marker(threshold, colours) {
  if (!Number.isFinite(threshold)) return {};
  return {
    markLine: {
      symbol: "none", silent: true, animation: false, label: { show: false },
      lineStyle: { color: colours.mark, width: 1.6, type: "solid" }, data: [{ xAxis: threshold }],
    },
  };
}

function tooltipText(edges, positives, negatives, found) {
  const at = found[0]?.axisValue;
  const bin = positives.findIndex((_, index) => at <= edges[index + 1]);
  if (bin < 0) return "";
  return [
    `Score ${score(edges[bin])} to ${score(edges[bin + 1])}`,
    `${count(positives[bin])} positives`,
    `${count(negatives[bin])} negatives`,
  ].join("\n");
}
