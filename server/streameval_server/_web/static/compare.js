// Compares two streams, windows or segments: their curves in one chart, and their difference.

import { ApiError, get, Refresher, streamPath, watch } from "./api.js";
import { namesOf, notes, showCompared } from "./compared.js";
import { startList } from "./compare_starts.js";
import { Overlay } from "./curves.js";
import { fill, h, setText } from "./dom.js";
import { percent, titleOf } from "./format.js";
import { points, prPath, rocPath } from "./geometry.js";
import { COMPARED, HEADLINE } from "./metrics.js";
import { PairedSection } from "./paired.js";
import { replace, segment, segmentProblem, segmentText, selection, toCompare, windowProblem, WINDOWS } from "./route.js";
import { sentence, skeleton } from "./states.js";
import { worded } from "./warnings.js";

const GAP_MS = 1_000;
const MAX_POINTS = 1024;
const SIDES = ["a", "b"];

export class CompareView {
  constructor(root, route, context) {
    Object.assign(this, { root, context, signal: context.signal });
    this.build();
    this.update(route);
    Promise.all(["v1/streams", "v1/pairs"].map((path) => get(path, { pageSize: 1000 }, this.signal))).then(
      ([{ streams }, { pairs }]) => this.list(streams.map((each) => each.name), pairs), (error) => this.fail(error));
  }

  build() {
    this.inputs = {};
    this.segments = {};
    this.refusals = {};
    this.offered = {};
    this.roles = {};
    this.names = h("datalist", { id: "names" });
    this.metric = h("select", { id: "metric", name: "metric" }, COMPARED.map((name) => h("option", { value: name }, titleOf(name))));
    this.form = h("form", {
      class: "sides",
      onsubmit: (event) => { event.preventDefault(); this.go(); },
      onchange: () => this.go(),
    }, SIDES.map((side) => this.side(side)),
    h("div", { class: "by" }, h("label", { for: "metric" }, "By"), this.metric,
      h("button", { type: "button", class: "quiet", id: "swap", onclick: () => this.swap() }, "Swap A and B")), this.names);
    this.result = h("section", { class: "card result", id: "result", "aria-labelledby": "result-title" }, skeleton([28, 96]));
    this.warnings = h("ul", { class: "warnings", hidden: true });
    this.paired = new PairedSection(this.context, {
      align: () => this.align(), refresh: () => this.refresher.request(), choose: () => this.go(),
    });
    this.pr = new Overlay(this.signal, { id: "pr", title: "Precision and recall" });
    this.roc = new Overlay(this.signal, { id: "roc", title: "ROC" });
    this.curves = h("div", { class: "pair" }, this.pr.element, this.roc.element);
    fill(this.root, h("div", { class: "view-head" }, h("h1", { tabindex: -1 }, "Compare")), this.form, this.paired.element,
      this.result, this.paired.asked, this.warnings, this.curves);
    this.refresher = new Refresher(() => this.load(), GAP_MS, this.signal, (error) => this.fail(error));
  }

  side(side) {
    const id = (name) => `${side}-${name}`;
    this.roles[side] = h("span");
    const stream = h("input", { id: id("stream"), list: "names", autocomplete: "off", spellcheck: "false", required: true });
    const window = h("select", { id: id("window") });
    const chosen = h("input", { id: id("segment"), placeholder: "all", autocomplete: "off", spellcheck: "false",
      list: id("segments"), "aria-describedby": id("refusal") });
    this.inputs[side] = { stream, window, segment: chosen };
    this.segments[side] = h("datalist", { id: id("segments") });
    this.refusals[side] = h("p", { class: "refusal", id: id("refusal"), role: "alert", hidden: true });
    return h("fieldset", { class: `side ${side}` },
      h("legend", {}, h("span", { class: side === "a" ? "swatch line a" : "swatch line dash b", "aria-hidden": true }), this.roles[side]),
      h("div", {}, h("label", { for: id("stream") }, "Stream"), stream),
      h("div", {}, h("label", { for: id("window") }, "Window"), window),
      h("div", {}, h("label", { for: id("segment") }, "Segment"), chosen),
      this.segments[side], this.refusals[side]);
  }

