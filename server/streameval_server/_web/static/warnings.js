// The warnings of a snapshot in the page's words, with a button that does what a warning advises; caveats of limits apart.

import { fill, h, redraw } from "./dom.js";
import { span } from "./format.js";
import { sentence } from "./states.js";

// What they say is of limits, and asks nothing of a reader.
const CAVEATS = ["WARNING_KIND_COARSE_SCORES", "WARNING_KIND_CLUSTERS_OF_WHOLE", "WARNING_KIND_DEPENDENT_CASES"];

export class Warnings {
  /** `link(change)` returns the link to the view with another selection. */
  constructor(link) {
    this.link = link;
    this.element = h("ul", { class: "warnings", id: "warnings" });
    this.caveats = h("ul", { class: "caveats", id: "caveats" }); // behind an (i)
  }

  /** Show those of a snapshot; `typicalS` is the time in which nine labels of ten arrive, if it is known. */
  show(snapshot, typicalS) {
    const kinds = snapshot.warningKinds ?? [];
    const all = snapshot.warnings.map((text, index) => [CAVEATS.includes(kinds[index]), ...worded(kinds[index], text, typicalS)]);
    const key = JSON.stringify(all);
    if (key === this.key) return; // a button that is pressed stays
    this.key = key;
    this.list(this.element, all.filter(([isCaveat]) => !isCaveat));
    this.list(this.caveats, all.filter(([isCaveat]) => isCaveat));
  }

  list(element, listed) {
    element.hidden = !listed.length;
    redraw(element, () => fill(element, listed.map(([, text, action, change]) =>
      h("li", {}, text, ...(action ? [" ", h("a", { class: "button quiet", href: this.link(change) }, action)] : [])))));
  }

  clear() {
    this.key = null;
    fill(this.element);
    fill(this.caveats);
  }
}

/** [words, what a button says, the change of the selection that it makes]. */
export function worded(kind, text, typicalS) {
  const isKnown = Number.isFinite(typicalS) && typicalS > 0;
  switch (kind) {
    case "WARNING_KIND_LABELS_TO_COME":
      return [`Most of these cases are younger than the ${isKnown ? `${span(typicalS)} ` : "time "}in which nine labels of ten arrive: the figures will change.`,
        ...(isKnown ? ["Leave young cases out", { mature: `${Math.ceil(typicalS)}s` }] : [])];
    case "WARNING_KIND_NOTHING_MATURE":
      return ["No case of this window is old enough: young cases are left out.", "Show young cases, too", { mature: "" }];
    case "WARNING_KIND_SEGMENT_UNSEEN":
      return [sentence(text), "Show the whole stream", { segment: null }];
    case "WARNING_KIND_COARSE_SCORES":
      return ["Scores are kept rounded, because there are too many distinct ones: figures may be off by a little. The details say how."];
    case "WARNING_KIND_CLUSTERS_OF_WHOLE":
      return ["Cases that depend on one another are not counted apart in segments: limits are those of the whole, or may be too narrow."];
    case "WARNING_KIND_DEPENDENT_CASES":
      return ["Cases that come close together depend on one another, so the intervals are too narrow. They are right once the stream says what such cases share."];
    default:
      return [sentence(text)];
  }
}
