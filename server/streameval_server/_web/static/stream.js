// One stream: figures, curves, time, scores, the threshold, segments.

import { ApiError, get, metric, paced, Refresher, streamPath, watch } from "./api.js";
import { PrCard, RocCard } from "./curves.js";
import { fill, h, redraw, say } from "./dom.js";
import { count, figure, interval, measured, moment, percent, reason, segmentValue, span, titleOf } from "./format.js";
import { hullOf, points } from "./geometry.js";
import { HistogramCard } from "./histogram.js";
import { HEADLINE, SHOWN } from "./metrics.js";
import { between, DEFAULT_WINDOW, replace, seconds, segment, segmentText, selection, toCompare, toStream, toStreams, windowBetween, WINDOWS } from "./route.js";
import { SegmentsCard } from "./segments.js";
import { noData, oneClass } from "./states.js";
import { ThresholdCard } from "./threshold.js";
import { stepOf, TimelineCard, trimmed } from "./timeline.js";

const HULL = `${HEADLINE}_hull`;
const NOTES = { prevalence: `${titleOf(HEADLINE)} of a random order` }; // in place of an interval
const LEAST_GAP = "0.2s"; // five answers a second
const CURVE_GAP_MS = 1_000;
const SLOW_GAP_MS = 5_000;
const MAX_POINTS = 2048;
const BINS = 40;

export class StreamView {
  constructor(root, route, context) {
    Object.assign(this, { root, context, name: route.stream, signal: context.signal });
    this.read(route);
    this.build();
    this.start();
  }

  /** Go to another window or segment of the same stream. */
  update(route) {
    const before = JSON.stringify([this.window, this.segment]);
    this.read(route);
    if (JSON.stringify([this.window, this.segment]) !== before) {
      this.start();
    } else {
      this.threshold.at = this.at;
      this.threshold.show();
      this.redraw();
    }
    this.head();
  }

  read({ parameters }) {
    const window = parameters.get("window") ?? "";
    this.window = seconds(window) || between(window) || window === "all" ? window : DEFAULT_WINDOW;
    this.segment = segment(parameters.get("segment"));
    const at = parameters.get("at");
    this.at = at === null || Number.isNaN(Number(at)) ? null : Number(at);
    const costs = (parameters.get("costs") ?? "").split(":").map(Number);
    this.costs = costs.length === 2 && costs.every((each) => each >= 0) && costs.some((each) => each > 0) ? costs : [1, 1];
  }

  /** The link to this view with something changed. */
  link(change = {}) {
    const now = { window: this.window, segment: this.segment, at: this.at, costs: this.costs, ...change };
    return toStream(this.name, {
      window: now.window === DEFAULT_WINDOW ? "" : now.window,
      segment: now.segment ? segmentText(now.segment) : "",
      at: now.at === null ? "" : String(now.at),
      costs: now.costs[0] === 1 && now.costs[1] === 1 ? "" : now.costs.join(":"),
    });
  }

  // --- Parts ----------------------------------------------------------------------------------

  build() {
    this.title = h("h1", { tabindex: -1 }, this.name);
    this.windows = h("nav", { class: "segmented", "aria-label": "Window" });
    this.chip = h("span", { class: "chips" });
    this.compare = h("a", { class: "button" }, "Compare");
    this.covered = h("p", { class: "summary", id: "covered" });
    this.figures = h("dl", { class: "headline", id: "figures" });
    this.warnings = h("ul", { class: "warnings", id: "warnings" });
    this.instead = h("div");
    this.pr = new PrCard(this.signal);
    this.roc = new RocCard(this.signal);
    this.timeline = new TimelineCard(this.signal, (window) => this.link({ window }));
    this.histogram = new HistogramCard(this.signal);
    this.threshold = new ThresholdCard({ at: this.at, costs: this.costs }, ({ at, costs }) => {
      Object.assign(this, { at, costs });
      replace(this.link());
      this.head();
      this.redraw();
    });
    this.segments = new SegmentsCard((chosen) => this.link({ segment: chosen }));
    this.curves = h("div", { class: "pair" }, this.pr.element, this.roc.element);
    this.decide = h("div", { class: "pair" }, this.threshold.element, this.histogram.element);
    this.body = h("div", { class: "cards" }, this.curves, this.timeline.element, this.decide, this.segments.element);
    fill(this.root,
      h("div", { class: "view-head" },
        h("nav", { "aria-label": "Breadcrumb", class: "crumbs" }, h("a", { href: toStreams() }, "Streams")),
        h("div", { class: "title-row" }, this.title, this.chip, this.compare),
        h("div", { class: "window-row" }, this.windows, this.custom(), this.covered)),
      this.figures, this.warnings, this.instead, this.body);
    this.body.hidden = true;
    this.head();
  }

