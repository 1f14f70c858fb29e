// A small chart without axes: the headline over time, on a scale that all small charts beside it share.

import { svg } from "./dom.js";
import { figure, titleOf } from "./format.js";
import { HEADLINE } from "./metrics.js";

const [WIDTH, HEIGHT] = [100, 24];
const PAD = 3; // room for the last point
const MIN_RANGE = 0.1; // so that noise does not look like a change

/** The scale of several series, each an array of values or undefined, and of the bands behind them. */
export function scaleOf(series, bands = []) {
  const all = [...series.flat(), ...bands.flatMap((each) => (each ? [each.lower, each.upper] : []))].filter((each) => each !== undefined);
  if (!all.length) return null;
  const [least, most] = [Math.min(...all), Math.max(...all)];
  const aside = Math.max(0, MIN_RANGE - (most - least)) / 2;
  return { low: least - aside, high: most + aside };
}

/**
 * The values of a series as a line; null where fewer than two are known.
 *
 * A gap is bridged by a dotted line. `places` has the place of each value from 0 to 1; without it they are
 * evenly apart. `band` has the limits {lower, upper} of what the series is compared with.
 */
export function sparkline(values, { places = null, scale = null, band = null } = {}) {
  const x = (index) => PAD + (WIDTH - 2 * PAD) * (places ? places[index] : index / (values.length - 1));
  const known = values.flatMap((value, index) => (value === undefined ? [] : [{ value, index }]));
  if (known.length < 2) return null;
  const { low, high } = scale ?? scaleOf([values], [band]);
  const y = (value) => PAD + ((HEIGHT - 2 * PAD) * (high - value)) / (high - low);
  const at = ({ value, index }) => [x(index), y(value)];
  const [first, last] = [known[0], known.at(-1)];
  return svg("svg", { class: "sparkline", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, role: "img",
    "aria-label": `${titleOf(HEADLINE)} from ${figure(first.value)} to ${figure(last.value)}` },
  band && svg("rect", { class: "base", x: 0, width: WIDTH, y: y(band.upper), height: Math.max(1, y(band.lower) - y(band.upper)) }),
  runsOf(known).flatMap((run, index, runs) => [
    index ? svg("polyline", { class: "gap", points: pointsOf([runs[index - 1].at(-1), run[0]].map(at)) }) : null,
    run.length > 1 ? svg("polyline", { points: pointsOf(run.map(at)) }) : svg("circle", { class: "lone", cx: x(run[0].index), cy: y(run[0].value), r: 1.2 }),
  ]),
  svg("circle", { cx: x(last.index), cy: y(last.value), r: 2.5 }));
}

/** Runs of values without a gap between them. */
function runsOf(known) {
  const runs = [];
  known.forEach((each, position) => {
    if (!position || known[position - 1].index !== each.index - 1) runs.push([]);
    runs.at(-1).push(each);
  });
  return runs;
}

const pointsOf = (ends) => ends.map((each) => each.map((end) => end.toFixed(1)).join(",")).join(" ");
