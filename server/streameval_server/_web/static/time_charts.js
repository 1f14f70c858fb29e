// The charts of a window over time, and what it will read once its labels are in.

import { CalledStrip } from "./called.js";
import { changeOf } from "./change_shape.js";
import { period, titleOf } from "./format.js";
import { Marks } from "./marks.js";
import { COSTS, HEADLINE, RATES } from "./metrics.js";
import { PointCard } from "./point.js";
import { spansOf } from "./projected.js";
import { ProjectionCard } from "./projection.js";
import { windowBetween } from "./route.js";
import { immatureSpan, positivesOf, stepOf, trimmed } from "./time_rows.js";
import { TimelineCard } from "./timeline.js";

export class TimeCharts {
  /** `toWindow(window)` returns the link to a step's window of the stream `name`. */
  constructor(name, signal, toWindow) {
    this.timeline = new TimelineCard(signal, toWindow, { id: "timeline", title: `${titleOf(HEADLINE)} over time` });
    this.projection = new ProjectionCard();
    this.point = new PointCard(signal, toWindow);
    this.cards = [this.timeline, this.point];
    this.marks = new Marks(name, signal, () => this.draw());
    this.timeline.card.details.after(this.marks.element);
    this.called = new CalledStrip();
    this.timeline.card.plotted.after(this.called.element);
    this.history = [];
  }

  /** Forget the answers about the last selection. */
  clear() {
    this.rows = this.spans = [];
    this.typicalS = null;
    this.projection.element.hidden = true;
  }

  /** Follow the URL: the links of the tables. */
  follow() {
    for (const { card } of [this.timeline, this.point.timeline]) card.fillTable();
  }

  /** Load the steps of a snapshot's window. */
  async load(reader, snapshot) {
    this.isWhole = !reader.segment;
    await this.marks.load();
    this.typicalS = await reader.delayS(snapshot);
    const ends = await reader.span(snapshot);
    const minPositives = positivesOf(Number(snapshot.numPositiveRef));
    let found = await this.loadRows(reader, ...ends, minPositives);
    // When only the last rows have cases, a finer step shows more of them.
    if (found.isShort && found.rows.length) found = await this.loadRows(reader, found.rows[0].start, ends[1], minPositives);
    this.rows = found.rows;
    this.draw();
    this.point.element.removeAttribute("aria-busy");
  }

  async loadRows(reader, start, end, minPositives) {
    const step = `${stepOf((end - start) / 1000)}s`;
    const answer = await reader.read("windows", { step, minPositives, metrics: [HEADLINE, ...RATES, ...COSTS] },
      reader.select(windowBetween(start, end), reader.segment));
    return trimmed(answer.snapshots, this.typicalS, Date.now());
  }

  /** Take the verdict on the whole stream: what the steps are compared with, and since when they are others. */
  judge(verdict) {
    this.change = changeOf(verdict);
    this.reference = baseOf(verdict);
    this.history = verdict.history ?? [];
    if (this.rows.length) this.draw();
  }

  draw() {
    const { spans, reference, change, marks: { marks } } = this;
    const beside = this.isWhole ? { spans, reference, change, marks } : { spans, marks };
    this.timeline.element.hidden = !this.timeline.draw(this.rows, HEADLINE, beside);
    if (this.rows.length) this.called.draw(this.isWhole ? this.history : [], this.rows[0].start, this.rows.at(-1).end);
    this.point.draw(this.rows, marks);
  }

  /** Project the immature end of the steps, and the window itself unless it is all time. */
  async loadProjection(reader) {
    const immature = immatureSpan(this.rows);
    const [rows, window] = await Promise.all([
      immature && reader.read("windows", { step: `${immature.step}s`, metrics: [HEADLINE], projection: true },
        reader.select(windowBetween(immature.start, immature.end), null)),
      reader.window === "all" ? null : reader.read("snapshot", { metrics: [HEADLINE], projection: true }),
    ]);
    this.spans = rows ? spansOf(rows.snapshots) : [];
    this.draw();
    this.projection.element.hidden = !window;
    if (window) this.projection.update(window.snapshot.projection);
  }
}

/** The base of a verdict as a band behind the steps; null without one. */
function baseOf({ base, figures: [found] }) {
  if (!base || found?.before?.lower === undefined) return null;
  const { estimate, lower, upper } = found.before;
  const covered = period(new Date(base.span.startTime), new Date(base.span.endTime));
  return { value: estimate, lower, upper, title: `base: ${covered}` };
}
