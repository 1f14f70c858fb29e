// Ranks segments by how much worse each is than the rest of its window.

import { fill, h, redraw, setText, svg } from "./dom.js";
import { count, figure, keyTitle, moment, percent, pValue, reason, segmentName, signed, titleOf, valueTitle } from "./format.js";
import { HEADLINE } from "./metrics.js";

const MAX_SHOWN_ROWS = 12;
const MAX_SIGNIFICANT_P = 0.05; // p-values are adjusted for the number of segments
const SIZES = [0, 10, 20, 50, 100, 500];
export const MIN_CASES = 10; // positives and negatives of a segment, unless others are chosen

export class SegmentsCard {
  /** `toSegment(segment)` returns the link to a segment; `changed({key, least})` gets what to rank. */
  constructor(toSegment, changed) {
    Object.assign(this, { toSegment, key: "", least: MIN_CASES, falls: new Map() });
    const choose = () => changed({ key: this.byKey.value, least: Number(this.size.value) });
    this.byKey = h("select", { id: "segment-key", onchange: choose });
    this.size = h("select", { id: "segment-least", onchange: choose }, SIZES.map((each) =>
      h("option", { value: each }, each ? `at least ${each} of each class` : "of any size")));
    this.choices = h("div", { class: "choices" }, h("label", { for: "segment-key" }, "By"), this.byKey,
      h("label", { for: "segment-least" }, "Size"), this.size);
    this.body = h("div", { class: "scroll" });
    this.more = h("button", { type: "button", class: "quiet", hidden: true, onclick: () => { this.isWhole = true; this.show(); } });
    this.note = h("p", { class: "note" });
    this.crossing = h("p", { class: "note" });
    this.element = h("section", { class: "card", id: "segments", "aria-labelledby": "segments-title" },
      h("div", { class: "card-head" }, h("h2", { id: "segments-title" }, "Segments, the worst first"), this.choices),
      this.body, this.more, this.note, this.crossing);
  }

  /** Show that the stream declares no segment keys. */
  undeclared(name) {
    this.more.hidden = this.choices.hidden = true;
    redraw(this.body, () => fill(this.body, h("p", { class: "empty" }, `${name} declares no segment keys. Declare some to see where the model performs worse:`),
      h("pre", { tabindex: 0 }, h("code", {}, `client.update_stream("${name}", segment_keys=["country"])`))));
  }

  /** Show the keys that a stream declares, and what is ranked. */
  choose(keys, { key, least }) {
    this.choices.hidden = false;
    Object.assign(this, { key, least });
    const listed = ["", ...keys];
    if (JSON.stringify(listed) !== this.listed) {
      this.listed = JSON.stringify(listed);
      fill(this.byKey, listed.map((each) => h("option", { value: each }, each ? keyTitle(each) : "all keys")));
    }
    this.byKey.value = key;
    this.size.value = String(least);
    const plain = keys.filter((each) => !each.includes("*"));
    const isUncrossed = plain.length > 1 && plain.length === keys.length;
    setText(this.crossing, isUncrossed ? `To cross two keys, declare ${plain[0]}*${plain[1]} as a segment key of the stream: it counts cases from then on.` : "");
  }

  update(answer, selected) {
    Object.assign(this, { ranked: answer.segments, selected, prevalence: answer.prevalence });
    const left = Number(answer.numLeftOut);
    setText(this.note, `Each segment is compared with the rest of the window, all at a prevalence of ${percent(answer.prevalence)}, the greatest of these segments. `
      + "Intervals are per segment; p is adjusted for the number of segments (Holm), and below 0.05 the difference is drawn in colour."
      + (left ? ` ${count(left)} smaller ${left === 1 ? "segment is" : "segments are"} left out.` : ""));
    this.show();
  }

  /** Say since when segments are lower: from their name to {since, by, range, warnings}. */
  fell(falls) {
    this.falls = falls;
    this.show();
  }

  /** Draw the last ranking again; the links follow the URL. */
  show() {
    redraw(this.body, () => this.draw());
  }

