// One stream: what is said of it, its course, its segments, its operating point; the rest in tabs.

import { openAlarms } from "./alarm_states.js";
import { AlarmsCard, isOpen } from "./alarms.js";
import { ApiError, Refresher, streamPath, throttle, watch } from "./api.js";
import { CalibrationCard } from "./calibration.js";
import { DecisionCharts } from "./decision_charts.js";
import { fill, h, redraw } from "./dom.js";
import { FigureRow, HULL } from "./figure_row.js";
import { COSTS, HEADLINE, RATES, SHOWN } from "./metrics.js";
import { NoLabels } from "./no_labels.js";
import { between, DEFAULT_WINDOW, replace, seconds, segment, segmentProblem, segmentText, toStream, windowBetween, windowProblem, WINDOWS } from "./route.js";
import { loadTrends } from "./segment_trends.js";
import { MIN_CASES, SegmentsCard } from "./segments.js";
import { malformed, noData, oneClass, showFailure, skeleton } from "./states.js";
import { StreamHead } from "./stream_head.js";
import { StreamReader } from "./stream_reader.js";
import { Tabs } from "./tabs.js";
import { TimeCharts } from "./time_charts.js";
import { VerdictBox } from "./verdict_box.js";
import { Warnings } from "./warnings.js";

const MIN_INTERVAL = "0.2s"; // at most five answers a second
const CURVE_GAP_MS = 1_000;
const SLOW_GAP_MS = 5_000;
const TRENDS_GAP_MS = 20_000; // a series of each of some segments
const PROJECTION_GAP_MS = 60_000; // each takes the server up to seconds
// What each tab draws from; what is not shown is not asked for. The scores are marked at the curves' threshold.
const LOADS = { curves: ["curve"], calibration: ["calibration"], scores: ["curve", "histogram"] };
const DAY_MS = 86_400_000;
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
    const before = this.selected;
    this.read(route);
    if (this.selected !== before) {
      this.start();
    } else {
      this.decision.choose(this.at);
      this.loadTab();
    }
    this.follow();
  }

  /** Identifies the selection of the URL. */
  get selected() {
    return JSON.stringify([this.window, this.segment, this.mature, this.key, this.least, this.problems]);
  }

  read({ parameters }) {
    const window = parameters.get("window") ?? "";
    const part = parameters.get("segment") ?? "";
    // Another window, or the whole stream, would answer another question.
    this.problems = [windowProblem(window), segmentProblem(part)].filter(Boolean);
    this.window = window && !windowProblem(window) ? window : DEFAULT_WINDOW;
    this.segment = segment(part);
    this.key = parameters.get("by") ?? "";
    const least = parameters.get("least");
    this.least = /^\d{1,9}$/.test(least) ? Number(least) : MIN_CASES;
    this.mature = seconds(parameters.get("mature") ?? "") ? parameters.get("mature") : "";
    const at = parameters.get("at");
    this.at = at === null || Number.isNaN(Number(at)) ? null : Number(at);
    const costs = (parameters.get("costs") ?? "").split(":").map(Number);
    this.tab = parameters.get("tab") ?? "";
    this.costs = costs.length === 2 && costs.every((each) => each >= 0) && costs.some((each) => each > 0) ? costs : null; // null: the declared ones
  }

  /** The link to this view with a change. */
  link(change = {}) {
    const { window, segment: chosen, mature, key, least, at, costs, tab } = this;
    const now = { window, segment: chosen, mature, key, least, at, costs, tab, ...change };
    return toStream(this.name, {
      window: now.window === DEFAULT_WINDOW ? "" : now.window,
      segment: now.segment ? segmentText(now.segment) : "",
      mature: now.mature,
      by: now.key,
      least: now.least === MIN_CASES ? "" : String(now.least),
      at: now.at === null ? "" : String(now.at),
      costs: now.costs === null ? "" : now.costs.join(":"),
      tab: now.tab,
    });
  }

  // --- Parts ----------------------------------------------------------------------------------

  build() {
    const toWindow = (window) => this.link({ window });
    const toSegment = (chosen) => this.link({ segment: chosen });
    this.warnings = new Warnings((change) => this.link(change));
    this.head = new StreamHead(this.name, (change) => this.link(change), () => this.start(), this.warnings.caveats);
    this.verdict = new VerdictBox(this.name, this.signal, {
      toSegment, toWindow,
      toAlarms: () => {
        this.tabs.choose("alarms");
        this.alarms.reveal();
      },
      changed: (verdict) => {
        this.time.judge(verdict);
        this.segments.judge(verdict);
      },
      failed: (error) => this.fail(error),
    });
    this.figures = new FigureRow();
    this.placeholder = h("div");
    this.unlabelled = new NoLabels(this.name, this.signal, toWindow);
    this.alarms = new AlarmsCard(this.name, this.signal, toSegment, (status) => this.detected(status), (error) => this.fail(error));
    this.time = new TimeCharts(this.name, this.signal, toWindow);
    this.calibration = new CalibrationCard(this.signal);
    this.decision = new DecisionCharts(this.signal, this, {
      toWindow,
      failed: (error) => this.fail(error),
      changed: ({ at, costs }) => {
        Object.assign(this, { at, costs });
        replace(this.link());
        this.follow();
      },
    });
    this.segments = new SegmentsCard(toSegment, (chosen) => { location.hash = this.link(chosen); });
    this.cards = [...this.time.cards, this.segments, ...this.decision.cards, this.calibration];
    const { timeline, projection, point } = this.time;
    const { curves, threshold, histogram } = this.decision;
    this.first = h("div", { class: "first" }, timeline.element, this.figures.element, this.segments.element, point.element);
    this.tabs = new Tabs("More of this stream", [
      ["curves", "Curves and threshold", [curves, threshold.element]], ["calibration", "Calibration", [this.calibration.element]],
      ["scores", "Scores", [histogram.element]], ["labels", "Labels", [projection.element]], ["alarms", "Alarms", [this.alarms.element]],
    ], (tab) => {
      this.tab = tab;
      replace(this.link());
      this.follow();
      this.loadTab();
    });
    fill(this.root, this.head.element, this.verdict.element, this.warnings.element, this.placeholder, this.first, this.tabs.element);
    this.tabs.offer({ curves: false, calibration: false, scores: false, labels: false, alarms: false });
    this.first.hidden = true;
    this.follow();
  }

  /** Load what the tab that is shown draws. */
  loadTab() {
    if (this.snapshot) for (const name of LOADS[this.tabs.shown] ?? []) this.refreshers[name].request();
  }

  /** Update what follows the URL: the head, and the links of cards. */
  follow() {
    this.head.choose(this);
    this.tabs.show(this.tab);
    this.verdict.show(this.segment);
    this.segments.show();
    this.alarms.show();
    this.time.follow();
  }

  // --- Loading --------------------------------------------------------------------------------

  /** Start with a selection; the data of the last one is dimmed until it is replaced. */
  start() {
    this.aborter?.abort();
    this.aborter = new AbortController();
    this.requestSignal = AbortSignal.any([this.aborter.signal, this.signal]);
    if (this.problems.length) {
      this.clear();
      this.context.connection("idle");
      redraw(this.placeholder, () => fill(this.placeholder, malformed(this.problems, this.link())));
      return;
    }
    const refresher = (card, load, gapMs) => new Refresher(async () => {
      await load();
      card.removeAttribute("aria-busy");
      showFailure(card, null);
    }, gapMs, this.requestSignal, (error) => this.failPart(card, error));
    this.refreshers = {
      curve: refresher(this.decision.threshold.element, () => this.decision.loadCurve(this.reader), CURVE_GAP_MS),
      histogram: refresher(this.decision.histogram.element, () => this.decision.loadHistogram(this.reader), CURVE_GAP_MS),
      timeline: refresher(this.time.timeline.element, () => this.loadTime(), SLOW_GAP_MS),
      calibration: refresher(this.calibration.element, () => this.loadCalibration(), SLOW_GAP_MS),
      segments: refresher(this.segments.element, () => this.loadSegments(), SLOW_GAP_MS),
      unlabelled: refresher(this.unlabelled.element, () => this.unlabelled.load(this.reader, this.snapshot), SLOW_GAP_MS),
      newest: refresher(this.placeholder, () => this.loadNewest(), SLOW_GAP_MS),
      trends: refresher(this.segments.element, () => this.loadTrends(), TRENDS_GAP_MS),
      projection: new Refresher(() => this.loadProjection(), PROJECTION_GAP_MS, this.requestSignal, (error) => {
        if (error.isDenied) this.fail(error);
        else if (error.status) { // all other cards have their answers
          this.time.projection.fail(error.message);
          this.tabs.offer({ labels: true });
        }
      }),
    };
    this.time.clear();
    this.verdict.follow();
    this.tabs.offer({ labels: false });
    this.segments.follow(new Map());
    this.decision.clear();
    for (const { element } of this.cards) element.setAttribute("aria-busy", "true");
    if (this.first.hidden) redraw(this.placeholder, () => fill(this.placeholder, skeleton([72, 104, 320])));
    this.snapshot = this.ranking = this.newest = null;
    this.reader = new StreamReader(this.name, this, this.requestSignal);
    const receive = throttle((snapshot) => this.receive(snapshot), this.requestSignal);
    watch(streamPath(this.name, "watch"), { ...this.reader.chosen, metrics: [...SHOWN, HULL, ...RATES, ...COSTS], minInterval: MIN_INTERVAL }, {
      signal: this.requestSignal,
      onAnswer: ({ snapshot }) => receive(snapshot),
      onState: (state, error) => {
        this.context.connection(state, error);
        if (state === "refused" || (state === "lost" && !this.snapshot)) this.fail(error);
      },
    });
  }

  /** A card could not be loaded: say so in it, where the others keep their figures. */
  failPart(card, error) {
    if (error.isUnavailable) showFailure(card, error);
    else this.fail(error);
  }

  fail(error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.isUnavailable && this.snapshot) return; // the last figures stay; the banner says that they are old
    if (error.isDenied && this.placeholder.querySelector("#token")) return; // each read is denied; what is typed stays
    this.clear();
    this.head.offer(error.status !== 404);
    this.tabs.offer({ alarms: false });
    const shown = this.context.failure(error);
    redraw(this.placeholder, () => fill(this.placeholder, shown));
  }

  /** Show nothing of a selection. */
  clear() {
    this.first.hidden = true;
    this.tabs.offer({ curves: false, calibration: false, scores: false, labels: false });
    this.verdict.hide();
    fill(this.figures.element);
    this.warnings.clear();
  }

  receive(snapshot) {
    this.snapshot = snapshot;
    this.positives = Number(snapshot.numPositiveRef);
    this.negatives = Number(snapshot.numNegativeRef);
    this.figures.show(snapshot);
    this.head.show(snapshot);
    this.root.dataset.about = this.head.about(snapshot, this.segment);
    this.verdict.follow(snapshot.revision);
    this.warnings.show(snapshot, this.time.typicalS);
    this.alarms.follow(openAlarms(snapshot));
    const hasBoth = this.positives > 0 && this.negatives > 0;
    const isEmpty = this.positives + this.negatives === 0;
    this.time.point.update(snapshot);
    this.decision.update(snapshot, hasBoth);
    redraw(this.placeholder, () => this.showPlaceholder());
    this.first.hidden = isEmpty;
    this.figures.element.hidden = isEmpty;
    this.tabs.offer({ curves: hasBoth, scores: !isEmpty });
    if (!isEmpty) for (const name of ["timeline", "segments"]) this.refreshers[name].request();
    this.loadTab();
  }

  showPlaceholder() {
    const { snapshot, positives, negatives } = this;
    if (!snapshot) return; // another selection is loading
    if (positives + negatives > 0) {
      fill(this.placeholder, positives > 0 && negatives > 0 ? null : oneClass(snapshot));
      return;
    }
    const title = WINDOWS.find(([key]) => key === this.window)?.[1] ?? "the chosen window";
    if (Number(snapshot.coverage?.predictions ?? 0) > Number(snapshot.coverage?.retracted ?? 0)) {
      this.unlabelled.show(this.reader, snapshot);
      fill(this.placeholder, this.unlabelled.element);
      this.refreshers.unlabelled.request();
      return;
    }
    const { at } = this.newest ?? {};
    const newest = at && at <= new Date(snapshot.window?.startTime) ? { at, href: this.link({ window: windowBetween(new Date(at - DAY_MS), at) }) } : null;
    fill(this.placeholder, noData({ name: this.name, windowTitle: title, isAllTime: this.window === "all", newest }));
    if (!this.newest) this.refreshers.newest.request();
  }

  /** Load since when no row has come, which an empty window says. */
  async loadNewest() {
    this.newest = { at: await this.reader.newest() };
    redraw(this.placeholder, () => this.showPlaceholder());
  }

  async loadTime() {
    await this.time.load(this.reader, this.snapshot);
    this.decision.threshold.follow(this.time.rows);
    if (this.ranking) this.refreshers.trends.request();
    this.warnings.show(this.snapshot, this.time.typicalS);
    if (this.snapshot.coverage && !this.segment && !this.mature) this.refreshers.projection.request();
  }

  /** Take what the stream's detector says; null where there is none. */
  detected(status) {
    this.status = status;
    this.tabs.offer({ alarms: status !== null });
    this.tabs.mark("alarms", status ? String(status.alarms.filter(isOpen).length || "") : "");
  }

  async loadProjection() {
    await this.time.loadProjection(this.reader);
    this.tabs.offer({ labels: !this.time.projection.element.hidden });
  }

  async loadCalibration() {
    const isRare = this.positives < RARE_SHARE * (this.positives + this.negatives);
    const strategy = isRare ? "RELIABILITY_BINS_MASS" : "RELIABILITY_BINS_WIDTH";
    this.calibration.draw(await this.reader.read("reliability", { strategy }));
  }

  async loadSegments() {
    const { settings: { segmentKeys, scale } } = await this.reader.describe();
    // Only scores that are declared as probabilities are judged as such.
    this.tabs.offer({ calibration: scale === "SCALE_PROBABILITY" });
    this.loadTab();
    if (!segmentKeys.length) {
      this.segments.undeclared(this.name);
      return;
    }
    const key = segmentKeys.includes(this.key) ? this.key : "";
    this.segments.choose(segmentKeys, { key, least: this.least });
    const chosen = this.reader.select(this.window, null);
    this.ranking = await this.reader.read("rank", { metric: HEADLINE, key, minReferences: this.least }, chosen);
    this.segments.update(this.ranking, this.segment);
    if (this.time.rows.length) this.refreshers.trends.request();
  }

  /** Load the worst segments over time. */
  async loadTrends() {
    const first = this.segment ? undefined : this.time.rows[0]?.start;
    this.segments.follow(await loadTrends(this.reader, this.snapshot, this.ranking.segments, first));
  }
}
