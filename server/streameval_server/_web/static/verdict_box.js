// The verdict on a stream: its sentence, the limits of when and how much, what it rests on, and what to do now.

import { ApiError, get, post, Refresher, streamPath } from "./api.js";
import { fill, h, redraw, setText } from "./dom.js";
import { count, day, hour, percent, period, segmentName, titleOf } from "./format.js";
import { info } from "./popover.js";
import { windowBetween } from "./route.js";
import { sentence } from "./states.js";
import { differenceWords, headline, localSilence, qualityOf, statesOf } from "./verdict.js";

const GAP_MS = 2_000;
const MAX_AGE_MS = 30_000; // time alone makes a stream silent

export class VerdictBox {
  /**
   * `toSegment(segment)` and `toWindow(window)` return links; `toAlarms()` shows the alarms; `changed(verdict)`
   * gets each verdict, and `failed` the ApiError of a read.
   */
  constructor(name, signal, { toSegment, toWindow, toAlarms, changed, failed }) {
    Object.assign(this, { name, signal, toSegment, toWindow, changed, verdict: null });
    this.state = h("span", { class: "states" });
    this.text = h("p", { class: "sentence" });
    this.limits = h("p", { class: "summary", id: "verdict-limits" });
    this.basis = h("div");
    this.since = h("a", { class: "button quiet" }, "Show the change");
    this.alarms = h("button", { type: "button", class: "quiet", onclick: toAlarms }, "Show the alarms");
    this.accept = h("button", { type: "button", class: "quiet", id: "accept", hidden: true, onclick: () => this.ask() }, "Accept as the new normal …");
    this.refusal = h("p", { class: "refusal", role: "alert", hidden: true });
    this.confirm = h("button", { type: "button", class: "primary", onclick: () => this.accepted() }, "Accept it");
    this.dialog = h("dialog", { "aria-labelledby": "accept-title" },
      h("h2", { id: "accept-title" }, `Accept what is now as the normal of ${name}?`),
      h("p", {}, "Verdicts compare with it from then on, and evidence begins again. Counted cases do not change."),
      this.refusal,
      h("div", { class: "dialog-row" }, h("button", { type: "button", onclick: () => this.dialog.close() }, "Cancel"), this.confirm));
    this.element = h("section", { class: "answer", id: "answer", "aria-label": "Verdict", hidden: true },
      h("div", { class: "said" }, h("div", { class: "titled" }, this.state, this.text, info("this verdict", this.basis)), this.limits),
      h("div", { class: "actions" }, this.since, this.alarms, this.accept), this.dialog);
    this.refresher = new Refresher(() => this.load(), GAP_MS, signal, failed);
    const timer = setInterval(() => this.isShown && this.refresher.request(), MAX_AGE_MS);
    signal.addEventListener("abort", () => clearInterval(timer), { once: true });
  }

  /** Show it from now on; read it again where a snapshot has another revision. */
  follow(revision = this.revision) {
    if (!this.isShown || revision !== this.revision) this.refresher.request();
    Object.assign(this, { revision, isShown: true });
  }

  /** Show nothing until `follow`: the link cannot be read, or the stream was refused. */
  hide() {
    this.isShown = false;
    this.element.hidden = true;
  }

  async load() {
    const [{ verdict }, { mayUpdate }] = await Promise.all([
      get(streamPath(this.name, "verdict"), {}, this.signal), get(streamPath(this.name), {}, this.signal)]);
    this.mayUpdate = mayUpdate;
    this.take(verdict);
  }

  take(verdict) {
    this.verdict = verdict;
    this.show();
    this.changed(verdict);
  }

  /** Draw the verdict again; the links follow the URL. It is on the whole stream, which is said where a segment is shown. */
  show(segment = this.segment) {
    this.segment = segment;
    if (!this.verdict || !this.isShown) return;
    this.element.hidden = false;
    const { at, validUntil, ...kept } = this.verdict;
    const key = JSON.stringify([kept, this.mayUpdate, segment, this.toSegment(null)]);
    if (key === this.key) return; // selected text and the focus stay
    this.key = key;
    redraw(this.text, () => this.draw());
  }

