// What one stream's view asks the server for: about a selection, until another is chosen.

import { get, streamPath } from "./api.js";
import { selection } from "./route.js";

export class StreamReader {
  /** `signal` aborts when another selection is chosen, or the view is left. */
  constructor(name, { window, segment, mature }, signal) {
    Object.assign(this, { name, window, segment, mature, signal });
    this.chosen = this.select(window, segment);
  }

  /** A selection's fields, of a window and a segment of the stream. */
  select(window, segment) {
    return selection("selection.", window, segment, this.mature);
  }

  /** GET about the selection, or about another one of the stream. */
  read(method, fields, chosen = this.chosen) {
    return get(streamPath(this.name, method), { ...chosen, ...fields }, this.signal);
  }

  /** The stream with its settings. */
  async describe() {
    return (await get(streamPath(this.name), {}, this.signal)).stream;
  }

  /** The window's ends by the server's clock; of all time, the retention of panes. */
  async span({ window }) {
    if (window) return [new Date(window.startTime), new Date(window.endTime)];
    const { settings } = await this.describe();
    const now = Date.now();
    return [new Date(now - 1000 * Number.parseFloat(settings.retention)), new Date(now)];
  }

  /** A quantile of label delays in seconds; 0 for streams without predictions. */
  async delayS({ coverage }, quantile = 0.9) {
    if (!coverage) return 0;
    const answer = await this.read("snapshot", { metrics: "prevalence" }, selection("selection.", "all", this.segment));
    const delay = answer.snapshot.coverage?.delays.find((each) => each.quantile === quantile)?.delay;
    return delay ? Number.parseFloat(delay) : Infinity;
  }

  /** Since when no row of the stream has come; null without any. */
  async newest() {
    const { snapshots } = await get("v1/streams:snapshots", { streams: this.name, metrics: "prevalence" }, this.signal);
    return snapshots[0]?.newestPane ? new Date(snapshots[0].newestPane.endTime) : null;
  }
}