  /** A window between two times. */
  custom() {
    const field = (id) => h("input", { type: "datetime-local", id, required: true });
    const [from, to] = [field("from"), field("to")];
    this.customBox = h("details", { class: "custom" }, h("summary", {}, "Between …"),
      h("form", {
        onsubmit: (event) => {
          event.preventDefault();
          const [start, end] = [new Date(from.value), new Date(to.value)];
          to.setCustomValidity(start < end ? "" : "The end must be after the start.");
          if (!to.reportValidity()) return;
          this.customBox.open = false;
          location.hash = this.link({ window: windowBetween(start, end) });
        },
        oninput: () => to.setCustomValidity(""),
      }, h("label", { for: "from" }, "From"), from, h("label", { for: "to" }, "to"), to, h("button", { type: "submit" }, "Show")));
    return this.customBox;
  }

  /** What stands above the figures: it follows the URL. */
  head() {
    const ends = between(this.window);
    const listed = WINDOWS.some(([key]) => key === this.window) ? WINDOWS
      : [...WINDOWS, [this.window, ends ? ends.map(moment).join(" to ") : span(seconds(this.window))]];
    const focused = this.windows.contains(document.activeElement);
    fill(this.windows, listed.map(([key, title]) =>
      h("a", { href: this.link({ window: key }), "aria-current": key === this.window ? "true" : null }, title)));
    if (focused) this.windows.querySelector("[aria-current]")?.focus();
    fill(this.chip, this.segment ? h("span", { class: "chip" },
      h("span", { class: "key" }, this.segment.key), " ", segmentValue(this.segment.value),
      h("a", { href: this.link({ segment: null }), "aria-label": "Show the whole stream" }, "×")) : null);
    const side = (prefix, window, chosen) => ({
      [prefix]: this.name, [`${prefix}.window`]: window, [`${prefix}.segment`]: chosen ? segmentText(chosen) : "",
    });
    const isWhole = this.window === "all" && !this.segment;
    this.segments.show();
    this.timeline.card.fillTable();
    this.compare.href = toCompare(isWhole
      ? { ...side("a", "24h", null), ...side("b", "all", null) }
      : { ...side("a", this.window, this.segment), ...side("b", this.segment ? this.window : "all", null) });
  }

  // --- Loading --------------------------------------------------------------------------------

  /** Begin with a selection: what was known of another is dimmed until it is replaced. */
  start() {
    this.ending?.abort();
    this.ending = new AbortController();
    this.asking = AbortSignal.any([this.ending.signal, this.signal]);
    const refresher = (card, load, gapMs) => new Refresher(async () => {
      await load();
      card.removeAttribute("aria-busy");
    }, gapMs, this.asking, (error) => this.fail(error));
    this.refreshers = {
      curve: refresher(this.threshold.element, () => this.loadCurve(), CURVE_GAP_MS),
      histogram: refresher(this.histogram.element, () => this.loadHistogram(), CURVE_GAP_MS),
      timeline: refresher(this.timeline.element, () => this.loadTimeline(), SLOW_GAP_MS),
      segments: refresher(this.segments.element, () => this.loadSegments(), SLOW_GAP_MS),
    };
    for (const { element } of [this.pr, this.roc, this.threshold, this.histogram, this.timeline, this.segments]) {
      element.setAttribute("aria-busy", "true");
    }
    this.snapshot = this.curve = this.histogramAnswer = null;
    this.chosen = selection("selection.", this.window, this.segment);
    const hear = paced((snapshot) => this.hear(snapshot), this.asking);
    watch(streamPath(this.name, "watch"), { ...this.chosen, metrics: [...SHOWN, HULL], minInterval: LEAST_GAP }, {
      signal: this.asking,
      heard: ({ snapshot }) => hear(snapshot),
      state: (state, error) => {
        this.context.connection(state);
        if (state === "refused" || (state === "lost" && !this.snapshot)) this.fail(error);
      },
    });
  }

