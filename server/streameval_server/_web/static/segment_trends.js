// The steps of segments over time, which the table of segments draws, and since when a segment is lower.

import { metric } from "./api.js";
import { segmentName } from "./format.js";
import { HEADLINE } from "./metrics.js";
import { windowBetween } from "./route.js";
import { positivesOf, stepOf, trimmed } from "./time_rows.js";

const MAX_SEGMENTS = 24; // a question to the server each
const AT_ONCE = 6;
const TARGET_ROWS = 24;

/**
 * Load the steps of the first segments of a ranking, in the time since `first`; return by name
 * {segment, rows, values, places, fall}: the values of the rows, their places in that time from 0 to 1, and
 * undefined or {since, by, range, warnings}.
 */
export async function loadTrends(reader, snapshot, ranked, first) {
  const [start, end] = await reader.span(snapshot);
  const chosen = ranked.filter((each) => each.value.value !== undefined).slice(0, MAX_SEGMENTS);
  const trends = [];
  for (let at = 0; at < chosen.length; at += AT_ONCE) {
    trends.push(...await Promise.all(chosen.slice(at, at + AT_ONCE).map((each) => loadOne(reader, each, first ?? start, end))));
  }
  return new Map(trends.map((each) => [segmentName(each.segment), each]));
}

async function loadOne(reader, { segment, numPositiveRef }, start, end) {
  const step = `${stepOf((end - start) / 1000, TARGET_ROWS)}s`;
  const { snapshots, fall } = await reader.read("windows", { step, minPositives: positivesOf(Number(numPositiveRef)), metrics: [HEADLINE] },
    reader.select(windowBetween(start, end), segment));
  const rows = trimmed(snapshots, 0, Date.now()).rows.map((each) => ({ ...each, value: metric(each.snapshot, HEADLINE) }));
  return {
    segment, rows, values: rows.map(({ value }) => value.value),
    places: rows.map(({ middle }) => (middle - start) / (end - start)), fall: fall && fallOf(fall),
  };
}

const fallOf = ({ difference, step, since, warnings = [] }) => ({
  by: difference, since: new Date(step.startTime), range: [since.startTime, since.endTime].map((at) => new Date(at)), warnings,
});
