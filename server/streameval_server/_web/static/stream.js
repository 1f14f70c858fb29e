// One stream: alarms, figures, curves, timeline, histogram, threshold, segments.

import { openAlarms } from "./alarm_states.js";
import { AlarmsCard } from "./alarms.js";
import { ApiError, get, metric, Refresher, streamPath, throttle, watch } from "./api.js";
import { CalibrationCard } from "./calibration.js";
import { PrCard, RocCard } from "./curves.js";
import { fill, h, redraw, setText } from "./dom.js";
import { count, figure, interval, measured, percent, period, reason, segmentValue, span, titleOf } from "./format.js";
import { hullOf, points } from "./geometry.js";
import { HistogramCard } from "./histogram.js";
import { HEADLINE, RATES, SHOWN } from "./metrics.js";
import { PointCard } from "./point.js";
import { spansOf } from "./projected.js";
import { ProjectionCard } from "./projection.js";
import { between, DEFAULT_WINDOW, replace, seconds, segment, segmentText, selection, toCompare, toStream, toStreams, windowBetween, WINDOWS } from "./route.js";
import { SegmentsCard } from "./segments.js";
import { noData, oneClass } from "./states.js";
import { ThresholdCard } from "./threshold.js";
import { immatureSpan, stepOf, TimelineCard, trimmed } from "./timeline.js";

const HULL = `${HEADLINE}_hull`;
const NOTES = { prevalence: `${titleOf(HEADLINE)} of a random order` }; // in place of an interval
const MIN_INTERVAL = "0.2s"; // at most five answers a second
const CURVE_GAP_MS = 1_000;
const SLOW_GAP_MS = 5_000;
const PROJECTION_GAP_MS = 60_000; // each takes the server up to seconds
const MAX_POINTS = 2048;
const BINS = 40;
const RARE_SHARE = 0.05; // of positives: nearly all scores are in the first bins of equal width

export class StreamView {
  constructor(root, route, context) {
    Object.assign(this, { root, context, name: route.stream, signal: context.signal });
    this.read(route);
    this.build();
    this.start();
  }

  /** Show another window or segment of the same stream. */
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

