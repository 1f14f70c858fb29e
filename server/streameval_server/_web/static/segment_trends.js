// The steps of segments over time, which the table of segments draws.

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
 * {segment, rows, values, places}: the values of the rows, and their places in that time from 0 to 1.
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
  const { snapshots } = await reader.read("windows", { step, minPositives: positivesOf(Number(numPositiveRef)), metrics: [HEADLINE] },
    reader.select(windowBetween(start, end), segment));
  const rows = trimmed(snapshots, 0, Date.now()).rows.map((each) => ({ ...each, value: metric(each.snapshot, HEADLINE) }));
  return {
    segment, rows, values: rows.map(({ value }) => value.value),
    places: rows.map(({ middle }) => (middle - start) / (end - start)),
  };
}
