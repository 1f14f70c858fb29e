// Which threshold meets a target: the server finds it among all operating points, not only those that are drawn.

import { h, setText } from "./dom.js";
import { count, measured, percent, reason, score, titleOf } from "./format.js";

/** Each target: what it asks for, and in words what its threshold is. */
const TARGETS = {
  precision: { title: "Precision at least", unit: "%", words: (wanted, { threshold, recall }) =>
    `Of the thresholds with a precision of ${wanted} % or more, ${score(threshold)} has the most recall: ${percent(recall)}.`,
  none: (wanted) => `No threshold has a precision of ${wanted} % here.` },
  recall: { title: "Recall at least", unit: "%", words: (wanted, { threshold, precision }) =>
    `The highest threshold with a recall of ${wanted} % or more is ${score(threshold)}; its precision is ${percent(precision)}.`,
  none: (wanted) => `No threshold has a recall of ${wanted} % here.` },
  flagged_share: { title: "Flagged a day at most", unit: "", words: (wanted, { threshold, recall, precision }, perDay) =>
    (threshold === Infinity ? `Every threshold flags more than ${count(wanted)} a day: the highest score alone has more cases.`
      : `From ${score(threshold)} on at most ${count(wanted)} of about ${count(Math.round(perDay))} cases a day are flagged; `
        + `recall is ${percent(recall)}, precision ${percent(precision)}.`),
  none: () => "There are no cases here." },
};

export class TargetsForm {
  /** `find(fields)` answers GetDecision with one target; `found(answer)` gets an answer that has a threshold. */
  constructor(find, found) {
    Object.assign(this, { find, found });
    this.said = h("p", { class: "advice", id: "target-found", role: "status" });
    this.inputs = {};
    this.element = h("fieldset", { class: "targets" },
      h("legend", {}, "Find the threshold for a target"),
      Object.entries(TARGETS).map(([name, target]) => this.row(name, target)), this.said);
    this.follow(null);
  }

  row(name, { title, unit }) {
    const id = `target-${name.replaceAll("_", "-")}`;
    const input = h("input", { type: "number", id, min: 0, max: unit ? 100 : null, step: "any", inputmode: "decimal", required: true });
    this.inputs[name] = input;
    return h("form", { onsubmit: (event) => { event.preventDefault(); this.ask(name, input.valueAsNumber); } },
      h("label", { for: id }, title), h("span", { class: "unit" }, input, unit), h("button", { type: "submit", class: "quiet" }, "Find"));
  }

  /** Follow the cases a day; without a length of time there is no number a day. */
  follow(perDay) {
    this.perDay = perDay;
    this.inputs.flagged_share.disabled = !perDay;
  }

  async ask(name, wanted) {
    const { perDay } = this;
    const share = name === "flagged_share" ? Math.min(1, wanted / perDay) : wanted / 100;
    const answer = await this.find({ [name]: share });
    if (answer === null) return;
    const { words, none } = TARGETS[name];
    const hasReason = answer.undefinedReason !== "UNDEFINED_REASON_UNSPECIFIED";
    setText(this.said, answer.threshold !== undefined ? words(wanted, atThreshold(answer), perDay)
      : hasReason ? `There is no such threshold: ${reason(answer)}.` : none(wanted));
    if (answer.threshold !== undefined) this.found(answer);
  }
}

/** The threshold of an answer and the metrics at it, by name. */
const atThreshold = ({ threshold, metrics }) =>
  ({ threshold: Number(threshold), ...Object.fromEntries(metrics.map(({ name, value }) => [name, value])) });

const MIN_DAYS = 1 / 24; // what came in less says nothing of a day

/** Cases a day of the steps of time: labelled ones and those that wait for their label; null within the first hour. */
export function casesADay(rows, now) {
  if (!rows.length) return null;
  const days = (Math.min(now, rows.at(-1).end) - rows[0].start) / 86_400_000;
  const cases = rows.reduce((total, { positives, negatives, snapshot: { coverage } }) =>
    total + positives + negatives + Number(coverage?.pending ?? 0), 0);
  return days >= MIN_DAYS && cases > 0 ? cases / days : null;
}

/** A number of cases a day, from a share of all. */
export const aDay = (share, perDay) => (share === undefined || !perDay ? "–" : count(Math.round(share * perDay)));

/** The limits of a number a day; null without limits. */
export const limitsADay = (limits, perDay) =>
  (limits?.lower === undefined || !perDay ? null : `${aDay(limits.lower, perDay)} to ${aDay(limits.upper, perDay)}`);

/** A rate of an answer with its limits, or why it has none, in words. */
export function rateWords(name, found) {
  if (!found) return { value: "–", more: "" };
  const { lower, upper } = found.interval ?? {};
  const more = lower !== undefined ? `${measured(name, lower).replace(" %", "")} to ${measured(name, upper)}`
    : found.value === undefined ? "" : reason(found.interval);
  return { value: found.value === undefined ? reason(found) : measured(name, found.value), more, title: titleOf(name) };
}
