// Who: each segment with its figure, its course, how much worse than the rest it is. The worst first.

import { fill, h, redraw, setText } from "./dom.js";
import { count, figure, interval, keyTitle, moment, percent, pValue, reason, segmentName, signed, titleOf, valueTitle } from "./format.js";
import { HEADLINE } from "./metrics.js";
import { info } from "./popover.js";
import { intervals, measures, numbers, periods, sheetCsv, words } from "./sheet.js";
import { scaleOf, sparkline } from "./sparkline.js";
import { aboutOf, fileName, save } from "./take.js";

const MAX_SHOWN_ROWS = 6;
const MAX_SIGNIFICANT_P = 0.05; // p-values are adjusted for the number of segments
const SIZES = [0, 10, 20, 50, 100, 500];
export const MIN_CASES = 10; // positives and negatives of a segment, unless others are chosen

export class SegmentsCard {
  /** `toSegment(segment)` returns the link to a segment; `changed({key, least})` gets what to rank. */
  constructor(toSegment, changed) {
    Object.assign(this, { toSegment, key: "", least: MIN_CASES, trends: new Map(), shares: new Map() });
    const choose = () => changed({ key: this.byKey.value, least: Number(this.size.value) });
    this.byKey = h("select", { id: "segment-key", onchange: choose });
    this.size = h("select", { id: "segment-least", onchange: choose }, SIZES.map((each) =>
      h("option", { value: each }, each ? `at least ${each} of each class` : "of any size")));
    this.choices = h("div", { class: "choices" }, h("label", { for: "segment-key" }, "By"), this.byKey,
      h("label", { for: "segment-least" }, "Size"), this.size);
    this.body = h("div", { class: "scroll" });
    this.more = h("button", { type: "button", class: "quiet", hidden: true, onclick: () => { this.isWhole = true; this.show(); } });
    this.left = h("span", { class: "summary" });
    this.take = h("button", { type: "button", class: "take", "aria-label": "Segments: save their steps", hidden: true, onclick: () => this.save() }, "CSV");
    this.note = h("p", { class: "note" });
    this.crossing = h("p", { class: "note" });
    this.element = h("section", { class: "card", id: "segments", "aria-labelledby": "segments-title" },
      h("div", { class: "card-head" }, h("div", { class: "titled" }, h("h2", { id: "segments-title" }, "Segments"),
        info("segments", [this.note, this.crossing])), this.choices),
      this.body, h("div", { class: "card-foot" }, h("div", { class: "choices" }, this.more, this.left), h("div", { class: "takes" }, this.take)));
  }

