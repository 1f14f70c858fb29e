// The series of the list's small charts: the headline over the window, read for the rows that are shown.

import { get } from "./api.js";
import { HEADLINE } from "./metrics.js";

const STEPS = 24;
const STREAMS_PER_CALL = 10; // so that the first charts come before the last
const MAX_AGE_MS = 60_000; // a window moves though its stream does not change
const MIN_AGE_MS = 5_000;
const PAUSE_MS = 1_000;

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
