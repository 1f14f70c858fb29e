// The comparison of a pair: both models on the ids that both have scored; and the question whether
// two streams without one have the same ids.

import { ApiError, get, pairPath, post } from "./api.js";
import { copyButton } from "./take.js";
import { fill, h } from "./dom.js";
import { grpcAddress } from "./grpc_address.js";
import { count, figure, interval, moment, percent, reason, signed, titleOf } from "./format.js";
import { PairChart, rowsOf } from "./pair_chart.js";
import { PairSegments, turned } from "./pair_segments.js";
import { between, seconds, segment, selection, windowBetween } from "./route.js";
import { sentence } from "./states.js";
import { stepOf } from "./time_rows.js";

const KNOWN_MS = 5_000; // how long a list of pairs is taken for true
const SERIES_MS = 10_000;
const PAGE_SIZE = 1_000;
const MIN_ROWS = 12;
const EVIDENCE = 20; // at which it suffices
const NEAR = 0.02; // predictions of one traffic differ by less
const NAMED_EVIDENCE = 1_000; // from here on its size says nothing more

export class PairedSection {
  /** `align()` gives side B the window and the segment of A, `choose()` is called after another key is chosen. */
  constructor(context, { align, refresh, choose }) {
    Object.assign(this, { context, signal: context.signal, align, refresh });
    this.answer = h("div");
    this.segments = new PairSegments(choose);
    this.warnings = h("ul", { class: "warnings", hidden: true });
    this.result = h("section", { class: "card result paired", id: "paired", "aria-labelledby": "paired-title", hidden: true },
      this.answer, this.segments.element, this.warnings);
    this.chart = new PairChart(this.signal, () => { this.drawnMs = -Infinity; refresh(); });
    this.chart.element.hidden = true;
    this.asked = h("section", { class: "card ask", id: "same-ids", "aria-labelledby": "same-ids-title", hidden: true });
    this.element = h("div", { class: "paired-part" }, this.result, this.chart.element);
    this.knownOf = "";
  }

  /** Nothing is compared. */
  hide() {
    this.result.hidden = this.chart.element.hidden = this.asked.hidden = true;
    this.drawnOf = "";
  }

  /** The pair of two streams, or null. Asked again after some seconds: it may be made or deleted elsewhere. */
  async find(a, b) {
    const key = `${a} ${b}`;
    if (this.knownOf !== key || performance.now() - this.knownMs > KNOWN_MS) {
      const { pairs } = await get("v1/pairs", { stream: a, pageSize: PAGE_SIZE }, this.signal);
      this.pair = pairs.find((each) => (each.a === a && each.b === b) || (each.a === b && each.b === a)) ?? null;
      Object.assign(this, { knownOf: key, knownMs: performance.now() });
    }
    return this.pair;
  }

  /**
   * Load and show the answer of the pair of two sides, if there is one. `independent` is a promise of the
   * answer that takes both sides as independent. Return whether the pair answers.
   */
  async load({ a, b }, metric, independent) {
    if (a.stream === b.stream) {
      this.hide();
      return false;
    }
    const pair = await this.find(a.stream, b.stream);
    if (!pair) {
      this.result.hidden = this.chart.element.hidden = true;
      this.ask(a.stream, b.stream, await independent);
      return false;
    }
    this.asked.hidden = true;
    const why = this.obstacle(pair, a, b);
    if (why) {
      this.result.hidden = false;
      this.chart.element.hidden = this.segments.element.hidden = this.warnings.hidden = true;
      fill(this.answer, h("h2", { id: "paired-title" }, "These two have a pair: they can be compared on the same ids"), ...why);
      return false;
    }
    const answer = await get(pairPath(pair.name, "compare"), {
      metric, ...selection("selection.", a.window, segment(a.segment)),
      bySegment: a.segment ? "" : this.segments.keyOf(pair),
    }, this.signal);
    this.show(answer, a.stream, metric, await independent);
    await this.draw(pair, answer.comparison, a, metric);
    return true;
  }

  /** Why the pair cannot answer for these sides, and what to do; null where it can. */
  obstacle(pair, a, b) {
    if (a.window !== b.window || a.segment !== b.segment) {
      return [h("p", { class: "empty" }, "That takes one window and one segment for both."),
        h("button", { type: "button", id: "align", onclick: this.align }, "Use the champion's for both")];
    }
    const key = segment(a.segment)?.key;
    if (key && !pair.settings.segmentKeys.includes(key)) {
      return [h("p", { class: "empty" }, `The pair does not count by ${key}: it has the keys that both streams declared when it was made`
        + `${pair.settings.segmentKeys.length ? `, ${pair.settings.segmentKeys.join(", ")}` : ", which were none"}.`)];
    }
    return null;
  }

