// The small charts of the list: the headline over the window, read for the rows that are shown.

import { get } from "./api.js";
import { svg } from "./dom.js";
import { figure, titleOf } from "./format.js";
import { HEADLINE } from "./metrics.js";

const STEPS = 24;
const STREAMS_PER_CALL = 10; // so that the first charts come before the last
const MAX_AGE_MS = 60_000; // a window moves though its stream does not change
const MIN_AGE_MS = 5_000;
const PAUSE_MS = 1_000;
const MIN_RANGE = 0.1; // so that noise does not look like a change

export class Sparklines {
  /** `drawn` is called with the name of each stream whose series was read. */
  constructor(signal, drawn, failed) {
    Object.assign(this, { signal, drawn, failed, series: new Map(), wanted: [], window: null, isReading: false });
  }

  /** The series of a stream; undefined until it was read. */
  of(name) {
    return this.series.get(name)?.values;
  }

  /** Read the series of these streams, in this order: `streams` are {name, revision}. */
  show(streams, windowSeconds) {
    if (this.window !== windowSeconds) this.series.clear();
    this.window = windowSeconds;
    this.wanted = windowSeconds ? streams : [];
    if (!this.isReading) this.read();
  }

  due() {
    const now = performance.now();
    return this.wanted.filter(({ name, revision }) => {
      const found = this.series.get(name);
      const age = found ? now - found.readMs : Infinity;
      return age > MAX_AGE_MS || (age > MIN_AGE_MS && found.revision !== revision);
    });
  }

  async read() {
    this.isReading = true;
    try {
      for (let due = this.due(); due.length && !this.signal.aborted; due = this.due()) {
        const [chunk, window] = [due.slice(0, STREAMS_PER_CALL), this.window];
        const answer = await get("v1/streams:snapshots", {
          streams: chunk.map(({ name }) => name), metrics: [HEADLINE], last: `${window}s`, steps: STEPS,
        }, this.signal);
        if (window !== this.window) continue;
        const found = new Map(answer.snapshots.map(({ snapshot, series }) => [snapshot.stream, series.map((each) => each.value)]));
        for (const { name, revision } of chunk) {
          this.series.set(name, { values: found.get(name) ?? [], revision, readMs: performance.now() });
          this.drawn(name);
        }
      }
    } catch (error) {
      if (!this.signal.aborted) this.failed(error);
    }
    this.isReading = false;
    if (!this.signal.aborted) setTimeout(() => { if (!this.isReading && !this.signal.aborted) this.read(); }, PAUSE_MS);
  }
}

/** The values of a series as a line; null where fewer than two are known. */
export function sparkline(values) {
  const known = values.filter((each) => each !== undefined);
  if (known.length < 2) return null;
  const middle = (Math.max(...known) + Math.min(...known)) / 2;
  const range = Math.max(MIN_RANGE, Math.max(...known) - Math.min(...known));
  const x = (index) => 3 + (index * 94) / (values.length - 1);
  const y = (each) => 12 - (20 * (each - middle)) / range;
  const runs = [];
  values.forEach((each, index) => {
    if (each === undefined) return;
    if (index === 0 || values[index - 1] === undefined) runs.push([]);
    runs.at(-1).push([x(index), y(each)]);
  });
  const last = values.findLastIndex((each) => each !== undefined);
  const from = values.find((each) => each !== undefined);
  return svg("svg", { class: "sparkline", viewBox: "0 0 100 24", width: 100, height: 24, role: "img",
    "aria-label": `${titleOf(HEADLINE)} from ${figure(from)} to ${figure(values[last])}` },
    runs.map((run) => (run.length > 1
      ? svg("polyline", { points: run.map((each) => each.map((end) => end.toFixed(1)).join(",")).join(" ") })
      : svg("circle", { class: "lone", cx: run[0][0], cy: run[0][1], r: 1.2 }))),
    svg("circle", { cx: x(last), cy: y(values[last]), r: 2.5 }));
}
