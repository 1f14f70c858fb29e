// The head of one stream's view: its name, the window and segment that are shown, and how to choose others.

import { fill, h, setText } from "./dom.js";
import { chooseUtc, count, dated, fieldOf, isUtc, keyTitle, period, span, timeOf, valueTitle, zone } from "./format.js";
import { between, seconds, segmentText, toCompare, toStreams, windowBetween, WINDOWS } from "./route.js";
import { closing, info } from "./popover.js";
import { TakeMenu } from "./take_menu.js";

export class StreamHead {
  /**
   * `link(change)` returns the link to the view with another window or segment; `zoned()` is called when
   * times are to be shown in another zone; `caveats` is the list of what the limits assume.
   */
  constructor(name, link, zoned, caveats) {
    Object.assign(this, { name, link, zoned, isEdited: false });
    this.title = h("h1", { tabindex: -1 }, name);
    this.windows = h("nav", { class: "segmented", "aria-label": "Window" });
    this.chip = h("span", { class: "chips" });
    this.compare = h("a", { class: "button" }, "Compare");
    this.take = new TakeMenu(name, link);
    this.covered = h("p", { class: "summary", id: "covered" });
    this.internals = h("p", { id: "internals" });
    this.actions = h("div", { class: "actions" }, this.compare, this.take.element);
    this.windowRow = h("div", { class: "window-row" }, this.windows, this.custom(),
      h("div", { class: "covered" }, this.covered, info("this view", [caveats, this.internals])));
    this.element = h("div", { class: "view-head" },
      h("div", { class: "title-row" }, h("nav", { "aria-label": "Breadcrumb", class: "crumbs" }, h("a", { href: toStreams() }, "Streams")),
        this.title, this.chip, this.actions), this.windowRow);
  }

  /** The form for a window between two times; it has those that are shown. */
  custom() {
    const field = (id) => h("input", { type: "datetime-local", id, required: true, oninput: () => { this.isEdited = true; } });
    [this.from, this.to] = [field("from"), field("to")];
    const { from, to } = this;
    this.zone = h("button", { type: "button", class: "quiet", id: "zone", onclick: () => this.changeZone() });
    this.zoneNote = h("p", { class: "note", id: "zone-note" });
    this.customBox = h("details", { class: "custom", ontoggle: () => { this.isEdited = false; } }, h("summary", {}, "Custom range"),
      h("form", {
        onsubmit: (event) => {
          event.preventDefault();
          const [start, end] = [timeOf(from.value), timeOf(to.value)];
          to.setCustomValidity(start < end ? "" : "The end must be after the start.");
          if (!to.reportValidity()) return;
          this.customBox.open = false;
          location.hash = this.link({ window: windowBetween(start, end) });
        },
        oninput: () => to.setCustomValidity(""),
      }, h("label", { for: "from" }, "From"), from, h("label", { for: "to" }, "to"), to, h("button", { type: "submit" }, "Show"),
      h("div", { class: "zone" }, this.zoneNote, this.zone)));
    this.showZone();
    return closing(this.customBox);
  }

  changeZone() {
    const [start, end] = [this.from, this.to].map(({ value }) => value && timeOf(value));
    chooseUtc(!isUtc());
    this.showZone();
    if (start && end) [this.from.value, this.to.value] = [fieldOf(start), fieldOf(end)];
    this.zoned();
  }

  showZone() {
    setText(this.zoneNote, isUtc() ? "All times are in UTC." : `All times are local: ${zone()}.`);
    setText(this.zone, isUtc() ? "Show local time" : "Show UTC");
  }

  /** Follow the URL: the window and the segment. */
  choose({ window, segment, mature }) {
    const ends = between(window);
    const listed = WINDOWS.some(([key]) => key === window) ? WINDOWS
      : [...WINDOWS, [window, ends ? period(...ends) : span(seconds(window))]];
    const focused = this.windows.contains(document.activeElement);
    fill(this.windows, listed.map(([key, title]) =>
      h("a", { href: this.link({ window: key }), "aria-current": key === window ? "true" : null }, title)));
    if (focused) this.windows.querySelector("[aria-current]")?.focus();
    const chip = (shown, change, label) => h("span", { class: "chip" }, shown, h("a", { href: this.link(change), "aria-label": label }, "×"));
    fill(this.chip,
      segment ? chip([h("span", { class: "key" }, keyTitle(segment.key)), " ", valueTitle(segment)], { segment: null }, "Show the whole stream") : null,
      mature ? chip(`without the newest ${span(seconds(mature))}`, { mature: "" }, "Show young cases, too") : null);
    this.compare.href = this.comparison(window, segment);
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

  /** Offer what can be done with a stream, or only its name where there is no such stream. */
  offer(isStream) {
    this.actions.hidden = this.windowRow.hidden = !isStream;
  }

  /** Say which time a snapshot covers, and how it is kept. */
  show(snapshot) {
    this.offer(true);
    const { window } = snapshot;
    const ends = window && [new Date(window.startTime), new Date(window.endTime)];
    setText(this.covered, ends ? `${period(...ends)}, ${isUtc() ? "UTC" : "local time"}` : "Since the stream was made");
    if (ends && !this.isEdited) [this.from.value, this.to.value] = ends.map(fieldOf);
    this.take.follow(snapshot);
    setText(this.internals, `Revision ${count(Number(snapshot.revision))} of the server's log. `
      + `Scores are kept ${snapshot.resolution ? `to ${snapshot.resolution} significant bits` : "exactly"}.`);
  }

  /** What is seen, in words, for the pictures and files that leave the page. */
  about({ window }, segment) {
    const seen = window ? dated(new Date(window.startTime), new Date(window.endTime)) : "all time";
    return [this.name, ...(segment ? [`${keyTitle(segment.key)} = ${valueTitle(segment)}`] : []), seen].join(", ");
  }
}
