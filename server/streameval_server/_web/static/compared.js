// What is said of two sides that are not a pair: windows or segments of one stream, or two streams, whose cases differ.

import { fill, h } from "./dom.js";
import { figure, interval, percent, period, pValue, reason, rocWords, signed } from "./format.js";
import { between, WINDOWS } from "./route.js";

/** Fill the card of two sides. `name` is the metric's title. */
export function showCompared(element, answer, sides, name) {
  const names = namesOf(sides);
  if (sides.a.stream === sides.b.stream) fill(element, ...ranked(answer, names, name));
  else fill(element, ...unranked(answer, names, name));
}

/** Two parts of one stream: which is better, by how much. */
function ranked(answer, [nameA, nameB], name) {
  return [h("h2", { id: "result-title" }, verdict(answer, name, nameA, nameB)),
    h("dl", { class: "headline compared" },
      sideCell("a", `${nameA}: ${name}`, answer.a), sideCell("b", `${nameB}: ${name}`, answer.b),
      ...differenceCells(answer.difference, answer.pValue, `${nameA} minus ${nameB}`)),
    h("p", { class: "note" }, [`Above 0, ${nameA} is better.`, notes(answer, nameA, nameB), rocWords(answer.aucRoc)].filter(Boolean).join(" "))];
}

/** Two streams that share no ids: both values, and what their difference would mean. */
function unranked(answer, [nameA, nameB], name) {
  const { value, interval: limits } = answer.difference;
  const turned = value === undefined ? answer.difference
    : { value: -value, interval: limits?.lower === undefined ? limits : { lower: -limits.upper, upper: -limits.lower } };
  return [h("h2", { id: "result-title" }, "Different cases, so not ranked"),
    h("p", { class: "why" }, `${nameA} and ${nameB} are not compared on the same ids: one may be higher because its cases are easier.`
      + (answer.prevalence === undefined ? "" : ` Both values are at a prevalence of ${percent(answer.prevalence)}, the greater of the two.`)),
    h("dl", { class: "headline compared" }, sideCell("a", `${nameA}: ${name}`, answer.a), sideCell("b", `${nameB}: ${name}`, answer.b)),
    h("details", { id: "if-random" }, h("summary", {}, "If both are random parts of one traffic"),
      h("dl", { class: "headline compared" }, differenceCells(turned, answer.pValue, `${nameB} minus ${nameA}`)),
      h("p", { class: "note" }, `Above 0, ${nameB} is better. ${notes(answer, nameA, nameB)}`))];
}

const cell = (kind, heading, value, more) =>
  h("div", { class: kind }, h("dt", {}, heading), h("dd", { class: "value", id: `result-${kind}` }, value), h("dd", { class: "more" }, more));

const sideCell = (kind, heading, found) =>
  cell(kind, heading, figure(found.value), found.value === undefined ? reason(found) : interval(found.interval) ?? "–");

function differenceCells({ value, interval: limits }, p, heading) {
  return [cell("difference", heading, signed(value),
    limits?.lower === undefined ? "no interval" : `${signed(limits.lower)} to ${signed(limits.upper)}`),
  cell("p", "p-value", pValue(p), "two-sided")];
}

function verdict({ difference }, name, nameA, nameB) {
  const limits = difference.interval;
  if (difference.value === undefined) return `${name} cannot be compared: ${reason(difference)}`;
  if (limits?.lower === undefined) return "Too few cases for an interval of the difference";
  if (limits.lower > 0) return `${nameA} is better than ${nameB} by ${figure(difference.value)}`;
  if (limits.upper < 0) return `${nameB} is better than ${nameA} by ${figure(-difference.value)}`;
  return "No significant difference";
}

/** What tells the sides apart: the streams' names, or the windows, or the segments; all of it where more differs. */
export function namesOf({ a, b }) {
  const windowOf = ({ window }) => {
    const ends = between(window);
    return WINDOWS.find(([key]) => key === window)?.[1] ?? (ends ? period(...ends) : window);
  };
  const segmentOf = ({ segment: chosen }) => chosen || "all segments";
  const differs = (read) => read(a) !== read(b);
  const parts = [(side) => side.stream, windowOf, segmentOf].filter(differs);
  const shown = parts.length ? parts : [(side) => side.stream];
  const names = [a, b].map((side) => shown.map((read) => read(side)).join(" · "));
  return names[0] === names[1] ? names.map((name, index) => `${name} (${"AB"[index]})`) : names;
}

export function notes(answer, nameA, nameB) {
  const when = (window) => (window
    ? period(new Date(window.startTime), new Date(window.endTime)) : "all time");
  return [
    `${nameA}: ${when(answer.windowA)}. ${nameB}: ${when(answer.windowB)}${answer.complement ? `, without ${nameA}` : ""}.`,
    answer.prevalence === undefined ? "" : `Both at a prevalence of ${percent(answer.prevalence)}, the greater of the two.`,
    "95 % intervals; cases are assumed to be independent.",
  ].filter(Boolean).join(" ");
}