  draw() {
    const { verdict } = this;
    const quality = qualityOf(verdict);
    this.element.className = `answer ${quality}`;
    fill(this.state, statesOf(verdict).map(([word, kind]) => h("span", { class: `state-chip ${kind}` }, word)));
    fill(this.text, this.segment ? h("span", { class: "summary" }, "Whole stream: ") : null, this.linked(localTimes(verdict)));
    setText(this.limits, limitWords(verdict));
    fill(this.basis, basisWords(verdict).map((text) => h("p", { class: "note" }, text)));
    this.since.hidden = !verdict.since;
    if (verdict.since) this.since.href = this.toWindow(aroundOf(verdict));
    this.alarms.hidden = verdict.alarm === undefined;
    this.accept.hidden = !(this.mayUpdate && verdict.since && (quality === "worse" || quality === "better"));
  }

  /** The sentence, with links to the segments that it names. */
  linked(text) {
    const names = new Map(this.verdict.because.map(({ segment }) => [`${segment.key}=${segment.value}`, segment]));
    if (!names.size) return [text];
    const pattern = new RegExp(`(${[...names.keys()].map((name) => name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|")})`);
    return text.split(pattern).map((part) => (names.has(part) ? h("a", { href: this.toSegment(names.get(part)) }, segmentName(names.get(part))) : part));
  }

  ask() {
    this.refusal.hidden = true;
    this.confirm.disabled = false;
    this.dialog.showModal();
  }

  async accepted() {
    this.confirm.disabled = true;
    try {
      const { verdict } = await post(streamPath(this.name, "acceptNormal"), {}, this.signal);
      this.dialog.close();
      this.take(verdict);
    } catch (error) {
      if (this.signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      this.confirm.disabled = false;
      this.refusal.hidden = false;
      setText(this.refusal, `Not accepted. ${sentence(error.message)}`);
    }
  }
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** The server's sentence, whose times are in UTC, with them as all other times of the page. */
function localTimes({ sentence: text, at, since, returned, moved }) {
  const times = [since, returned, ...moved.map((each) => each.since)].filter(Boolean).map(({ likeliest }) => new Date(likeliest));
  return localSilence(times.reduce((said, time) => said.replaceAll(
    `${MONTHS[time.getUTCMonth()]} ${time.getUTCDate()}, ${time.toISOString().slice(11, 16)}`, `${day(time)}, ${hour(time)}`), text), at);
}

const timeWords = (at) => `${day(new Date(at))}, ${hour(new Date(at))}`;

/** Between which times it began, and by how much it differs. */
function limitWords(verdict) {
  const found = headline(verdict);
  const parts = [];
  if (verdict.since) parts.push(`It began between ${timeWords(verdict.since.earliest)} and ${timeWords(verdict.since.latest)}.`);
  if (found?.difference?.estimate !== undefined) {
    const at = found.prevalence === undefined ? "" : ` at a prevalence of ${percent(found.prevalence)}`;
    parts.push(`Now minus base: ${titleOf(found.metric)} ${differenceWords(found)}${at}.`);
  }
  return parts.join(" ");
}

/** What it rests on: the base, the rate of wrong calls, and why it could be wrong. */
function basisWords({ base, sure, couldBeWrong }) {
  const parts = base ? [`Compared with ${period(new Date(base.span.startTime), new Date(base.span.endTime))}: ${count(Number(base.positives))} positives `
    + `and ${count(Number(base.negatives))} negatives, ${base.isDeclared ? "as declared" : "the earliest whole weeks without a change"}.`] : [];
  return [...parts, sentence(sure), ...couldBeWrong.map(sentence)];
}

/** The time from as long before the change as it has lasted since, or from the base on. */
function aroundOf({ since, base, at }) {
  const [first, now] = [new Date(since.earliest), new Date(at)];
  const start = new Date(Math.max(2 * first - now - 6 * 3_600_000, base ? new Date(base.span.startTime) : 0));
  start.setUTCMinutes(0, 0, 0);
  now.setUTCSeconds(0, 0);
  return windowBetween(start, now);
}