  /** Show that the stream declares no segment keys. */
  undeclared(name) {
    this.more.hidden = this.choices.hidden = true;
    redraw(this.body, () => fill(this.body, h("p", { class: "empty" }, "No segment keys are declared. To see where the model is worse:"),
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
    setText(this.note, `Each segment against the rest of the window, at a prevalence of ${percent(answer.prevalence)}, the greatest of these segments. `
      + "Limits are of each segment alone; p is adjusted for their number (Holm), and a difference below 0.05 has a colour. "
      + "The lines have one scale, each step at its own prevalence.");
    setText(this.left, left ? `${count(left)} smaller ${left === 1 ? "segment is" : "segments are"} left out.` : "");
    this.show();
  }

  /** Show the steps of segments: `loadTrends` has them by name. */
  follow(trends) {
    this.trends = trends;
    this.take.hidden = !trends.size;
    this.show();
  }

  /** Take the verdict on the whole stream: how much of a fall each segment explains. */
  judge({ because }) {
    this.shares = new Map(because.map(({ segment, share }) => [segmentName(segment), share]));
    this.show();
  }

  /** Draw the last ranking again; the links follow the URL. */
  show() {
    redraw(this.body, () => this.draw());
  }

  draw() {
    const { ranked } = this;
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
    const trends = shown.map((each) => this.trends.get(segmentName(each.segment)));
    const scale = scaleOf(trends.map((each) => each?.values ?? []));
    const columns = [["Segment"], [this.valueTitle, "number"], ...(scale ? [[`${figure(scale.low, 2)} to ${figure(scale.high, 2)}`, "spark"]] : []),
      ["Difference", "number"], ["p", "number"], ["Positives", "number"]];
    fill(this.body, h("table", { class: "data ranked" },
      h("caption", { class: "hidden" }, "Segments by how much worse they are than the rest, the worst first"),
      h("thead", {}, h("tr", {}, columns.map(([title, kind]) => h("th", { scope: "col", class: kind ?? null }, title)))),
      h("tbody", {}, shown.map((each, index) => this.row(each, trends[index], scale)))));
    if (focused) [...this.body.querySelectorAll("a")].find((each) => each.textContent === focused)?.focus();
  }

  /** The title of the values, which are all at one prevalence. */
  get valueTitle() {
    return `${titleOf(HEADLINE)} at ${percent(this.prevalence)}`;
  }

  row(each, trend, scale) {
    const { segment, value, difference } = each;
    const isSelected = this.selected && segmentName(this.selected) === segmentName(segment);
    const cell = (title, kind, ...content) => h("td", { class: kind, "data-title": title }, content.flat());
    const low = (text) => (text ? h("span", { class: "limits" }, text) : null);
    return h("tr", { class: isSelected ? "selected" : null },
      h("th", { scope: "row" }, h("a", { href: this.toSegment(segment), "aria-current": isSelected ? "true" : null },
        h("span", { class: "key" }, keyTitle(segment.key)), " ", valueTitle(segment)), low(this.explained(segment))),
      cell(this.valueTitle, "number", value.value === undefined ? h("span", { class: "reason" }, reason(value)) : figure(value.value), low(interval(value.interval))),
      scale ? h("td", { class: "spark" }, trend ? sparkline(trend.values, { places: trend.places, scale }) : null) : null,
      cell("Difference", `number difference ${significance(each)}`, difference.value === undefined && value.value !== undefined
        ? h("span", { class: "reason" }, `the rest: ${reason(difference)}`) : signed(difference.value), low(limitsOf(difference))),
      cell("p", "number", pValue(each.pValue)),
      cell("Positives", "number", count(Number(each.numPositiveRef)), low(each.coverage ? `${percent(each.coverage.labelledShare)} labelled` : "")));
  }

  /** How much of the fall of the verdict goes away with this segment's: "explains 90 %". */
  explained(segment) {
    const name = segmentName(segment);
    if (!this.shares.has(name)) return "";
    const share = this.shares.get(name);
    return share === undefined ? "has evidence of its own" : `explains ${Math.round(100 * share)} % of the change`;
  }

  /** The rows of the file: the steps of each segment. */
  sheet() {
    return {
      columns: [words("Segment"), periods("From", (start) => moment(start)), measures(titleOf(HEADLINE), HEADLINE),
        intervals("95 % interval", HEADLINE), numbers("Positives", count), numbers("Negatives", count)],
      rows: [...this.trends.values()].flatMap(({ segment, rows }) => rows.map((each) =>
        [segmentName(segment), [each.start, each.end], each.value, each.value.interval, each.positives, each.negatives])),
    };
  }

  save() {
    save(fileName(`${aboutOf(this.element)} segments`, "csv"), sheetCsv(this.sheet()), "text/csv");
  }
}

/** The limits of a difference; "" without. */
function limitsOf({ interval: limits }) {
  return limits?.lower === undefined ? "" : `${signed(limits.lower)} to ${signed(limits.upper)}`;
}

/** What colours a difference; the adjusted p decides, because of many intervals one in twenty misses. */
function significance({ difference, pValue: p }) {
  return !(p < MAX_SIGNIFICANT_P) ? "" : difference.value < 0 ? "worse" : "better";
}