  update({ parameters }) {
    this.sides = {};
    for (const side of SIDES) {
      const given = (name) => parameters.get(name ? `${side}.${name}` : side) ?? "";
      const window = given("window") || "all";
      this.sides[side] = { stream: given(""), window, segment: given("segment") };
      const { stream, window: select, segment: chosen } = this.inputs[side];
      const listed = WINDOWS.some(([key]) => key === window) ? WINDOWS : [...WINDOWS, [window, window.split("..").join(" to ")]];
      fill(select, listed.map(([key, title]) => h("option", { value: key }, title)));
      select.value = window;
      if (stream !== document.activeElement) stream.value = this.sides[side].stream;
      if (chosen !== document.activeElement) chosen.value = this.sides[side].segment;
    }
    const { a, b } = this.sides;
    const areStreams = a.stream && b.stream && a.stream !== b.stream;
    setText(this.roles.a, areStreams ? "Champion" : "A");
    setText(this.roles.b, areStreams ? "Challenger" : "B");
    this.paired.segments.key = parameters.get("by") ?? "";
    this.metric.value = COMPARED.includes(parameters.get("metric")) ? parameters.get("metric") : HEADLINE;
    this.watch();
  }

  /** Offer the streams' names in the fields, and where none is chosen, comparisons to begin with. */
  list(names, pairs) {
    Object.assign(this, { known: names, pairs });
    fill(this.names, names.map((each) => h("option", { value: each })));
    if (this.result.querySelector("#start")) this.begin();
  }

  /** Offer the segments that the side's window has, by name; none where the stream declares no keys. */
  async offer(side) {
    const { stream, window } = this.sides[side];
    const key = JSON.stringify([stream, window]);
    if (!stream || this.offered[side] === key) return;
    this.offered[side] = key;
    let found = [];
    try {
      const { settings } = (await get(streamPath(stream), {}, this.signal)).stream;
      if (settings.segmentKeys.length) {
        found = (await get(streamPath(stream, "rank"), selection("selection.", window, null), this.signal)).segments;
      }
    } catch (error) {
      if (!(error instanceof ApiError)) throw error; // the comparison itself says what is wrong
    }
    if (this.offered[side] !== key) return;
    fill(this.segments[side], found.map((each) => segmentText(each.segment)).toSorted()
      .map((value) => h("option", { value })));
  }

  /** Say at the fields that a segment or a window is malformed; return whether none is. */
  check() {
    let isGood = true;
    for (const side of SIDES) {
      const { segment: chosen, window } = this.inputs[side];
      const problems = [segmentProblem(chosen.value.trim()), windowProblem(window.value)];
      setText(this.refusals[side], problems.filter(Boolean).join(" "));
      this.refusals[side].hidden = !problems.some(Boolean);
      [chosen, window].forEach((field, index) => field.setAttribute("aria-invalid", String(problems[index] !== "")));
      isGood &&= !problems.some(Boolean);
    }
    return isGood;
  }

  go() {
    const parameters = { metric: this.metric.value === HEADLINE ? "" : this.metric.value, by: this.paired.segments.key };
    for (const side of SIDES) {
      const { stream, window, segment: chosen } = this.inputs[side];
      parameters[side] = stream.value.trim();
      parameters[`${side}.window`] = window.value;
      parameters[`${side}.segment`] = chosen.value.trim();
    }
    replace(toCompare(parameters));
    this.update(this.context.route());
  }

  swap() {
    const { a, b } = this.inputs;
    for (const name of ["stream", "window", "segment"]) {
      const [first, second] = [a[name].value, b[name].value];
      if (name === "window") {
        for (const [select, value] of [[a.window, second], [b.window, first]]) {
          if (![...select.options].some((option) => option.value === value)) select.append(h("option", { value }, value));
        }
      }
      [a[name].value, b[name].value] = [second, first];
    }
    this.go();
  }

  /** Give B the window and the segment of A: a pair has one of both. */
  align() {
    const { a, b } = this.inputs;
    b.window.value = a.window.value;
    if (b.window.value !== a.window.value) b.window.append(h("option", { value: a.window.value, selected: true }, a.window.value));
    b.segment.value = a.segment.value;
    this.go();
  }

  /** Compare again whenever one of the two streams changes. */
  watch() {
    this.watching?.abort();
    this.watching = new AbortController();
    const streams = SIDES.map((side) => this.sides[side].stream);
    for (const side of SIDES) this.offer(side);
    const isGood = this.check();
    if (!isGood || !streams.every(Boolean)) {
      this.isShown = this.result.hidden = false;
      this.curves.hidden = this.warnings.hidden = true;
      this.paired.hide();
      this.context.connection("idle");
      if (isGood) this.begin();
      else {
        fill(this.result, h("h2", { id: "result-title" }, "Nothing is compared yet"),
          h("p", { class: "empty" }, "Correct what is marked above."));
      }
      return;
    }
    watch("v1/streams:watch", { streams: [...new Set(streams)], metrics: "prevalence" }, {
      signal: AbortSignal.any([this.watching.signal, this.signal]),
      onAnswer: () => this.refresher.request(),
      onState: (state, error) => {
        this.context.connection(state, error);
        if (state === "refused" || (state === "lost" && !this.isShown)) this.fail(error);
      },
    });
  }

