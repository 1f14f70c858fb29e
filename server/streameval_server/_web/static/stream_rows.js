// The rows of the list: one stream with its figures, or the head of a group.

import { openWords, watchTitle } from "./alarms.js";
import { metric } from "./api.js";
import { fill, h, setText } from "./dom.js";
import { count, figure, interval, measured, percent, reason, span, titleOf } from "./format.js";
import { HEADLINE, RATES } from "./metrics.js";
import { atOwnPrevalence } from "./projected.js";
import { DEFAULT_WINDOW, toStream } from "./route.js";
import { sparkline } from "./sparkline.js";
import { happened, headline, statesOf } from "./verdict.js";

const SHOWN_RATES = RATES.slice(0, 2); // precision and recall: the others are on the stream's page

export const COLUMNS = [
  ["stream", "Stream"],
  ["happened", "Against its base"],
  ["value", titleOf(HEADLINE), "number"],
  ["spark", "Over the window"],
  ["rates", "At its threshold", "number"],
  ["projected", "Projected", "number"],
  ["coverage", "Labelled", "number"],
  ["fresh", "Newest", "number"],
];

/** Which columns have something to show in these summaries; the others are left out. */
export function usedColumns(summaries, hasWindow) {
  return {
    spark: hasWindow,
    rates: summaries.some(({ snapshot }) => snapshot.operatingPoint),
    projected: summaries.some(({ snapshot }) => snapshot.projection),
    coverage: summaries.some(({ snapshot }) => snapshot.coverage),
  };
}

/** A value with its interval below it. */
class Figure {
  constructor(name, title) {
    this.value = h("span", { class: "at" });
    this.more = h("span", { class: "limits" });
    this.cell = h("td", { class: `number ${name}`, "data-title": title }, this.value, this.more);
  }

  show(value, more = "", title = "") {
    setText(this.value, value);
    setText(this.more, more);
    if (this.cell.title !== title) this.cell.title = title;
  }
}

/** One stream of the list. */
export class StreamRow {
  constructor(name) {
    const titles = Object.fromEntries(COLUMNS);
    const number = (key) => h("td", { class: `number ${key}`, "data-title": titles[key] });
    this.name = name;
    this.link = h("a", {}, name);
    this.alarms = h("span", { class: "alarm-state", hidden: true });
    this.states = h("span", { class: "states" });
    this.what = h("span", { class: "what" });
    this.value = new Figure("value", titles.value);
    this.spark = h("td", { class: "spark" });
    this.rates = number("rates");
    this.projected = new Figure("projected", titles.projected);
    this.coverage = number("coverage");
    this.fresh = number("fresh");
    this.element = h("tr", { class: "stream" },
      h("th", { scope: "row" }, h("div", { class: "named" }, this.link, this.alarms)),
      h("td", { class: "happened" }, this.states, " ", this.what),
      this.value.cell, this.spark, this.rates, this.projected.cell, this.coverage, this.fresh);
  }

  update(summary, window) {
    const { snapshot } = summary;
    this.summary = summary;
    this.link.href = toStream(this.name, { window: window === DEFAULT_WINDOW ? "" : window });
    this.element.classList.toggle("pending", !Number(snapshot.revision));
    this.showAlarms(summary);
    this.showVerdict(summary);
    this.showValue(summary);
    this.showProjected(snapshot, summary.projectedTime);
    const rates = snapshot.operatingPoint && Number(snapshot.numCases) ? SHOWN_RATES.map((name) => metric(snapshot, name)).filter(Boolean) : [];
    const texts = rates.map((rate) => [titleOf(rate.name), measured(rate.name, rate.value)]);
    if (this.rates.dataset.texts !== JSON.stringify(texts)) {
      this.rates.dataset.texts = JSON.stringify(texts);
      this.rates.classList.toggle("none", !texts.length);
      fill(this.rates, texts.length ? texts.map(([title, text]) => h("span", { class: "rate-of" }, h("span", { class: "limits" }, title), " ", text)) : "–");
    }
    setText(this.coverage, snapshot.coverage ? percent(snapshot.coverage.labelledShare) : "–");
    this.tick();
  }