  draw() {
    const { ranked, selected } = this;
    if (!ranked) return;
    if (!ranked.length) {
      this.more.hidden = true;
      fill(this.body, h("p", { class: "empty" }, this.least ? "No segment has this number of labelled cases of each class in this window." : "No segment has labelled cases in this window."));
      return;
    }
    const focused = this.body.contains(document.activeElement) ? document.activeElement.textContent : null;
    const shown = this.isWhole ? ranked : ranked.slice(0, MAX_SHOWN_ROWS);
    this.more.hidden = shown.length === ranked.length;
    this.more.textContent = `Show all ${ranked.length}`;
    const reach = reachOf(ranked);
    fill(this.body, h("table", { class: "data ranked" },
      h("caption", { class: "hidden" }, "Segments by how much worse they are than the rest, the worst first"),
      h("thead", {}, h("tr", {},
        h("th", { scope: "col" }, "Segment"),
        h("th", { scope: "col", class: "number" }, this.valueTitle),
        h("th", { scope: "col", class: "number" }, "Difference"),
        h("th", { scope: "col", class: "drawn" }, h("span", { class: "hidden" }, "Interval drawn; "), `−${figure(reach, 2)} … +${figure(reach, 2)}`),
        h("th", { scope: "col", class: "number" }, "95 % interval"),
        h("th", { scope: "col", class: "number" }, "p"),
        h("th", { scope: "col", class: "number" }, "Positives"),
        h("th", { scope: "col", class: "number" }, "Labelled"),
        h("th", { scope: "col" }, "Lower since about"))),
      h("tbody", {}, shown.map((each) => this.row(each, reach, selected)))));
    if (focused) [...this.body.querySelectorAll("a")].find((each) => each.textContent === focused)?.focus();
  }

  /** The title of the values, which are all at one prevalence. */
  get valueTitle() {
    return `${titleOf(HEADLINE)} at ${percent(this.prevalence)}`;
  }

  row(each, reach, selected) {
    const { key, value } = each.segment;
    const isSelected = selected && selected.key === key && selected.value === value;
    const limits = each.difference.interval;
    const fall = this.falls.get(segmentName(each.segment));
    return h("tr", { class: isSelected ? "selected" : null },
      h("th", { scope: "row" }, h("a", { href: this.toSegment(each.segment), "aria-current": isSelected ? "true" : null },
        h("span", { class: "key" }, keyTitle(key)), " ", valueTitle(each.segment))),
      h("td", { class: "number", "data-title": this.valueTitle }, each.value.value === undefined ? h("span", { class: "reason" }, reason(each.value)) : figure(each.value.value)),
      h("td", { class: "number", "data-title": "Difference" },
        each.difference.value === undefined && each.value.value !== undefined ? h("span", { class: "reason" }, `the rest: ${reason(each.difference)}`) : signed(each.difference.value)),
      h("td", { class: "drawn" }, whisker(each, reach)),
      h("td", { class: "number", "data-title": "95 % interval" }, limits?.lower === undefined ? "–" : `${signed(limits.lower)} to ${signed(limits.upper)}`),
      h("td", { class: "number", "data-title": "p" }, pValue(each.pValue)),
      h("td", { class: "number", "data-title": "Positives" }, count(Number(each.numPositiveRef))),
      h("td", { class: "number", "data-title": "Labelled" }, percent(each.coverage?.labelledShare)),
      h("td", { "data-title": "Lower since about" }, fall ? fallTime(fall) : ""));
  }
}

/** When a segment fell, most likely, between which steps with 95 % confidence, and what looks the same. */
function fallTime({ since, range: [first, last], warnings }) {
  const range = first.getTime() === last.getTime() ? null : h("span", { class: "limits" }, ` ${moment(first)} to ${moment(last)}`);
  return [moment(since), range, ...warnings.map((each) => h("span", { class: "limits" }, ` ${each}`))];
}

function reachOf(ranked) {
  const ends = ranked.flatMap(({ difference }) => [difference.value, difference.interval?.lower, difference.interval?.upper])
    .filter((end) => end !== undefined).map(Math.abs);
  return Math.min(1, Math.ceil(Math.max(0.05, ...ends) * 20) / 20);
}

/** A dot with its interval on an axis from -reach to +reach, coloured where the difference is significant. */
function whisker({ difference, pValue: p }, reach) {
  const at = (value) => 60 + 58 * Math.max(-1, Math.min(1, value / reach));
  const limits = difference.interval;
  const significance = !(p < MAX_SIGNIFICANT_P) ? "" : difference.value < 0 ? "worse" : "better";
  return svg("svg", { class: `whisker ${significance}`, viewBox: "0 0 120 16", width: 120, height: 16, "aria-hidden": true },
    svg("line", { class: "middle", x1: 60, x2: 60, y1: 0, y2: 16 }),
    limits?.lower === undefined ? null
      : svg("line", { class: "reach", x1: at(limits.lower), x2: at(limits.upper), y1: 8, y2: 8 }),
    difference.value === undefined ? null : svg("circle", { cx: at(difference.value), cy: 8, r: 3.5 }));
}
