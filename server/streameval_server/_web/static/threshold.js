// The threshold: a slider over operating points, targets, the figures with their intervals, the cost of errors, and
// what would have happened. Counts are those of the drawn curve at once, and of the server's answer when it arrives.

import { get, metric, Refresher, streamPath } from "./api.js";
import { DeclareButton } from "./declare.js";
import { h, redraw, setText } from "./dom.js";
import { cost, count, percent, score, titleOf } from "./format.js";
import { cheapestVertex, pointAt } from "./geometry.js";
import { COSTS } from "./metrics.js";
import { PastWindows } from "./past_windows.js";
import { info } from "./popover.js";
import { errorCosts } from "./route.js";
import { aDay, casesADay, limitsADay, rateWords, TargetsForm } from "./targets.js";

const COST = new Intl.NumberFormat("en-US", { maximumFractionDigits: 2 });
const GAP_MS = 400; // between answers while the slider moves
const EQUAL_COSTS = [1, 1];
const RATES = { precision: "Precision", recall: "Recall", fpr: "False positive rate" };

export class ThresholdCard {
  /**
   * `changed({at, costs})` gets the user's choice; `at` and `costs` are those of the URL, null where it has none:
   * then the stream's declared costs are used, or equal ones; `toWindow(window)` returns the link to a window; `failed` gets the ApiError of a read.
   */
  constructor(name, signal, { at, costs }, { changed, toWindow, failed }) {
    Object.assign(this, { name, changed, failed, at, costs });
    this.declared = null; // the operating point of the stream's own threshold, where the slider begins
    this.perDay = null;
    this.declare = new DeclareButton(name, signal);
    this.targets = new TargetsForm((wanted) => this.find(wanted), (answer) => this.use(answer));
    this.past = new PastWindows(toWindow);
    this.build();
  }

  build() {
    this.slider = h("input", {
      type: "range", id: "threshold-slider", min: 0, max: 1, step: 1, value: 0,
      oninput: () => this.choose(this.curve.thresholds[this.slider.max - this.slider.value]),
    });
    this.shown = h("output", { for: "threshold-slider", id: "threshold-value" });
    this.costInputs = ["cost-fp", "cost-fn"].map((id) => this.costInput(id));
    this.cells = Object.fromEntries(["tp", "fp", "fn", "tn"].map((name) => [name, h("td", { id: name, class: "number" })]));
    this.facts = Object.fromEntries(Object.entries({ ...RATES, flagged: "Flagged a day", cost: "Cost of errors", each: titleOf(COSTS[0]) })
      .map(([name, title]) => [name, { title, value: h("dd", { id: `fact-${name}` }), more: h("dd", { class: "more", id: `fact-more-${name}` }) }]));
    this.costNote = h("span", { class: "summary", id: "costs-declared" });
    this.advice = h("p", { class: "advice", id: "advice" });
    this.adopt = h("button", { type: "button", class: "quiet", onclick: () => this.choose(this.best.threshold) },
      "Use this threshold");
    this.note = h("p", { class: "note", id: "threshold-note" }, "Intervals (95 %) hold for a threshold that was chosen on other cases. "
      + "Flagged a day counts cases without a label, too: they are taken to be flagged as often as the others.");
    this.element = h("section", { class: "card", id: "threshold", "aria-labelledby": "threshold-title" },
      h("div", { class: "card-head" }, h("div", { class: "titled" }, h("h2", { id: "threshold-title" }, "Threshold"), info("the threshold", this.note)), this.declare.element),
      h("div", { class: "slider" },
        h("label", { for: "threshold-slider" }, "Flag cases at scores from ", this.shown),
        this.slider,
        h("div", { class: "slider-ends", "aria-hidden": true }, h("span", {}, "all flagged"), h("span", {}, "none flagged"))),
      h("div", { class: "decision" },
        this.confusion(),
        h("dl", { class: "facts" }, Object.values(this.facts).map(({ title, value, more }) => h("div", {}, h("dt", {}, title), value, more))),
        h("div", { class: "choosing" }, this.targets.element,
          h("fieldset", { class: "costs" },
            h("legend", {}, "What an error costs"),
            h("label", {}, "False positive ", this.costInputs[0]),
            h("label", {}, "Missed positive ", this.costInputs[1]), this.costNote),
          h("div", { class: "advice-row" }, this.advice, this.adopt))),
      this.past.element);
  }