  showAlarms({ alarm, snapshot: { openAlarms } }) {
    this.alarms.hidden = !alarm;
    this.alarms.classList.toggle("open", openAlarms > 0);
    if (!alarm) return;
    if (openAlarms) setText(this.alarms, `${openWords(openAlarms)}: ${[...new Set(alarm.watches.map(watchTitle))].join(", ")}`);
    else setText(this.alarms, alarm.state === "ALARM_STATE_WAITING" ? "alarms wait for their reference" : "no open alarm");
  }

  /** The state and what happened; empty until it is known. */
  showVerdict({ verdict }) {
    const states = verdict ? statesOf(verdict) : [];
    const key = JSON.stringify(states);
    if (key !== this.said) fill(this.states, states.map(([word, kind]) => h("span", { class: `state-chip ${kind}` }, word)));
    this.said = key;
    setText(this.what, verdict ? happened(verdict) : "–");
  }

  showValue(summary) {
    const found = metric(summary.snapshot, HEADLINE);
    const isDefined = found?.value !== undefined;
    this.value.cell.classList.toggle("reason", !isDefined);
    if (summary.problem) this.value.show("not computed", `${summary.problem}.`);
    else if (!found) this.value.show("reading …");
    else if (isDefined) this.value.show(figure(found.value), interval(found.interval) ?? "");
    else this.value.show(undefinedReason(summary.snapshot, found));
  }

  showProjected(snapshot, time) {
    const projected = snapshot.projection && atOwnPrevalence(snapshot);
    this.projected.cell.classList.toggle("none", projected?.projected === undefined);
    if (!projected) this.projected.show("–");
    else if (projected.projected === undefined) this.projected.show("–", "", `Not projected: ${projected.reason}.`);
    else this.projected.show(figure(projected.projected), interval(projected.interval) ?? "", `${titleOf(HEADLINE)} once the labels are in, projected ${age(new Date(time).getTime())} ago.`);
  }

  /** The limits of the base, which the small chart is read against; null without them. */
  get band() {
    const { verdict } = this.summary;
    const before = verdict && headline(verdict)?.before;
    return before?.lower === undefined ? null : before;
  }

  /** `scale` is of all rows that are shown. */
  showSeries(values, scale) {
    const { band } = this;
    const key = JSON.stringify([values ?? [], scale, band]);
    if (this.drawn === key) return;
    this.drawn = key;
    fill(this.spark, values ? sparkline(values, { scale, band }) : null);
  }

  tick() {
    const newest = this.summary?.newestPane;
    setText(this.fresh, newest ? age(Math.min(Date.now(), new Date(newest.endTime).getTime())) : "–");
  }
}

/** The head of a group; `toggle` opens and closes it. */
export class GroupRow {
  constructor(name, toggle) {
    this.name = name;
    this.sizes = h("span", { class: "summary" });
    this.alarms = h("span", { class: "alarm-state open", hidden: true });
    this.button = h("button", { type: "button", class: "fold", onclick: () => toggle(name) }, h("span", { class: "name" }, name));
    this.element = h("tr", { class: "group" }, h("th", { scope: "rowgroup", colspan: COLUMNS.length },
      h("div", { class: "named" }, this.button, this.alarms, this.sizes)));
  }

  update(group) {
    this.button.setAttribute("aria-expanded", String(group.open));
    this.alarms.hidden = !group.numAlarms;
    setText(this.alarms, group.numAlarms ? `${count(group.numAlarms)} with open alarms` : "");
    const ends = [...new Set([group.lowest, group.highest].filter((each) => each !== undefined).map((each) => figure(each)))];
    const parts = [streamsWord(group.numStreams)];
    if (group.numFallen) parts.push(`${count(group.numFallen)} worse`);
    if (ends.length) parts.push(`${titleOf(HEADLINE)} ${ends.join(" to ")}`);
    setText(this.sizes, parts.join(", "));
  }

  tick() {}
}

/** 1 stream, 1,200 streams. */
export const streamsWord = (number) => `${count(number)} ${number === 1 ? "stream" : "streams"}`;

function undefinedReason(snapshot, found) {
  return Number(snapshot.numCases) === 0 && Number(snapshot.coverage?.pending ?? 0) ? "no label yet" : reason(found);
}

function age(time) {
  const s = (Date.now() - time) / 1000;
  return s < 60 ? "< 1 min" : span(s);
}
