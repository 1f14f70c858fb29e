// Formats numbers, times and names for people: fixed widths, units, real minus signs.

import { METRICS } from "./metrics.js";

const COUNT = new Intl.NumberFormat("en-US");
const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
const UTC = "streameval.utc"; // in this browser's storage: times are in UTC, not local
const timeZone = () => (isUtc() ? "UTC" : undefined);
const time = () => ({ hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZone: timeZone() });

/** Whether times are shown in UTC; else they are local. */
export const isUtc = () => localStorage.getItem(UTC) !== null;

/** Show times in UTC, or in local time; the choice is stored in this browser. */
export function chooseUtc(isChosen) {
  if (isChosen) localStorage.setItem(UTC, "1");
  else localStorage.removeItem(UTC);
}

export const REASONS = {
  UNDEFINED_REASON_EMPTY: "no labelled cases",
  UNDEFINED_REASON_NO_POSITIVES: "no positive case yet",
  UNDEFINED_REASON_NO_NEGATIVES: "no negative case yet",
  UNDEFINED_REASON_TOO_FEW: "too few cases for an interval",
  UNDEFINED_REASON_TOO_FEW_EFFECTIVE: "too few effective cases for an interval",
  UNDEFINED_REASON_TOO_FEW_CLUSTERS: "too few clusters for an interval",
  UNDEFINED_REASON_NOT_PROBABILITIES: "scores are no probabilities",
  UNDEFINED_REASON_NO_THRESHOLD: "no threshold is declared",
  UNDEFINED_REASON_CHOSEN_ON_SAME_CASES: "chosen on these cases",
  UNDEFINED_REASON_NO_COSTS: "no costs are declared",
};

/** What a metric is called. */
export const titleOf = (name) => METRICS[name].title;

/** Whether a metric is read in percent. */
export const isShare = (name) => METRICS[name].unit === "share";

/** Whether a metric is in the unit of costs. */
export const isCost = (name) => METRICS[name].unit === "cost";

/** A metric as its unit is read. */
export const measured = (name, value) => (isShare(name) ? percent(value) : isCost(name) ? cost(value) : figure(value));

/** 0.446; an en dash when there is no value. */
export function figure(value, digits = 3) {
  return value === undefined || value === null ? "–" : value.toFixed(digits).replace("-", "−");
}

