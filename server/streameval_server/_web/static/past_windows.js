// What would have happened: the newest windows of one length, each at the chosen threshold.

import { metric } from "./api.js";
import { h } from "./dom.js";
import { count, period, titleOf } from "./format.js";
import { COSTS } from "./metrics.js";
import { info } from "./popover.js";
import { between, errorCosts, selection, seconds, windowBetween } from "./route.js";
import { intervals, measures, numbers, periods, sheetCsv, sheetTable } from "./sheet.js";
import { aboutOf, fileName, save } from "./take.js";

const WINDOWS = 8;
const DAY_S = 86_400;
const METRICS = ["precision", "recall", ...COSTS];

export class PastWindows {
  /** `toWindow(window)` returns the link to a window. */
  constructor(toWindow) {
    this.toWindow = toWindow;
    this.body = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "At this threshold, the newest windows" });
    this.note = h("p", { class: "note" });
    this.element = h("div", { class: "past", id: "past" },
      h("div", { class: "titled" }, h("h3", {}, "What would have happened"), info("these windows", this.note)), this.body,
      h("div", { class: "card-foot" }, h("div", { class: "takes" },
        h("button", { type: "button", class: "take", "aria-label": "What would have happened: save its rows", onclick: () => this.save() }, "CSV"))));
  }

  /** Load the windows until the one that is shown; of all time, days. */
  async load(reader, threshold, costs) {
    const ends = between(reader.window);
    const lengthS = ends ? (ends[1] - ends[0]) / 1000 : seconds(reader.window) ?? DAY_S;
    const end = ends ? ends[1].getTime() : Date.now();
    const chosen = selection("selection.", windowBetween(new Date(end - WINDOWS * lengthS * 1000), new Date(end)), reader.segment);
    const { snapshots } = await reader.read("windows", { step: `${lengthS}s`, metrics: METRICS, threshold, ...errorCosts(costs) }, chosen);
    this.rows = snapshots.map((each) => pastWindow(each)).filter(({ cases }) => cases > 0);
    this.isDays = !ends && !seconds(reader.window);
  }

  /** Draw the windows, the newest first, with what their errors cost. */
  show(threshold) {
    this.threshold = threshold;
    this.element.hidden = !this.rows?.length;
    if (this.element.hidden) return;
    this.body.replaceChildren(sheetTable(this.sheet()));
    this.note.textContent = `The newest ${this.isDays ? "days" : "windows of this length"}, with ends on whole steps of time. The threshold is chosen on the cases that `
      + `are shown; ${this.rows.length > 1 ? "the windows before them are a test of it, unless you looked at them." : "there are no windows before them to test it on."}`;
  }

  sheet() {
    return {
      caption: "At this threshold, the newest window first",
      columns: [periods("Window", (start, end) => h("a", { href: this.toWindow(windowBetween(start, end)) }, period(start, end))),
        measures("Precision", "precision"), intervals("95 % interval", "precision", "Precision"),
        measures("Recall", "recall"), intervals("95 % interval", "recall", "Recall"),
        numbers("Flagged", count), numbers("False positives", count), numbers("Missed positives", count),
        measures(titleOf(COSTS[0]), COSTS[0]), intervals("95 % interval", COSTS[0], titleOf(COSTS[0]))],
      rows: this.rows.toReversed().map(({ ends, counts, precision, recall, cost }) => [
        ends, precision, precision.interval, recall, recall.interval,
        counts.tp + counts.fp, counts.fp, counts.fn, cost, cost.interval]),
    };
  }

  save() {
    save(fileName(`${aboutOf(this.element)} at ${this.threshold}`, "csv"), sheetCsv(this.sheet()), "text/csv");
  }
}

function pastWindow(snapshot) {
  const { window, operatingPoint } = snapshot;
  const counts = Object.fromEntries(["tp", "fp", "fn", "tn"].map((name) => [name, operatingPoint[name]]));
  const [precision, recall, cost] = METRICS.map((name) => metric(snapshot, name));
  return {
    ends: [new Date(window.startTime), new Date(window.endTime)], counts, precision, recall, cost,
    cases: counts.tp + counts.fp + counts.fn + counts.tn,
  };
}
