// A verdict in short words: its state, what happened, and since when. The sentence is the server's own.

import { day, hour, isUtc, signed } from "./format.js";

const STATES = {
  worse: "worse", better: "better", recovered: "recovered", steady: "steady", unsure: "unsure", immature: "too early",
};
const FLOWS = { silent: "silent", no_labels: "no labels", late: "labels late" };

const named = (value, prefix) => (value ?? "").slice(prefix.length).toLowerCase();

/** "worse", "better", "recovered", "steady", "unsure" or "immature". */
export const qualityOf = (verdict) => named(verdict.quality, "VERDICT_QUALITY_");

/** "ok", "silent", "no_labels" or "late". */
export const flowOf = (verdict) => named(verdict.flow, "VERDICT_FLOW_");

/** The state in words: [word, kind] of the quality, and of the flow where it is not as it should be. */
export function statesOf(verdict) {
  const [quality, flow] = [qualityOf(verdict), flowOf(verdict)];
  const states = [[STATES[quality], quality]];
  return FLOWS[flow] ? [...states, [FLOWS[flow], flow]] : states;
}

/** The figure that is told first; null without a base. */
export const headline = ({ figures }) => figures?.[0] ?? null;

/** What happened, in the server's line, whose days are in UTC, with those of the page's other times. */
export function happened({ happened: line, at, since, returned }) {
  const local = (part, { likeliest }) => part.replace(/[A-Z][a-z]{2} \d+/, day(new Date(likeliest)));
  return line.split(" · ").map((part) => (since && part.startsWith("since ") ? local(part, since)
    : returned && part.startsWith("back since ") ? local(part, returned) : localSilence(part, at))).join(" · ");
}

/** Since when no rows have come, in the server's words, whose time is in UTC, with it as the page's other times. */
export function localSilence(text, at) {
  return text.replace(/(^no rows since |No rows have come since )(\w+ \d+)( \d+)?, (\d\d:\d\d)(?=\.?$)/, (_, said, date, year = "", time) => {
    const last = new Date(`${date} ${year || new Date(at).getUTCFullYear()} ${time} UTC`);
    return `${said}${day(last)}${year && ` ${isUtc() ? last.getUTCFullYear() : last.getFullYear()}`}, ${hour(last)}`;
  });
}

/** The difference with its limits: −0.58 (−0.62 to −0.53). */
export function differenceWords({ difference: { estimate, lower, upper } }) {
  return lower === undefined ? signed(estimate) : `${signed(estimate)} (${signed(lower)} to ${signed(upper)})`;
}