/** 0.0123, 1.23 or 12,346: three significant digits, and all before the point. */
export function cost(value) {
  if (value === undefined || value === null) return "–";
  if (value >= 1e15 || (value > 0 && value < 1e-6)) return value.toExponential(2).replace("-", "−");
  const digits = value === 0 || value >= 100 ? 0 : Math.max(0, 2 - Math.floor(Math.log10(value)));
  return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** +0.043 or −0.043. */
export function signed(value, digits = 3) {
  if (value === undefined || value === null) return "–";
  return (value < 0 ? "" : "+") + figure(value, digits);
}

export function count(value) {
  return value === undefined || value === null ? "–" : COUNT.format(value);
}

/** 92.0 %; small shares keep two significant digits. */
export function percent(share) {
  if (share === undefined || share === null) return "–";
  const value = 100 * share;
  const digits = value !== 0 && Math.abs(value) < 0.95 ? 2 : 1;
  return `${value >= 99.95 && value < 100 ? "99.9" : value.toFixed(digits)} %`;
}

/** The limits of an interval, in the metric's unit where one is named; null without limits. */
export function interval(limits, name = null) {
  if (!limits || limits.lower === undefined) return null;
  const [lower, upper] = [limits.lower, limits.upper].map((each) => (name ? measured(name, each) : figure(each)));
  return `${lower.endsWith(" %") ? lower.slice(0, -2) : lower} to ${upper}`;
}

/** The reason why an interval or a figure is absent, in words. */
export function reason(message) {
  return REASONS[message?.undefinedReason] ?? "not defined";
}

/** Five significant digits, for thresholds and scores. */
export function score(value) {
  if (value === Infinity) return "+∞";
  if (value === -Infinity) return "−∞";
  const size = Math.abs(value);
  const text = size !== 0 && (size < 1e-3 || size >= 1e6) ? value.toExponential(3) : value.toPrecision(5);
  return text.replace("-", "−");
}

export function pValue(value) {
  if (value === undefined || value === null) return "–";
  return value < 0.001 ? "< 0.001" : value.toFixed(3);
}

/** The difference of AUC-ROC, which does not depend on the prevalence; empty where it is not defined. */
export function rocWords(found) {
  if (found?.difference.value === undefined) return "";
  const { lower, upper } = found.difference.interval;
  const limits = lower === undefined ? "" : ` (${signed(lower)} to ${signed(upper)}, p ${found.pValue < 0.001 ? "" : "= "}${pValue(found.pValue)})`;
  return `AUC-ROC, at any prevalence: ${figure(found.a.value)} against ${figure(found.b.value)}, ${signed(found.difference.value)}${limits}.`;
}

/** 90 s, 5 min, 1.5 h, 3 d. */
export function span(seconds) {
  const [size, unit] = UNITS.find(([each]) => Math.abs(seconds) >= each) ?? [1, "s"];
  return `${Number((seconds / size).toPrecision(2))} ${unit}`;
}

export function clock(date) {
  return date.toLocaleTimeString("en-GB", { ...time(), second: "2-digit" });
}

/** 14:05. */
export const hour = (date) => date.toLocaleTimeString("en-GB", time());

/** Nov 20. */
export const day = (date) => date.toLocaleDateString("en-US", { month: "short", day: "numeric", timeZone: timeZone() });

const isSameDay = (one, other) =>
  one.toLocaleDateString("en-GB", { timeZone: timeZone() }) === other.toLocaleDateString("en-GB", { timeZone: timeZone() });

/** 14:05 today, Nov 20, 14:05 on another day. */
export function moment(date) {
  return isSameDay(date, new Date()) ? hour(date) : `${day(date)}, ${hour(date)}`;
}

/** 13:05 to 14:05; both ends have their day where the days differ, so that a day is not read as an hour. */
export function period(start, end) {
  return isSameDay(start, end)
    ? `${moment(start)} to ${hour(end)}`
    : `${day(start)}, ${hour(start)} to ${day(end)}, ${hour(end)}`;
}

/** Nov 25, 2026, 13:05 to 14:05 UTC: for what leaves the page, where "today" means nothing. */
export function dated(start, end) {
  const whole = (date) => `${date.toLocaleDateString("en-US", { month: "short", day: "numeric", year: "numeric", timeZone: timeZone() })}, ${hour(date)}`;
  return `${whole(start)} to ${isSameDay(start, end) ? hour(end) : whole(end)} ${zone()}`;
}

/** The time zone of all times that are shown. */
export function zone() {
  return timeZone() ?? Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/** 2026-11-21T10:00 in that zone, as fields for a time hold it. */
export function fieldOf(date) {
  const local = isUtc() ? date : new Date(date.getTime() - 60_000 * date.getTimezoneOffset());
  return local.toISOString().slice(0, 16);
}

/** The time of such a field. */
export const timeOf = (text) => new Date(isUtc() ? `${text}Z` : text);

/** A segment's key; "country × channel" where two are crossed. */
export const keyTitle = (key) => key.replace("*", " × ");

/** A segment's value; "BR × web" of crossed keys, whose values are joined by a star and escaped by a backslash. */
export function valueTitle({ key, value }) {
  const parts = key.includes("*") && value.match(/^((?:[^*\\]|\\.)*)\*((?:[^*\\]|\\.)*)$/s);
  return parts ? parts.slice(1).map((part) => part.replace(/\\(.)/gs, "$1")).join(" × ") : segmentValue(value);
}

/** country=BR. */
export const segmentName = (segment) => `${keyTitle(segment.key)}=${valueTitle(segment)}`;

/** The value of a segment; the empty one and `__other__` have names of their own. */
export function segmentValue(value) {
  if (value === "") return "(no value)";
  return value === "__other__" ? "(other values)" : value;
}
