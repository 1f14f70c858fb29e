// The steps of a time chart: how wide they are, how many positives each has, what is known of each.

const STEPS_S = [60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800];
const TARGET_ROWS = 60;
const MIN_ROWS = 12; // with fewer rows a finer step is tried
const PROJECTED_ROWS = 12; // a projection needs more labels than a row has
const SPARSE_STEPS = 6; // of few positives there are this many steps, and they are faint
export const MIN_POSITIVES = 20; // of a step: with fewer its figures say little

/** The narrowest step that cuts a span into about 60 rows. */
export function stepOf(seconds, rows = TARGET_ROWS) {
  return STEPS_S.find((step) => step >= seconds / rows) ?? STEPS_S.at(-1);
}

/** How many positives a step waits for: 20, or fewer where so few would leave no chart. */
export const positivesOf = (total) => Math.max(1, Math.min(MIN_POSITIVES, Math.floor(total / SPARSE_STEPS)));

/** The span of the rows from the first immature one on, and the step to project it by; null without one. */
export function immatureSpan(rows) {
  const first = rows.find((each) => each.isImmature);
  if (!first) return null;
  const [start, end] = [first.start, rows.at(-1).end];
  return { start, end, step: stepOf((end - start) / 1000, PROJECTED_ROWS) };
}

/** The rows from the first one that is not empty, and whether a finer step would show more. */
export function trimmed(snapshots, delayS, now) {
  const rows = snapshots.map((each) => row(each, delayS, now));
  const first = rows.findIndex((each) => !each.isEmpty);
  const kept = first < 0 ? [] : rows.slice(first);
  return { rows: kept, isShort: first > 0 && kept.length < MIN_ROWS };
}

// Immature: more than a tenth of its predictions are unlabelled, and it is younger than the 90 % label delay.
function row(snapshot, delayS, now) {
  const start = new Date(snapshot.window.startTime);
  const end = new Date(snapshot.window.endTime);
  const middle = (start.getTime() + end.getTime()) / 2;
  const coverage = snapshot.coverage;
  const expected = coverage ? Number(coverage.predictions) - Number(coverage.retracted) : 0;
  const positives = Number(snapshot.numPositiveRef);
  return {
    start, end, middle, snapshot, positives,
    negatives: Number(snapshot.numNegativeRef),
    coverage: expected > 0 ? coverage.labelledShare ?? 0 : null,
    isImmature: expected > 0 && Number(coverage.pending) > expected / 10 && (now - middle) / 1000 < delayS,
    isEmpty: snapshot.numPositiveRef === "0" && snapshot.numNegativeRef === "0" && !expected,
    isFew: positives < MIN_POSITIVES,
  };
}

/** The row that holds a time, in milliseconds; the nearest one outside of all. */
export function rowAt(rows, time) {
  return rows.find((each) => each.start <= time && time < each.end) ?? (time < rows[0]?.start ? rows[0] : rows.at(-1));
}
