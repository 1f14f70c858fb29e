// The head of one stream's view: its name, the window and segment that are shown, and how to choose others.

import { fill, h, setText } from "./dom.js";
import { count, dated, period, segmentValue, span } from "./format.js";
import { between, seconds, segmentText, toCompare, toStreams, windowBetween, WINDOWS } from "./route.js";
import { TakeMenu } from "./take_menu.js";

export class StreamHead {
  /** `link(change)` returns the link to the view with another window or segment. */
  constructor(name, link) {
    Object.assign(this, { name, link });
    this.title = h("h1", { tabindex: -1 }, name);
    this.windows = h("nav", { class: "segmented", "aria-label": "Window" });
    this.chip = h("span", { class: "chips" });
    this.compare = h("a", { class: "button" }, "Compare");
    this.take = new TakeMenu(name, link);
    this.covered = h("p", { class: "summary", id: "covered" });
    this.internals = h("p", { id: "internals" });
    this.element = h("div", { class: "view-head" },
      h("nav", { "aria-label": "Breadcrumb", class: "crumbs" }, h("a", { href: toStreams() }, "Streams")),
      h("div", { class: "title-row" }, this.title, this.chip, h("div", { class: "actions" }, this.compare, this.take.element)),
      h("div", { class: "window-row" }, this.windows, this.custom(), this.covered,
        h("details", { class: "custom internals" }, h("summary", {}, "Details"), this.internals)));
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

  /** Follow the URL: the window and the segment. */
  choose(window, segment) {
    const ends = between(window);
    const listed = WINDOWS.some(([key]) => key === window) ? WINDOWS
      : [...WINDOWS, [window, ends ? period(...ends) : span(seconds(window))]];
    const focused = this.windows.contains(document.activeElement);
    fill(this.windows, listed.map(([key, title]) =>
      h("a", { href: this.link({ window: key }), "aria-current": key === window ? "true" : null }, title)));
    if (focused) this.windows.querySelector("[aria-current]")?.focus();
    fill(this.chip, segment ? h("span", { class: "chip" },
      h("span", { class: "key" }, segment.key), " ", segmentValue(segment.value),
      h("a", { href: this.link({ segment: null }), "aria-label": "Show the whole stream" }, "×")) : null);
    this.compare.href = this.comparison(window, segment);
    this.take.choose(window, segment);
  }

  /** The comparison that the view suggests: a part with the whole. */
  comparison(window, segment) {
    const side = (prefix, shown, chosen) => ({
      [prefix]: this.name, [`${prefix}.window`]: shown, [`${prefix}.segment`]: chosen ? segmentText(chosen) : "",
    });
    return toCompare(window === "all" && !segment
      ? { ...side("a", "24h", null), ...side("b", "all", null) }
      : { ...side("a", window, segment), ...side("b", segment ? window : "all", null) });
  }

  /** Say which time a snapshot covers, and how it is kept. */
  show(snapshot) {
    const { window } = snapshot;
    setText(this.covered, window ? period(new Date(window.startTime), new Date(window.endTime)) : "Since the stream was made");
    this.take.follow(snapshot);
    setText(this.internals, `Revision ${count(Number(snapshot.revision))} of the server's log. `
      + `Scores are kept ${snapshot.resolution ? `to ${snapshot.resolution} significant bits` : "exactly"}.`);
  }

  /** What is seen, in words, for the pictures and files that leave the page. */
  about({ window }, segment) {
    const seen = window ? dated(new Date(window.startTime), new Date(window.endTime)) : "all time";
    return [this.name, ...(segment ? [`${segment.key} = ${segmentValue(segment.value)}`] : []), seen].join(", ");
  }
}
