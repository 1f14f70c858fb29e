// The threshold: a slider over operating points, its figures and cost, and the hull's best threshold.

import { h, setText } from "./dom.js";
import { count, figure, percent, score } from "./format.js";
import { cheapestVertex, pointAt } from "./geometry.js";

const COST = new Intl.NumberFormat("en-US", { maximumFractionDigits: 2 });

export class ThresholdCard {
  /** `changed({at, costs})` gets the user's choice; `at` and `costs` are those of the URL. */
  constructor({ at, costs }, changed) {
    this.changed = changed;
    this.at = at;
    this.declared = null; // the stream's own threshold, where the slider begins
    this.costs = costs;
    this.build();
  }

  build() {
    this.slider = h("input", {
      type: "range", id: "threshold-slider", min: 0, max: 1, step: 1, value: 0,
      oninput: () => this.choose(this.curve.thresholds[this.slider.max - this.slider.value]),
    });
    this.shown = h("output", { for: "threshold-slider", id: "threshold-value" });
    this.costFp = this.costInput("cost-fp", this.costs[0]);
    this.costFn = this.costInput("cost-fn", this.costs[1]);
    this.cells = Object.fromEntries(["tp", "fp", "fn", "tn"].map((name) => [name, h("td", { id: name, class: "number" })]));
    this.facts = Object.fromEntries([
      ["precision", "Precision"], ["recall", "Recall"], ["fpr", "False positive rate"],
      ["cost", "Cost of errors"], ["each", "Cost per case"],
    ].map(([name, title]) => [name, { title, value: h("dd", { id: `fact-${name}` }) }]));
    this.advice = h("p", { class: "advice", id: "advice" });
    this.adopt = h("button", { type: "button", class: "quiet", onclick: () => this.choose(this.best.threshold) },
      "Use this threshold");
    this.element = h("section", { class: "card", id: "threshold", "aria-labelledby": "threshold-title" },
      h("div", { class: "card-head" }, h("h2", { id: "threshold-title" }, "Threshold")),
      h("div", { class: "slider" },
        h("label", { for: "threshold-slider" }, "Call cases positive at scores from ", this.shown),
        this.slider,
        h("div", { class: "slider-ends", "aria-hidden": true }, h("span", {}, "all positive"), h("span", {}, "none positive"))),
      h("div", { class: "decision" }, this.confusion(),
        h("dl", { class: "facts" }, Object.values(this.facts).map(({ title, value }) => h("div", {}, h("dt", {}, title), value)))),
      h("fieldset", { class: "costs" },
        h("legend", {}, "What an error costs"),
        h("label", {}, "False positive ", this.costFp),
        h("label", {}, "Missed positive ", this.costFn)),
      h("div", { class: "advice-row" }, this.advice, this.adopt));
  }

  confusion() {
    const { tp, fp, fn, tn } = this.cells;
    return h("table", { class: "confusion" },
      h("caption", {}, "Cases at this threshold"),
      h("thead", {}, h("tr", {}, h("td", {}), h("th", { scope: "col" }, "are positive"), h("th", { scope: "col" }, "are negative"))),
      h("tbody", {},
        h("tr", {}, h("th", { scope: "row" }, "called positive"), tp, fp),
        h("tr", {}, h("th", { scope: "row" }, "called negative"), fn, tn)));
  }

  costInput(id, value) {
    return h("input", {
      type: "number", id, min: 0, step: "any", inputmode: "decimal", value,
      oninput: () => {
        const costs = [this.costFp, this.costFn].map((input) => input.valueAsNumber);
        if (costs.every((each) => each >= 0) && costs.some((each) => each > 0)) {
          this.costs = costs;
          this.changed(this);
          this.show();
        }
      },
    });
  }

  /** Use newer counts; keep the threshold as closely as the operating points allow. */
  update(curve, hull, positives, negatives) {
    Object.assign(this, { curve, hull, positives, negatives });
    this.slider.max = curve.thresholds.length - 1;
    this.show();
  }

  choose(threshold) {
    this.at = threshold;
    this.show();
    this.changed(this);
  }

  show() {
    if (!this.curve) return;
    const vertex = cheapestVertex(this.hull, ...this.costs);
    this.best = { threshold: this.hull.thresholds[vertex], fp: this.hull.fp[vertex], tp: this.hull.tp[vertex] };
    const index = pointAt(this.curve, this.at ?? this.declared ?? this.best.threshold);
    const threshold = this.curve.thresholds[index];
    const [fp, tp] = [this.curve.fp[index], this.curve.tp[index]];
    this.chosen = { threshold, fp, tp };
    this.slider.value = this.slider.max - index; // higher scores to the right
    this.slider.setAttribute("aria-valuetext", `${score(threshold)}: precision ${percent(share(tp, tp + fp))}, recall ${percent(share(tp, this.positives))}`);
    setText(this.shown, score(threshold));
    this.shown.dataset.value = threshold;
    const shown = { tp, fp, fn: this.positives - tp, tn: this.negatives - fp };
    for (const [name, value] of Object.entries(shown)) setText(this.cells[name], count(value));
    setText(this.facts.precision.value, percent(share(tp, tp + fp)));
    setText(this.facts.recall.value, percent(share(tp, this.positives)));
    setText(this.facts.fpr.value, percent(share(fp, this.negatives)));
    setText(this.facts.cost.value, COST.format(this.cost(fp, tp)));
    setText(this.facts.each.value, figure(this.cost(fp, tp) / (this.positives + this.negatives)));
    this.advise();
  }

  cost(fp, tp) {
    return this.costs[0] * fp + this.costs[1] * (this.positives - tp);
  }

  advise() {
    const { threshold, fp, tp } = this.best;
    const what = threshold === Infinity ? "call nothing positive"
      : threshold === -Infinity ? "call everything positive" : `run at ${score(threshold)}`;
    const ratio = this.costs[0] > 0 ? `${Number((this.costs[1] / this.costs[0]).toPrecision(3))} : 1` : "∞ : 1";
    setText(this.advice, `At a cost ratio of ${ratio} (missed to false positives) the best threshold: ${what}. `
      + `Cost ${COST.format(this.cost(fp, tp))}, recall ${percent(share(tp, this.positives))}, precision ${percent(share(tp, tp + fp))}.`);
    this.advice.dataset.threshold = threshold;
    this.adopt.disabled = this.chosen.fp === fp && this.chosen.tp === tp;
  }
}

const share = (part, whole) => (whole > 0 ? part / whole : undefined);
