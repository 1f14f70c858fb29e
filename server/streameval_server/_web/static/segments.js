// Ranks segments by how much worse each is than the rest of its window.

import { fill, h, redraw, svg } from "./dom.js";
import { count, figure, percent, pValue, reason, segmentValue, signed, titleOf } from "./format.js";
import { HEADLINE } from "./metrics.js";

const MAX_SHOWN_ROWS = 12;
const MAX_SIGNIFICANT_P = 0.05; // p-values are adjusted for the number of segments

export class SegmentsCard {
  /** `toSegment(segment)` returns the link to a segment. */
  constructor(toSegment) {
    this.toSegment = toSegment;
    this.body = h("div", { class: "scroll" });
    this.more = h("button", { type: "button", class: "quiet", hidden: true, onclick: () => { this.isWhole = true; this.show(); } });
    this.element = h("section", { class: "card", id: "segments", "aria-labelledby": "segments-title" },
      h("div", { class: "card-head" }, h("h2", { id: "segments-title" }, "Segments, the worst first")),
      this.body, this.more,
      h("p", { class: "note" }, "Each segment is compared with the rest of the window, at the window's prevalence. "
        + "Intervals are per segment; p is adjusted for the number of segments (Holm), and below 0.05 the difference is drawn in colour."));
  }

  /** Show that the stream declares no segment keys. */
  undeclared(name) {
    this.more.hidden = true;
    redraw(this.body, () => fill(this.body, h("p", { class: "empty" }, `${name} declares no segment keys. Declare some to see where the model performs worse:`),
      h("pre", { tabindex: 0 }, h("code", {}, `client.update_stream("${name}", segment_keys=["country"])`))));
  }

  update(ranked, selected) {
    Object.assign(this, { ranked, selected });
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
      fill(this.body, h("p", { class: "empty" }, "No segment has labelled cases in this window."));
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
        h("th", { scope: "col", class: "number" }, titleOf(HEADLINE)),
        h("th", { scope: "col", class: "number" }, "Difference"),
        h("th", { scope: "col", class: "drawn" }, h("span", { class: "hidden" }, "Interval drawn; "), `−${figure(reach, 2)} … +${figure(reach, 2)}`),
        h("th", { scope: "col", class: "number" }, "95 % interval"),
        h("th", { scope: "col", class: "number" }, "p"),
        h("th", { scope: "col", class: "number" }, "Positives"),
        h("th", { scope: "col", class: "number" }, "Labelled"))),
      h("tbody", {}, shown.map((each) => this.row(each, reach, selected)))));
    if (focused) [...this.body.querySelectorAll("a")].find((each) => each.textContent === focused)?.focus();
  }

  row(each, reach, selected) {
    const { key, value } = each.segment;
    const isSelected = selected && selected.key === key && selected.value === value;
    const limits = each.difference.interval;
    return h("tr", { class: isSelected ? "selected" : null },
      h("th", { scope: "row" }, h("a", { href: this.toSegment(each.segment), "aria-current": isSelected ? "true" : null },
        h("span", { class: "key" }, key), " ", segmentValue(value))),
      h("td", { class: "number", "data-title": titleOf(HEADLINE) }, each.value.value === undefined ? h("span", { class: "reason" }, reason(each.value)) : figure(each.value.value)),
      h("td", { class: "number", "data-title": "Difference" }, signed(each.difference.value)),
      h("td", { class: "drawn" }, whisker(each, reach)),
      h("td", { class: "number", "data-title": "95 % interval" }, limits?.lower === undefined ? "–" : `${signed(limits.lower)} to ${signed(limits.upper)}`),
      h("td", { class: "number", "data-title": "p" }, pValue(each.pValue)),
      h("td", { class: "number", "data-title": "Positives" }, count(Number(each.numPositiveRef))),
      h("td", { class: "number", "data-title": "Labelled" }, percent(each.coverage?.labelledShare)));
  }
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

