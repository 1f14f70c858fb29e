// A change in a time chart: when it began, between which times, since when it is over, and the levels before and after.

import { moment } from "./format.js";
import { qualityOf } from "./verdict.js";

/**
 * The change of a verdict: {earliest, likeliest, latest, ended, before, after, isBetter} as times and values, where
 * `ended` is null unless it is back; null without one.
 */
export function changeOf(verdict) {
  const found = verdict?.figures[0];
  if (!verdict?.since || found?.before?.estimate === undefined || found.now?.estimate === undefined) return null;
  const [earliest, likeliest, latest] = ["earliest", "likeliest", "latest"].map((name) => new Date(verdict.since[name]).getTime());
  const ended = verdict.returned ? new Date(verdict.returned.likeliest).getTime() : null;
  return { earliest, likeliest, latest, ended, before: found.before.estimate, after: found.now.estimate, isBetter: qualityOf(verdict) === "better" };
}

/** Its colour, and the colour of what is now. */
const coloursOf = (colours, { ended, isBetter }) => {
  const changed = isBetter ? colours.good : colours.alarm;
  return [changed, ended === null ? changed : colours.good];
};

/** Draws a change in a chart between two times. */
export function changeShape(colours, [start, end]) {
  return (change, api, box) => {
    const { earliest, likeliest, latest, ended, before, after } = change;
    const [changed, now] = coloursOf(colours, change);
    const x = (time) => api.coord([Math.min(end, Math.max(start, time)), 0])[0];
    const level = (from, to, value, stroke, lineDash) => {
      const y = api.coord([start, value])[1];
      return { type: "line", shape: { x1: x(from), y1: y, x2: x(to), y2: y }, style: { stroke, lineWidth: 1.8, lineDash } };
    };
    const span = (from, to, opacity) => (to > start && from < end ? [{ type: "rect",
      shape: { x: x(from), y: box.y, width: Math.max(1, x(to) - x(from)), height: box.height }, style: { fill: changed, opacity } }] : []);
    const upright = (time, stroke) => (time > start && time < end ? [{ type: "line",
      shape: { x1: x(time), y1: box.y, x2: x(time), y2: box.y + box.height }, style: { stroke, lineWidth: 1.4 } }] : []);
    const children = [level(ended ?? likeliest, end, after, now, null), ...span(earliest, latest, 0.13), ...upright(likeliest, changed)];
    if (likeliest > start) children.push(level(start, likeliest, before, changed, [6, 4]));
    if (ended !== null) children.push(...span(likeliest, ended, 0.07), ...upright(ended, now));
    return { type: "group", children };
  };
}

/** What it is called in a chart between two times, as `names` takes it; `sideOf(time)` has room for it. */
export function changeNames(colours, change, [start, end], sideOf) {
  const [changed, now] = coloursOf(colours, change);
  const name = (words, time, value, colour) => {
    const at = Math.max(start, time);
    return time < end ? [{ text: `${words} ${moment(new Date(time))}`, at: [at, value], colour, side: sideOf(at), up: -10 }] : [];
  };
  const { likeliest, ended, before, after } = change;
  if (ended === null) return name("since", likeliest, after, changed);
  return [...(ended > start ? name("since", likeliest, before, changed) : []), ...name("back since", ended, after, now)];
}