  show({ comparison: found, segments }, streamA, metric, independent) {
    this.result.hidden = false;
    const isTurned = found.a !== streamA;
    const [nameA, nameB] = isTurned ? [found.b, found.a] : [found.a, found.b];
    const { compared } = found;
    const [valueA, valueB] = isTurned ? [compared.b, compared.a] : [compared.a, compared.b];
    const { value, limits } = turned(found, isTurned);
    const cell = (kind, heading, shown, more) =>
      h("div", { class: kind }, h("dt", {}, heading), h("dd", { class: "value", id: `paired-${kind}` }, shown), h("dd", { class: "more" }, more));
    const name = titleOf(metric);
    const head = [h("p", { class: "kicker" }, "On the same ids"), h("h2", { id: "paired-title" }, title(found))];
    if (valueA.value === undefined || valueB.value === undefined) {
      fill(this.answer, ...head, h("p", { class: "note", id: "paired-note" }, notes(found, isTurned)));
      this.segments.element.hidden = this.warnings.hidden = true;
      return;
    }
    fill(this.answer, ...head,
      h("dl", { class: "headline compared" },
        cell("a", `${nameA}: ${name}`, figure(valueA.value), valueA.value === undefined ? reason(valueA) : interval(valueA.interval) ?? "–"),
        cell("b", `${nameB}: ${name}`, figure(valueB.value), valueB.value === undefined ? reason(valueB) : interval(valueB.interval) ?? "–"),
        cell("difference", `${nameB} minus ${nameA}`, signed(value), limits ? `${signed(limits.lower)} to ${signed(limits.upper)}, above 0 is better` : "no interval"),
        cell("e", "Evidence", evidence(found.eValue), evidenceNote(found))),
      h("p", { class: "why", id: "why-sharper" }, sharper(found, independent)),
      h("p", { class: "note", id: "paired-note" }, notes(found, isTurned)));
    this.segments.show(segments, isTurned, [nameA, nameB]);
    fill(this.warnings, compared.warnings.map((each) => h("li", {}, each)));
    this.warnings.hidden = !compared.warnings.length;
  }

  /** Draw the difference over time; not at every change, and at once when something else is chosen. */
  async draw(pair, found, side, metric) {
    const key = JSON.stringify([pair.name, side, metric, this.chart.isCumulative]);
    if (this.drawnOf === key && performance.now() - this.drawnMs < SERIES_MS) return;
    const chosen = spanOf(side.window, pair);
    let rows = await this.rows(pair, side, metric, ...chosen);
    // Where only the last steps have labels, finer ones show more of them.
    if (rows.length && rows.length < MIN_ROWS && rows[0].start > chosen[0]) rows = await this.rows(pair, side, metric, rows[0].start, chosen[1]);
    Object.assign(this, { drawnOf: key, drawnMs: performance.now() });
    this.chart.element.hidden = !this.chart.draw({
      rows, metric, names: pair.a === side.stream ? [pair.a, pair.b] : [pair.b, pair.a],
      since: found.decidedSince ? new Date(found.decidedSince) : null,
    });
  }

  /** The steps of a span, from the first one with a difference. */
  async rows(pair, side, metric, start, end) {
    const { comparisons } = await get(pairPath(pair.name, "windows"), {
      metric, ...selection("selection.", windowBetween(start, end), segment(side.segment)),
      step: `${Math.max(parseFloat(pair.settings.pane), stepOf((end - start) / 1000))}s`, cumulative: this.chart.isCumulative,
    }, this.signal);
    return rowsOf(comparisons, { isTurned: pair.a !== side.stream, isCumulative: this.chart.isCumulative });
  }

