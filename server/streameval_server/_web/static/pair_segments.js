// The difference of a pair in each segment of a key that the reader chooses.

import { fill, h, setText } from "./dom.js";
import { count, keyTitle, segmentValue, signed } from "./format.js";

export class PairSegments {
  /** `choose()` is called when the reader has chosen another key. It stays open while answers come. */
  constructor(choose) {
    this.key = ""; // as in the URL: empty is the first one
    this.heading = h("summary");
    this.select = h("select", { id: "pair-key", onchange: () => { this.key = this.select.value; choose(); } });
    this.choices = h("div", { class: "choices" }, h("label", { for: "pair-key" }, "Segments by"), this.select);
    this.body = h("div", { class: "scroll", tabindex: 0, role: "region" });
    this.element = h("details", { id: "paired-segments", hidden: true }, this.heading, this.choices, this.body);
  }

  /** The key to compare by: the chosen one where the pair has it, else its first one; empty without any. */
  keyOf(pair) {
    const keys = pair.settings.segmentKeys;
    if (JSON.stringify(keys) !== this.listed) {
      this.listed = JSON.stringify(keys);
      fill(this.select, keys.map((each) => h("option", { value: each }, keyTitle(each))));
    }
    this.choices.hidden = keys.length < 2;
    const key = keys.includes(this.key) ? this.key : keys[0] ?? "";
    this.select.value = key;
    return key;
  }

  /** Show the comparisons of each value; nothing without any. */
  show(segments, isTurned, [nameA, nameB]) {
    this.element.hidden = !segments?.length;
    if (this.element.hidden) return;
    const title = keyTitle(segments[0].segment.key);
    setText(this.heading, `By ${title}`);
    this.body.setAttribute("aria-label", `The difference by ${title}`);
    const row = (each) => {
      const { value, limits } = turned(each, isTurned);
      return h("tr", {}, h("th", { scope: "row" }, segmentValue(each.segment.value)),
        h("td", { class: "number" }, count(Number(each.coverage.labelled))), h("td", { class: "number" }, signed(value)),
        h("td", { class: "number" }, limits ? `${signed(limits.lower)} to ${signed(limits.upper)}` : "no interval"));
    };
    fill(this.body,
      h("table", { class: "data" }, h("caption", {}, `${nameB} minus ${nameA}, the most shared ids first; intervals of one look, not adjusted for their number`),
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, title),
          ["Labelled ids", "Difference", "95 % interval"].map((each) => h("th", { scope: "col", class: "number" }, each)))),
        h("tbody", {}, segments.map(row))));
  }
}

/** The difference, challenger minus champion: the view's B minus its A. `isTurned`: the view's A is the pair's b. */
export function turned(found, isTurned) {
  const { value, interval: limits } = found.compared.difference;
  if (limits?.lower === undefined) return { value: isTurned || value === undefined ? value : -value, limits: null };
  return isTurned ? { value, limits } : { value: -value, limits: { lower: -limits.upper, upper: -limits.lower } };
}