  /** The link to this view with a change. */
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
    this.internals = h("p", { id: "internals" });
    this.figures = h("dl", { class: "headline", id: "figures" });
    this.warnings = h("ul", { class: "warnings", id: "warnings" });
    this.placeholder = h("div");
    this.alarms = new AlarmsCard(this.name, this.signal, (chosen) => this.link({ segment: chosen }), (error) => this.fail(error));
    this.pr = new PrCard(this.signal);
    this.roc = new RocCard(this.signal);
    const toWindow = (window) => this.link({ window });
    this.timeline = new TimelineCard(this.signal, toWindow, { id: "timeline", title: `${titleOf(HEADLINE)} over time` });
    this.projection = new ProjectionCard();
    this.point = new PointCard(this.signal, toWindow);
    this.calibration = new CalibrationCard(this.signal);
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
    this.body = h("div", { class: "cards" }, this.curves, this.timeline.element, this.projection.element, this.point.element, this.calibration.element, this.decide, this.segments.element);
    fill(this.root,
      h("div", { class: "view-head" },
        h("nav", { "aria-label": "Breadcrumb", class: "crumbs" }, h("a", { href: toStreams() }, "Streams")),
        h("div", { class: "title-row" }, this.title, this.chip, this.compare),
        h("div", { class: "window-row" }, this.windows, this.custom(), this.covered,
          h("details", { class: "custom internals" }, h("summary", {}, "Details"), this.internals))),
      this.alarms.element, this.figures, this.warnings, this.placeholder, this.body);
    this.body.hidden = true;
    this.head();
  }

  /** The form for a window between two times. */
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

  /** Update the part above the figures, which follows the URL. */
  head() {
    const ends = between(this.window);
    const listed = WINDOWS.some(([key]) => key === this.window) ? WINDOWS
      : [...WINDOWS, [this.window, ends ? period(...ends) : span(seconds(this.window))]];
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
    this.alarms.show();
    this.timeline.card.fillTable();
    this.point.timeline.card.fillTable();
    this.compare.href = toCompare(isWhole
      ? { ...side("a", "24h", null), ...side("b", "all", null) }
      : { ...side("a", this.window, this.segment), ...side("b", this.segment ? this.window : "all", null) });
  }

  // --- Loading --------------------------------------------------------------------------------

  /** Start with a selection; the data of the last one is dimmed until it is replaced. */
  start() {
    this.aborter?.abort();
    this.aborter = new AbortController();
    this.requestSignal = AbortSignal.any([this.aborter.signal, this.signal]);
    const refresher = (card, load, gapMs) => new Refresher(async () => {
      await load();
      card.removeAttribute("aria-busy");
    }, gapMs, this.requestSignal, (error) => this.fail(error));
    this.refreshers = {
      curve: refresher(this.threshold.element, () => this.loadCurve(), CURVE_GAP_MS),
      histogram: refresher(this.histogram.element, () => this.loadHistogram(), CURVE_GAP_MS),
      timeline: refresher(this.timeline.element, async () => {
        await this.loadTimeline();
        this.point.element.removeAttribute("aria-busy");
      }, SLOW_GAP_MS),
      calibration: refresher(this.calibration.element, () => this.loadCalibration(), SLOW_GAP_MS),
      segments: refresher(this.segments.element, () => this.loadSegments(), SLOW_GAP_MS),
      projection: new Refresher(() => this.loadProjection(), PROJECTION_GAP_MS, this.requestSignal, (error) => {
        if (error.isDenied) this.fail(error);
        else if (error.status) this.projection.fail(error.message); // all other cards have their answers
      }),
    };
    this.rows = this.projectedSpans = [];
    this.projection.element.hidden = true;
    for (const { element } of [this.pr, this.roc, this.threshold, this.histogram, this.timeline, this.point, this.calibration, this.segments]) {
      element.setAttribute("aria-busy", "true");
    }
    this.snapshot = this.curve = this.histogramAnswer = null;
    this.chosen = selection("selection.", this.window, this.segment);
    const receive = throttle((snapshot) => this.receive(snapshot), this.requestSignal);
    watch(streamPath(this.name, "watch"), { ...this.chosen, metrics: [...SHOWN, HULL, ...RATES], minInterval: MIN_INTERVAL }, {
      signal: this.requestSignal,
      onAnswer: ({ snapshot }) => receive(snapshot),
      onState: (state, error) => {
        this.context.connection(state, error);
        if (state === "refused" || (state === "lost" && !this.snapshot)) this.fail(error);
      },
    });
  }

  fail(error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.isUnavailable && this.snapshot) return; // the last figures stay; the banner says that they are old
    this.body.hidden = this.alarms.element.hidden = true;
    fill(this.figures);
    fill(this.warnings);
    const shown = this.context.failure(error);
    redraw(this.placeholder, () => fill(this.placeholder, shown));
  }

  receive(snapshot) {
    this.snapshot = snapshot;
    this.positives = Number(snapshot.numPositiveRef);
    this.negatives = Number(snapshot.numNegativeRef);
    this.showFigures(snapshot);
    this.alarms.follow(openAlarms(snapshot));
    this.point.update(snapshot);
    this.threshold.declared = snapshot.operatingPoint?.lowestScore ?? null;
    const hasBoth = this.positives > 0 && this.negatives > 0;
    const isEmpty = this.positives + this.negatives === 0;
    redraw(this.placeholder, () => this.showPlaceholder());
    this.body.hidden = this.figures.hidden = isEmpty;
    this.curves.hidden = this.threshold.element.hidden = !hasBoth;
    this.decide.classList.toggle("pair", hasBoth);
    if (hasBoth) this.refreshers.curve.request();
    if (!isEmpty) for (const name of ["histogram", "timeline", "calibration", "segments"]) this.refreshers[name].request();
  }

  showPlaceholder() {
    const { snapshot, positives, negatives } = this;
    if (!snapshot) return; // another selection is loading
    if (positives + negatives > 0) {
      fill(this.placeholder, positives > 0 && negatives > 0 ? null : oneClass(snapshot));
      return;
    }
    const title = WINDOWS.find(([key]) => key === this.window)?.[1] ?? "the chosen window";
    fill(this.placeholder, noData({ name: this.name, snapshot, windowTitle: title, isAllTime: this.window === "all" }));
  }

  async loadCurve() {
    const answer = await this.getSelected("curve", { kind: "CURVE_KIND_OPERATING_POINTS", maxPoints: MAX_POINTS });
    const curve = points(answer.curve);
    const [positives, negatives] = [Number(answer.numPositiveRef), Number(answer.numNegativeRef)];
    if (!positives || !negatives) return;
    const hull = hullOf(curve);
    this.curve = { curve, hull, positives, negatives };
    this.threshold.update(curve, hull, positives, negatives);
    this.redraw();
  }

  async loadHistogram() {
    const answer = await this.getSelected("histogram", { bins: BINS });
    this.histogramAnswer = answer;
    this.histogram.element.hidden = !answer.edges.length;
    this.redraw();
  }

  /** Draw the charts that depend on the threshold. */
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
    // When only the last rows have cases, a finer step shows more of them.
    if (found.isShort && found.rows.length) found = await this.loadRows(found.rows[0].start, ends[1], typicalS);
    this.rows = found.rows;
    this.drawTimeline();
    this.point.draw(found.rows);
    if (this.snapshot.coverage && !this.segment) this.refreshers.projection.request();
  }

  drawTimeline() {
    this.timeline.element.hidden = !this.timeline.draw(this.rows, HEADLINE, { spans: this.projectedSpans });
  }

  /** Project the immature end of the timeline, and the window itself unless it is all time. */
  async loadProjection() {
    const immature = immatureSpan(this.rows);
    const [rows, window] = await Promise.all([
      immature && this.getSelected("windows", { step: `${immature.step}s`, metrics: [HEADLINE], projection: true },
        selection("selection.", windowBetween(immature.start, immature.end), null)),
      this.window === "all" ? null : this.getSelected("snapshot", { metrics: [HEADLINE], projection: true }),
    ]);
    this.projectedSpans = rows ? spansOf(rows.snapshots) : [];
    this.drawTimeline();
    this.projection.element.hidden = !window;
    if (window) this.projection.update(window.snapshot.projection);
  }

  /** The window's ends by the server's clock; of all time, the retention of panes. */
  async span() {
    const { window } = this.snapshot;
    if (window) return [new Date(window.startTime), new Date(window.endTime)];
    const { settings } = await this.describe();
    const now = Date.now();
    return [new Date(now - 1000 * Number.parseFloat(settings.retention)), new Date(now)];
  }

  async describe() {
    return (await get(streamPath(this.name), {}, this.requestSignal)).stream;
  }

  async loadRows(start, end, typicalS) {
    const fields = selection("selection.", windowBetween(start, end), this.segment);
    const answer = await this.getSelected("windows", { step: `${stepOf((end - start) / 1000)}s`, metrics: [HEADLINE, ...RATES], ...fields }, {});
    return trimmed(answer.snapshots, typicalS, Date.now());
  }

  /** The 90 % quantile of label delays in seconds; 0 for streams without predictions. */
  async typicalDelayS() {
    if (!this.snapshot.coverage) return 0;
    const answer = await this.getSelected("snapshot", { metrics: "prevalence" }, selection("selection.", "all", this.segment));
    const delay = answer.snapshot.coverage?.delays.find((each) => each.quantile === 0.9)?.delay;
    return delay ? Number.parseFloat(delay) : Infinity;
  }

  /** Only scores that are declared as probabilities are judged as such. */
  async loadCalibration() {
    const { settings } = await this.describe();
    const isRare = this.positives < RARE_SHARE * (this.positives + this.negatives);
    const isShown = settings.scale === "SCALE_PROBABILITY";
    if (isShown) {
      const strategy = isRare ? "RELIABILITY_BINS_MASS" : "RELIABILITY_BINS_WIDTH";
      this.calibration.draw(await this.getSelected("reliability", { strategy }), isRare);
    }
    this.calibration.element.hidden = !isShown;
  }

  async loadSegments() {
    const { settings } = await this.describe();
    if (!settings.segmentKeys.length) {
      this.segments.undeclared(this.name);
      return;
    }
    const answer = await this.getSelected("rank", { metric: HEADLINE }, selection("selection.", this.window, null));
    this.segments.update(answer.segments, this.segment);
  }

  /** GET about the selection; choosing another selection aborts it. */
  getSelected(method, fields, chosen = this.chosen) {
    return get(streamPath(this.name, method), { ...chosen, ...fields }, this.requestSignal);
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
    this.put("coverage", coverage ? percent(coverage.labelledShare) : "–", coverage ? waiting(coverage) : "arrived with their cases");
    setText(this.covered, snapshot.window ? period(new Date(snapshot.window.startTime), new Date(snapshot.window.endTime)) : "Since the stream was made");
    setText(this.internals, `Revision ${count(Number(snapshot.revision))} of the server's log. `
      + `Scores are kept ${snapshot.resolution ? `to ${snapshot.resolution} significant bits` : "exactly"}.`);
    fill(this.warnings, snapshot.warnings.map((each) => h("li", {}, each)));
    this.warnings.hidden = !snapshot.warnings.length;
  }

  put(name, value, more) {
    setText(this.cells[name].value, value);
    setText(this.cells[name].more, more);
  }
}

function missesOf(snapshot) {
  const misses = Number(snapshot.numMisses) + Number(snapshot.numNegativeMisses);
  return misses ? `; ${count(misses)} of them were never scored` : "";
}

function waiting(coverage) {
  const median = coverage.delays.find((each) => each.quantile === 0.5)?.delay;
  const parts = [`${count(Number(coverage.labelled))} of ${count(Number(coverage.predictions))}`];
  if (Number(coverage.pending)) parts.push(`${count(Number(coverage.pending))} waiting`);
  if (Number(coverage.expired)) parts.push(`${count(Number(coverage.expired))} expired`);
  if (median) parts.push(`half within ${span(Number.parseFloat(median))}`);
  return parts.join(", ");
}
