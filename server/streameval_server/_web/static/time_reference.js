// What a window is compared with: the time that alarms compare with, or else the time before of the same length.

import { metric } from "./api.js";
import { period } from "./format.js";
import { HEADLINE } from "./metrics.js";
import { windowBetween } from "./route.js";

/** The headline's {value, lower, upper, title} in the reference of a snapshot's window; null where there is none. */
export async function referenceOf(reader, { window }, status) {
  const ends = endsOf(window, status);
  if (!ends) return null;
  const { snapshot } = await reader.read("snapshot", { metrics: [HEADLINE] }, reader.select(windowBetween(...ends), reader.segment));
  const { value, interval } = metric(snapshot, HEADLINE);
  if (interval?.lower === undefined) return null;
  const covered = period(new Date(snapshot.window.startTime), new Date(snapshot.window.endTime));
  return { value, lower: interval.lower, upper: interval.upper, title: `${status ? "reference" : "before"}: ${covered}` };
}

function endsOf(window, status) {
  if (status) {
    const [start, end] = [new Date(status.reference.startTime), new Date(status.reference.endTime)];
    return status.state === "ALARM_STATE_WAITING" ? null : [start, end];
  }
  if (!window) return null;
  const [start, end] = [new Date(window.startTime), new Date(window.endTime)];
  return [new Date(2 * start - end), start];
}