  confusion() {
    const { tp, fp, fn, tn } = this.cells;
    return h("table", { class: "confusion" },
      h("caption", {}, "Cases at this threshold"),
      h("thead", {}, h("tr", {}, h("td", {}), h("th", { scope: "col" }, "are positive"), h("th", { scope: "col" }, "are negative"))),
      h("tbody", {},
        h("tr", {}, h("th", { scope: "row" }, "flagged"), tp, fp),
        h("tr", {}, h("th", { scope: "row" }, "not flagged"), fn, tn)));
  }

  costInput(id) {
    return h("input", {
      type: "number", id, min: 0, step: "any", inputmode: "decimal",
      oninput: () => {
        const costs = this.costInputs.map((input) => input.valueAsNumber);
        if (costs.every((each) => each >= 0) && costs.some((each) => each > 0)) {
          this.costs = costs;
          this.changed(this);
          this.show();
          this.refresher?.request();
        }
      },
    });
  }

  /** What the stream declares that errors cost; null where it declares none. */
  get declaredCosts() {
    const { costFp, costFn } = this.declared ?? {};
    return costFp === undefined ? null : [costFp, costFn];
  }

  /** What errors cost: as chosen, else as declared, else the same. */
  get usedCosts() {
    return this.costs ?? this.declaredCosts ?? EQUAL_COSTS;
  }

  /** Forget the answers about the last selection. */
  clear() {
    this.curve = this.answer = this.reader = this.past.rows = null;
    this.mayUpdate = false;
  }

  /** Use newer counts; keep the threshold as closely as the operating points allow. */
  update(curve, hull, positives, negatives, reader) {
    Object.assign(this, { curve, hull, positives, negatives });
    if (reader !== this.reader) {
      this.reader = reader;
      this.refresher = new Refresher(() => this.load(), GAP_MS, reader.signal, this.failed);
    }
    this.slider.max = curve.thresholds.length - 1;
    this.show();
    this.refresher.request();
  }

  /** Follow the steps of time: how many cases a day there are. */
  follow(rows) {
    this.perDay = casesADay(rows, Date.now());
    this.targets.follow(this.perDay);
    this.show();
  }

  choose(threshold) {
    this.at = threshold;
    this.show();
    this.changed(this);
    this.refresher.request();
  }

  // --- The server's answers ---------------------------------------------------------------------

  /** The answer to a question for a threshold; null when another selection was chosen meanwhile. */
  async find(wanted) {
    const { reader, usedCosts } = this;
    try {
      const answer = withCosts(await reader.read("decision", { ...wanted, ...errorCosts(usedCosts) }), usedCosts);
      return reader === this.reader ? answer : null;
    } catch (error) {
      if (!reader.signal.aborted) this.failed(error);
      return null;
    }
  }

  /** Use the threshold of an answer, which may lie between those that are drawn. */
  use(answer) {
    this.answer = { ...answer, threshold: Number(answer.threshold) };
    this.choose(this.answer.threshold);
  }

  async load() {
    const { reader, usedCosts, chosen: { threshold } } = this;
    const asked = this.isFound(threshold) ? null : reader.read("decision", { threshold, ...errorCosts(usedCosts) });
    const [answer, { mayUpdate }] = await Promise.all([
      asked, get(streamPath(this.name), {}, reader.signal), this.past.load(reader, threshold, usedCosts)]);
    if (threshold !== this.chosen.threshold || !isSame(usedCosts, this.usedCosts)) return; // another choice, which is loaded next
    this.mayUpdate = mayUpdate;
    if (answer) this.answer = withCosts({ ...answer, threshold: Number(answer.threshold) }, usedCosts);
    this.show();
    redraw(this.past.element, () => this.past.show(threshold));
  }

  /** Whether the answer was chosen on these cases by a target, and is as new as the curve. */
  isFound(threshold) {
    const { answer, curve } = this;
    return answer?.threshold === threshold && answer.revision === curve.revision
      && answer.metrics.some(({ interval }) => interval?.undefinedReason === "UNDEFINED_REASON_CHOSEN_ON_SAME_CASES");
  }

  // --- What is shown ----------------------------------------------------------------------------