  /** Ask whether two streams without a pair have the same ids: where rows of both came by id. */
  ask(a, b, answer) {
    const sizes = [answer?.coverageA, answer?.coverageB].map((coverage) => Number(coverage?.predictions ?? 0));
    if (!sizes.every((size) => size > 0)) {
      this.asked.hidden = true;
      return;
    }
    if (!this.asked.hidden && this.askedOf === `${a} ${b}`) return; // a refusal that is shown stays
    this.askedOf = `${a} ${b}`;
    this.asked.hidden = false;
    const isNear = Math.abs(sizes[0] - sizes[1]) <= NEAR * Math.max(...sizes);
    const command = h("code", {}, "");
    grpcAddress().then((address) => { command.textContent = `streameval pairs create ${a} ${b} --server ${address}`; });
    const refusal = h("p", { class: "refusal", id: "pair-refusal", role: "alert", hidden: true });
    const make = h("button", { type: "button", id: "make-pair", onclick: () => this.make(a, b, make, refusal) }, "Make a pair");
    fill(this.asked,
      h("h2", { id: "same-ids-title" }, "Are these the same ids?"),
      h("p", {}, (isNear ? `Both have about ${count(Math.max(...sizes))} predictions by id here, as two models of one traffic have. ` : "")
        + "A pair compares both models on the ids that both have scored, usually needs a third of the labels, and may be looked at all day. "
        + "It counts what both predict once it is made."),
      h("div", { class: "ask-row" }, make, command, copyButton("Copy the command", () => command.textContent)), refusal);
  }

  async make(a, b, button, refusal) {
    button.disabled = true;
    refusal.hidden = true;
    try {
      await post("v1/pairs", { pair: { a, b }, requestId: requestId() }, this.signal);
      this.knownOf = "";
      this.refresh();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      button.disabled = false;
      refusal.hidden = false;
      refusal.textContent = error.isDenied
        ? "This token may not make pairs: that takes the scope admin. Ask who runs the server, and show the command above." : sentence(error.message);
    }
  }
}

/** The time of a window; of all time, as long as panes are kept. */
function spanOf(window, pair) {
  const lengthS = seconds(window) ?? parseFloat(pair.settings.retention);
  return between(window) ?? [new Date(Date.now() - 1000 * lengthS), new Date()];
}

/** The sentence, with the time of the reader's zone. */
function title({ sentence: said, decidedSince: since }) {
  return since ? `${said.split("; the evidence")[0]}; the evidence has been sufficient since ${moment(new Date(since))}.` : `${said}.`;
}

/** The id of a change, with which it is applied once; pages without TLS have no `randomUUID`. */
function requestId() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((each) => each.toString(16).padStart(2, "0")).join("");
}

function evidence(value) {
  if (value === undefined || value === null) return "–";
  return value >= NAMED_EVIDENCE ? `over ${count(NAMED_EVIDENCE)}` : value.toPrecision(value < 1 ? 2 : 3);
}

function evidenceNote(found) {
  if (found.eValue === undefined || found.eValue === null) return "from 50 labelled ids of each class on";
  if (found.decidedSince) return `suffices since ${moment(new Date(found.decidedSince))}`;
  return found.eValue >= EVIDENCE ? `suffices: ${EVIDENCE} does` : `${EVIDENCE} suffices; look at any time`;
}

/** In words, why the answer on the same ids is sharper, and by how much here. */
function sharper(found, independent) {
  const widths = [found.compared.difference.interval, independent?.difference?.interval].map((limits) =>
    (limits?.lower === undefined ? null : limits.upper - limits.lower));
  const ratio = widths[0] > 0 && widths[1] !== null ? widths[1] / widths[0] : null;
  const by = ratio > 1.05 ? ` Here the interval is ${ratio.toFixed(1)} times as narrow as for independent cases, `
    + `which would take about ${(ratio * ratio).toFixed(ratio < 3 ? 1 : 0)} times the labels.` : "";
  return `Sharper, because both models are judged on the same ids: an id that is hard for both cancels in the difference, and only ids on which they differ count.${by}`;
}

function notes(found, isTurned) {
  const { coverage: covered, disagreement: between_ } = found;
  const shared = `${count(Number(covered.shared))} ids are scored by both${covered.sharedShare === undefined || covered.sharedShare === null ? "" : ` (${percent(covered.sharedShare)} of all)`}, `
    + `${count(Number(covered.labelled))} of them labelled: ${count(Number(covered.positives))} positive, ${count(Number(covered.negatives))} negative.`;
  const flagged = between_ && between_.share !== undefined && between_.share !== null
    ? `At their thresholds they disagree on ${between_.isApproximate ? "about " : ""}${percent(between_.share)} of the labelled ids: `
      + (isTurned ? [[found.b, between_.bRight], [found.a, between_.aRight]] : [[found.a, between_.aRight], [found.b, between_.bRight]])
        .map(([name, right]) => `${name} was right in ${count(Number(right))}`).join(", ") + "."
    : "";
  const prevalence = found.compared.prevalence === undefined || found.compared.prevalence === null ? "" : `At a prevalence of ${percent(found.compared.prevalence)}.`;
  return [shared, flagged, prevalence].filter(Boolean).join(" ");
}