  fail(error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.isAway && this.snapshot) return; // what is known stays; the banner says that it is old
    this.body.hidden = true;
    fill(this.figures);
    fill(this.warnings);
    const shown = this.context.failure(error);
    redraw(this.instead, () => fill(this.instead, shown));
  }

  hear(snapshot) {
    this.snapshot = snapshot;
    this.positives = Number(snapshot.numPositiveRef);
    this.negatives = Number(snapshot.numNegativeRef);
    this.showFigures(snapshot);
    const hasBoth = this.positives > 0 && this.negatives > 0;
    const isEmpty = this.positives + this.negatives === 0;
    redraw(this.instead, () => this.showInstead());
    this.body.hidden = this.figures.hidden = isEmpty;
    this.curves.hidden = this.threshold.element.hidden = !hasBoth;
    this.decide.classList.toggle("pair", hasBoth);
    if (hasBoth) this.refreshers.curve.ask();
    if (!isEmpty) for (const name of ["histogram", "timeline", "segments"]) this.refreshers[name].ask();
  }

  showInstead() {
    const { snapshot, positives, negatives } = this;
    if (!snapshot) return; // another selection is on its way
    if (positives + negatives > 0) {
      fill(this.instead, positives > 0 && negatives > 0 ? null : oneClass(snapshot));
      return;
    }
    const title = WINDOWS.find(([key]) => key === this.window)?.[1] ?? "the chosen one";
    fill(this.instead, noData({ name: this.name, snapshot, windowTitle: title, isAllTime: this.window === "all" }));
  }

  async loadCurve() {
    const answer = await this.ask("curve", { kind: "CURVE_KIND_OPERATING_POINTS", maxPoints: MAX_POINTS });
    const curve = points(answer.curve);
    const [positives, negatives] = [Number(answer.numPositiveRef), Number(answer.numNegativeRef)];
    if (!positives || !negatives) return;
    const hull = hullOf(curve);
    this.curve = { curve, hull, positives, negatives };
    this.threshold.update(curve, hull, positives, negatives);
    this.redraw();
  }

  async loadHistogram() {
    const answer = await this.ask("histogram", { bins: BINS });
    this.histogramAnswer = answer;
    this.histogram.element.hidden = !answer.edges.length;
    this.redraw();
  }

  /** Draw what depends on the threshold. */
  redraw() {
    const { chosen } = this.threshold;
    if (this.curve) {
      const drawn = { ...this.curve, chosen };
      for (const card of [this.pr, this.roc]) {
        card.draw(drawn);
        card.element.removeAttribute("aria-busy");
      }
    }
    if (this.histogramAnswer?.edges.length) {
      this.histogram.draw(this.histogramAnswer, this.curve ? chosen?.threshold : undefined);
    }
  }

  async loadTimeline() {
    const typicalS = await this.typicalDelayS();
    const ends = await this.span();
    let found = await this.loadRows(...ends, typicalS);
    // Where cases came only lately a finer step shows more of them.
    if (found.isShort && found.rows.length) found = await this.loadRows(found.rows[0].start, ends[1], typicalS);
    // One point is no course of time.
    const isDrawn = found.rows.filter((each) => each.value.value !== undefined).length > 1;
    this.timeline.element.hidden = !isDrawn;
    if (isDrawn) this.timeline.draw(found.rows);
  }

  /** What is covered, by the server's clock; of all time what panes are kept for. */
  async span() {
    const { window } = this.snapshot;
    if (window) return [new Date(window.startTime), new Date(window.endTime)];
    const { settings } = await this.describe();
    const now = Date.now();
    return [new Date(now - 1000 * Number.parseFloat(settings.retention)), new Date(now)];
  }

  async describe() {
    return (await get(streamPath(this.name), {}, this.asking)).stream;
  }

  async loadRows(start, end, typicalS) {
    const fields = selection("selection.", windowBetween(start, end), this.segment);
    const answer = await this.ask("windows", { step: `${stepOf((end - start) / 1000)}s`, metrics: HEADLINE, ...fields }, {});
    return trimmed(answer.snapshots, typicalS, Date.now());
  }

  /** How long nine labels of ten take to arrive; 0 where labels are not waited for. */
  async typicalDelayS() {
    if (!this.snapshot.coverage) return 0;
    const answer = await this.ask("snapshot", { metrics: "prevalence" }, selection("selection.", "all", this.segment));
    const delay = answer.snapshot.coverage?.delays.find((each) => each.quantile === 0.9)?.delay;
    return delay ? Number.parseFloat(delay) : Infinity;
  }

  async loadSegments() {
    const { settings } = await this.describe();
    if (!settings.segmentKeys.length) {
      this.segments.undeclared(this.name);
      return;
    }
    const answer = await this.ask("rank", { metric: HEADLINE }, selection("selection.", this.window, null));
    this.segments.update(answer.segments, this.segment);
  }

  /** Ask about the selection; choosing another ends it. */
  ask(method, fields, chosen = this.chosen) {
    return get(streamPath(this.name, method), { ...chosen, ...fields }, this.asking);
  }

  // --- Figures --------------------------------------------------------------------------------

  showFigures(snapshot) {
    if (!this.figures.childElementCount) {
      const titles = [...SHOWN.map((name) => [name, titleOf(name)]), ["counts", "Labelled cases"], ["coverage", "Labels"]];
      this.cells = Object.fromEntries(titles
        .map(([name, title]) => [name, {
          title: h("dt", {}, title),
          value: h("dd", { class: "value", id: `figure-${name}` }), more: h("dd", { class: "more", id: `more-${name}` }),
        }]));
      fill(this.figures, Object.entries(this.cells).map(([name, { title, value, more }]) =>
        h("div", { class: name === HEADLINE ? "lead" : null }, title, value, more)));
    }
    for (const name of SHOWN) {
      const found = metric(snapshot, name);
      this.put(name, measured(name, found.value), NOTES[name] ?? (found.value === undefined ? reason(found)
        : interval(found.interval) ?? `no interval: ${reason(found.interval)}`));
    }
    const hull = metric(snapshot, HULL);
    if (hull.value !== undefined) this.cells[HEADLINE].more.append(h("br"), `achievable ${figure(hull.value)}, optimistic`);
    const [positives, negatives] = [this.positives, this.negatives];
    this.put("counts", count(positives + negatives), `${count(positives)} positive, ${count(negatives)} negative${missesOf(snapshot)}`);
    const { coverage } = snapshot;
    this.put("coverage", coverage ? percent(coverage.labelledShare) : "–", coverage ? waiting(coverage) : "came with their cases");
    say(this.covered, `${snapshot.window ? `${moment(new Date(snapshot.window.startTime))} to ${moment(new Date(snapshot.window.endTime))}` : "Since the stream was made"}`
      + ` · revision ${count(Number(snapshot.revision))}${snapshot.resolution ? ` · scores to ${snapshot.resolution} bits` : ""}`);
    fill(this.warnings, snapshot.warnings.map((each) => h("li", {}, each)));
    this.warnings.hidden = !snapshot.warnings.length;
  }

  put(name, value, more) {
    say(this.cells[name].value, value);
    say(this.cells[name].more, more);
  }
}

function missesOf(snapshot) {
  const misses = Number(snapshot.numMisses) + Number(snapshot.numNegativeMisses);
  return misses ? `; ${count(misses)} of them never scored` : "";
}

function waiting(coverage) {
  const median = coverage.delays.find((each) => each.quantile === 0.5)?.delay;
  const parts = [`${count(Number(coverage.labelled))} of ${count(Number(coverage.predictions))}`];
  if (Number(coverage.pending)) parts.push(`${count(Number(coverage.pending))} waiting`);
  if (Number(coverage.expired)) parts.push(`${count(Number(coverage.expired))} expired`);
  if (median) parts.push(`half within ${span(Number.parseFloat(median))}`);
  return parts.join(", ");
}