  show() {
    if (!this.curve) return;
    this.showCosts();
    const vertex = cheapestVertex(this.hull, ...this.usedCosts);
    this.best = { threshold: this.hull.thresholds[vertex], fp: this.hull.fp[vertex], tp: this.hull.tp[vertex] };
    const wanted = this.at ?? this.declared?.lowestScore ?? this.best.threshold;
    const index = pointAt(this.curve, wanted);
    const answer = this.answer?.threshold === wanted || this.answer?.threshold === this.curve.thresholds[index] ? this.answer : null;
    const counts = answer ? countsOf(answer) : {
      tp: this.curve.tp[index], fp: this.curve.fp[index],
      fn: this.positives - this.curve.tp[index], tn: this.negatives - this.curve.fp[index],
    };
    const threshold = answer?.threshold ?? this.curve.thresholds[index];
    this.chosen = { threshold, fp: counts.fp, tp: counts.tp };
    this.slider.value = this.slider.max - index; // higher scores to the right
    this.shown.dataset.value = threshold;
    setText(this.shown, score(threshold));
    for (const [name, value] of Object.entries(counts)) setText(this.cells[name], count(value));
    this.showFacts(counts, answer);
    this.advise();
    this.declare.offer(threshold, this.declared, this.mayUpdate);
  }

  /** Show what errors cost, unless the user is typing it, and whether the stream declares it. */
  showCosts() {
    const { usedCosts, declaredCosts } = this;
    this.costInputs.forEach((input, index) => {
      if (input !== document.activeElement && input.valueAsNumber !== usedCosts[index]) input.value = usedCosts[index];
    });
    setText(this.costNote, declaredCosts === null ? "" : isSame(usedCosts, declaredCosts) ? "as the stream declares"
      : `the stream declares ${cost(declaredCosts[0])} and ${cost(declaredCosts[1])}`);
  }

  showFacts({ tp, fp, fn, tn }, answer) {
    const rates = { precision: share(tp, tp + fp), recall: share(tp, tp + fn), fpr: share(fp, fp + tn) };
    for (const name of Object.keys(RATES)) {
      this.put(name, percent(rates[name]), answer ? rateWords(name, metric(answer, name)).more : "");
    }
    const flagged = share(tp + fp, tp + fp + fn + tn);
    this.put("flagged", this.perDay ? aDay(flagged, this.perDay) : "–",
      this.perDay ? limitsADay(answer && metric(answer, "flagged_share")?.interval, this.perDay) ?? "" : "less than an hour of time");
    this.put("cost", COST.format(this.cost(fp, fn)), "");
    const limits = answer && isSame(answer.usedCosts, this.usedCosts) ? rateWords(COSTS[0], metric(answer, COSTS[0])).more : "";
    this.put("each", cost(this.cost(fp, fn) / (tp + fp + fn + tn)), limits);
    this.slider.setAttribute("aria-valuetext", `${score(this.chosen.threshold)}: precision ${percent(rates.precision)}, recall ${percent(rates.recall)}`);
  }

  put(name, value, more) {
    setText(this.facts[name].value, value);
    setText(this.facts[name].more, more);
  }

  cost(fp, fn) {
    return this.usedCosts[0] * fp + this.usedCosts[1] * fn;
  }

  advise() {
    const { threshold, fp, tp } = this.best;
    const what = threshold === Infinity ? "flag nothing"
      : threshold === -Infinity ? "flag everything" : `run at ${score(threshold)}`;
    const [costFp, costFn] = this.usedCosts;
    const ratio = costFp > 0 ? `${Number((costFn / costFp).toPrecision(3))} : 1` : "∞ : 1";
    setText(this.advice, `At a cost ratio of ${ratio} (missed to false positives) the best threshold: ${what}. `
      + `Cost ${COST.format(this.cost(fp, this.positives - tp))}, recall ${percent(share(tp, this.positives))}, precision ${percent(share(tp, tp + fp))}.`);
    this.advice.dataset.threshold = threshold;
    this.adopt.disabled = this.chosen.fp === fp && this.chosen.tp === tp;
  }
}

/** The counts of an answer: sums of weights where cases have weights, as those of the curve. */
function countsOf(answer) {
  const counts = answer.weighted ?? answer;
  return Object.fromEntries(["tp", "fp", "fn", "tn"].map((name) => [name, Number(counts[name])]));
}

/** An answer that tells at which costs it was asked. */
const withCosts = (answer, usedCosts) => ({ ...answer, usedCosts });

const isSame = (one, other) => one[0] === other[0] && one[1] === other[1];

const share = (part, whole) => (whole > 0 ? part / whole : undefined);
