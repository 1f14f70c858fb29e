// The projected values of the immature end of a timeline: what its steps will read once their labels are in.

import { figure, interval, period } from "./format.js";
import { HEADLINE } from "./metrics.js";

/** Steps of time, each with its projected metric at the prevalence that it has. */
export function spansOf(snapshots) {
  return snapshots.map(({ window, projection }) => ({
    start: new Date(window.startTime), end: new Date(window.endTime),
    found: atOwnPrevalence({ projection }),
  }));
}

const REFUSALS = {
  PROJECTION_REFUSAL_TOO_FEW_MATURE: "fewer than 30 labels of a class are of a time whose labels are in",
  PROJECTION_REFUSAL_CLASS_NEVER_LABELLED: "a class is never labelled",
  PROJECTION_REFUSAL_BAND_NEVER_LABELLED: "scores of some height are hardly ever labelled",
  PROJECTION_REFUSAL_TOO_EARLY: "too few labels of the positives are there yet",
  PROJECTION_REFUSAL_TOO_FEW_EFFECTIVE: "the labelled positives are too few",
  PROJECTION_REFUSAL_FIT_FAILED: "the labels come slower or faster than before",
  PROJECTION_REFUSAL_OTHER_CASES: "there are cases that did not come as a prediction and its label",
  PROJECTION_REFUSAL_WEIGHTS_OR_CLUSTERS: "the cases have weights or clusters",
};

/** Why a metric is not projected, in words. */
export const refusalOf = ({ refusal }) => REFUSALS[refusal] ?? "it is not defined";

/** The projected headline of a snapshot, at the prevalence that it has. */
export const atOwnPrevalence = ({ projection }) =>
  projection.metrics.find((each) => each.name === HEADLINE && each.prevalence === undefined);

export const isProjected = ({ found }) => found?.projected !== undefined && found.interval?.lower !== undefined;

/** What is projected at a row of the timeline, in words; null where nothing is. */
export function projectedText(spans, row) {
  const span = spans.find((each) => each.start <= row.middle && row.middle < each.end);
  if (!span?.found) return null;
  if (!isProjected(span)) return span.found.reason ? `not projected: ${refusalOf(span.found)}` : null;
  const isWider = span.end - span.start > row.end - row.start;
  return `projected ${figure(span.found.projected)}, ${interval(span.found.interval)}${isWider ? `, of ${period(span.start, span.end)}` : ""}`;
}

/** Draw a span: its interval as an area, its projected value as a line across. */
export function projectedArea(colours) {
  return ({ start, end, found }, api) => {
    const [left, y] = api.coord([start.getTime(), found.projected]);
    const [right, top] = api.coord([end.getTime(), found.interval.upper]);
    const [, bottom] = api.coord([end.getTime(), found.interval.lower]);
    return {
      type: "group",
      children: [
        { type: "rect", shape: { x: left, y: top, width: right - left, height: bottom - top }, style: { fill: colours.hull, opacity: 0.22 } },
        { type: "line", shape: { x1: left, y1: y, x2: right, y2: y }, style: { stroke: colours.hull, lineWidth: 1.8, lineDash: [4, 3] } },
      ],
    };
  };
}