  /** Nothing is chosen, or one side: offer comparisons that the server's streams allow. */
  begin() {
    const chosen = SIDES.map((side) => this.sides[side].stream).find(Boolean);
    fill(this.result, h("h2", { id: "result-title" }, "What to compare"),
      h("p", { class: "empty", id: "start" }, this.known && !this.known.length ? "There is no stream yet."
        : "Choose two streams above, or two windows or segments of one. Or begin with one of these:"),
      startList({ names: this.known ?? [], pairs: this.pairs ?? [], chosen, signal: this.signal }));
  }

  fields(side, prefix) {
    const { window, segment: chosen } = this.sides[side];
    return selection(prefix, window, segment(chosen));
  }

  async load() {
    const { watching } = this;
    const chosen = SIDES.map((side) => this.sides[side]);
    const curveOf = (side) => get(streamPath(this.sides[side].stream, "curve"),
      { ...this.fields(side, "selection."), kind: "CURVE_KIND_OPERATING_POINTS", maxPoints: MAX_POINTS }, this.signal);
    const compared = get("v1/streams:compare", {
      "a.stream": chosen[0].stream, ...this.fields("a", "a."),
      "b.stream": chosen[1].stream, ...this.fields("b", "b."), metric: this.metric.value,
    }, this.signal).then(({ comparison }) => comparison);
    const [answer, isPaired, ...curves] = await Promise.all([
      compared, this.paired.load(this.sides, this.metric.value, compared), ...SIDES.map(curveOf),
    ]);
    if (watching !== this.watching) return; // another comparison was chosen meanwhile
    this.isShown = true;
    this.showResult(answer, isPaired);
    this.showCurves(answer, curves);
  }

  fail(error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.isUnavailable && this.isShown) return;
    this.isShown = this.result.hidden = false;
    this.curves.hidden = this.warnings.hidden = true;
    this.paired.hide();
    if (error.isDenied || error.isUnavailable) {
      fill(this.result, this.context.failure(error));
      return;
    }
    fill(this.result, h("h2", { id: "result-title" }, "These cannot be compared"), h("p", { class: "empty", id: "why-not" }, sentence(error.message)));
  }

  showResult(answer, isPaired) {
    this.result.hidden = isPaired; // one headline
    showCompared(this.result, answer, this.sides, titleOf(this.metric.value));
    const [nameA, nameB] = namesOf(this.sides);
    fill(this.warnings, answer.warnings.map((each, index) => {
      const [, side, text] = /^([ab]): (.*)$/s.exec(each);
      const [words] = worded(answer.warningKinds[index], text);
      return h("li", {}, `${side === "a" ? nameA : nameB}: ${words}`);
    }));
    this.warnings.hidden = isPaired || !answer.warnings.length;
  }

  showCurves(answer, curves) {
    const drawn = curves.map((each) => points(each.curve));
    const [positives, negatives] = ["tp", "fp"].map((name) => drawn.map((each) => each[name].at(-1)));
    this.curves.hidden = [...positives, ...negatives].some((each) => !each);
    if (this.curves.hidden) return;
    // Drawn at the comparison's prevalence, that of the figures; without one, each side at its own.
    const common = answer.prevalence;
    const sides = drawn.map((curve, index) => ({
      curve, positives: positives[index], negatives: negatives[index],
      skew: common === undefined ? 1 : ((positives[index] / negatives[index]) * (1 - common)) / common,
    }));
    const floor = common ?? positives[0] / (positives[0] + negatives[0]);
    const [nameA, nameB] = namesOf(this.sides);
    const within = answer.complement ? ` The curve of ${nameB} includes ${nameA}; its figure does not.` : "";
    for (const each of [this.pr, this.roc]) each.name(nameA, nameB);
    this.curves.dataset.about = `${nameA} and ${nameB}: ${notes(answer, nameA, nameB)}`;
    this.pr.card.note.textContent = (common === undefined ? "Each side at its own prevalence." : `Both at a prevalence of ${percent(common)}, the greater of the two.`) + within;
    this.roc.card.note.textContent = `ROC curves do not depend on prevalence.${within}`;
    this.pr.draw(sides, {
      across: "Recall", up: "Precision", floor: [[0, floor], [1, floor]],
      path: ({ curve, positives: all, skew }) => prPath(curve, all, skew),
    });
    this.roc.draw(sides, {
      across: "False positive rate", up: "True positive rate", floor: [[0, 0], [1, 1]],
      path: ({ curve, positives: all, negatives: rest }) => rocPath(curve, all, rest),
    });
  }
}
