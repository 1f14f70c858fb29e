// A metric over time with its interval, and below it the share of predictions that are labelled.

import { metric } from "./api.js";
import { ChartCard } from "./card.js";
import { h } from "./dom.js";
import { count, figure, interval, measured, moment, percent, period, reason, titleOf, zone } from "./format.js";
import { isProjected, projectedText } from "./projected.js";
import { windowBetween } from "./route.js";
import { intervals, measures, numbers, periods, words } from "./sheet.js";
import { timeOption } from "./time_chart.js";
import { MIN_POSITIVES } from "./time_rows.js";
import { HELP, TimeSelect } from "./time_select.js";

const NOTHING = { spans: [], reference: null, change: null, marks: [] };

export class TimelineCard {
  /** `toWindow(window)` returns the link to a row's window; `title` is the card's. */
  constructor(signal, toWindow, { id, title, note = "" }) {
    this.toWindow = toWindow;
    this.caveat = note && `${note} `;
    this.card = new ChartCard(signal, { id, title, shape: "wide" });
    this.element = this.card.element;
    this.element.classList.add("timed");
    this.select = new TimeSelect(this.card.plot, signal, (row) => this.words(row),
      (start, end) => { location.hash = toWindow(windowBetween(start, end)); });
  }

  /**
   * Draw `read(metric)` of rows, beside what `timeOption` takes. A single point is no timeline: return
   * whether there are more.
   */
  draw(snapshots, name, { read = (found) => found, ...given } = {}) {
    const beside = { ...NOTHING, ...given };
    const { spans } = beside;
    this.name = name;
    const rows = snapshots.map((each) => ({ ...each, value: read(metric(each.snapshot, name)) }));
    if (rows.filter((each) => each.value.value !== undefined).length < 2) return false;
    const title = titleOf(name);
    const hasCoverage = rows.some((each) => each.coverage !== null);
    const immature = rows.filter((each) => each.isImmature).length;
    const projected = spans.filter(isProjected);
    this.card.legend([["line a", `${title}, 95 % interval`],
      ...(rows.some((each) => each.isFew && each.value.value !== undefined) ? [["few", `fewer than ${MIN_POSITIVES} positives`]] : [])]);
    this.card.note.textContent = `${this.caveat}Times are ${zone()}. A step lasts until it has ${MIN_POSITIVES} positives. ${HELP}`
      + (hasCoverage ? "" : " These cases arrived with their labels: there is no delay to show.");
    this.select.update(rows);
    const label = `${title} in ${rows.length} steps of time`
      + (immature ? `, ${immature} of them immature` : "")
      + (projected.length ? `, the newest projected to ${figure(projected.at(-1).found.projected)}` : "") + ". The table has the figures.";
    this.card.plotted.classList.toggle("tall", hasCoverage);
    this.card.draw(label, (colours) => timeOption(colours, name, rows, beside),
      () => this.sheet(name, rows, spans));
    return true;
  }

  /** A step in words, for those who hear it. */
  words({ start, end, value, positives }) {
    const read = value.value === undefined ? reason(value) : measured(this.name, value.value);
    const limits = interval(value.interval, this.name);
    return `${period(start, end)}: ${titleOf(this.name)} ${read}${limits ? `, ${limits}` : ""}; ${count(positives)} positives`;
  }

  sheet(name, rows, spans) {
    return {
      caption: `${titleOf(name)} over time, the newest first`,
      columns: [
        periods("From", (start, end) => h("a", { href: this.toWindow(windowBetween(start, end)) }, moment(start))),
        measures(titleOf(name), name), intervals("95 % interval", name),
        numbers("Positives", count), numbers("Negatives", count), numbers("Labelled", percent),
        words("", "State"), ...(spans.length ? [words("Projected")] : [])],
      rows: rows.toReversed().map((each) => [
        [each.start, each.end], each.value, each.value.interval, each.positives, each.negatives, each.coverage,
        each.isImmature ? "immature" : "", ...(spans.length ? [projectedText(spans, each) ?? ""] : [])]),
    };
  }
}
