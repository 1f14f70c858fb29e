// One stream's alarms: what became worse, since when and where; the evidence of each watch.

import { ApiError, get, post, Refresher, streamPath } from "./api.js";
import { fill, h, redraw, setText } from "./dom.js";
import { count, day, figure, hour, moment, period, segmentName } from "./format.js";
import { WATCHED } from "./metrics.js";
import { sentence } from "./states.js";

const GAP_MS = 1_000;
const MAX_AGE_MS = 5_000; // of the evidence, while the stream changes
const IDLE_GAP_MS = 10_000; // a reference ends without a new row
const MAX_NAMED_SEGMENTS = 3;

const TITLES = { ...WATCHED, calibration: "Calibration" };
const FIRST = {
  scores: "scores changed first",
  labels: "the share of positives changed first",
  neither: "neither scores nor the share of positives are known to have changed",
};

/** What a watch is called. */
export const watchTitle = (watch) => TITLES[watch] ?? watch;

/** Whether an alarm has not been acknowledged; one that history would have raised is past. */
export const isOpen = (alarm) => !alarm.acknowledgedAt && !alarm.isPast;

/** "1 open alarm", "3 open alarms". */
export const openWords = (number) => `${count(number)} open ${number === 1 ? "alarm" : "alarms"}`;

/** "country=BR and channel=web explain it", with links; at most three are named. */
export function explained(segments, toSegment) {
  const named = segments.slice(0, MAX_NAMED_SEGMENTS).map((each) => h("a", { href: toSegment(each) }, segmentName(each)));
  const others = segments.length - named.length;
  const items = others ? [...named, `${count(others)} more`] : named;
  const listed = items.flatMap((item, index) =>
    (index === 0 ? [item] : [index === items.length - 1 ? " and " : ", ", item]));
  return [...listed, items.length === 1 ? " explains it" : " explain it"];
}

export class AlarmsCard {
  /**
   * `toSegment(segment)` returns the link to a segment; `changed(status)` is called when the detector was
   * read, null without one; `failed` gets the ApiError of a read.
   */
  constructor(name, signal, toSegment, changed, failed) {
    Object.assign(this, { name, signal, toSegment, changed, numAcknowledged: 0, loadedMs: -Infinity });
    this.sent = new Set(); // numbers of alarms whose acknowledgement is under way
    this.refusals = new Map(); // from an alarm's number to the server's words
    this.title = h("h2", { id: "alarms-title", tabindex: -1 }, "Alarms");
    this.chip = h("span", { class: "alarm-state" });
    this.spoken = h("p", { class: "hidden", role: "status" });
    this.list = h("div", { id: "open-alarms" });
    this.waits = h("p", { class: "empty", id: "alarms-wait" });
    this.evidence = h("dl", { class: "evidence", id: "evidence" });
    this.note = h("p", { class: "note", id: "alarms-note" });
    this.before = h("ul");
    this.summary = h("summary");
    this.details = h("details", { id: "acknowledged-alarms", class: "acknowledged" }, this.summary, this.before);
    this.element = h("section", { class: "card alarms", id: "alarms", "aria-labelledby": "alarms-title", hidden: true },
      h("div", { class: "card-head" }, this.title, this.chip),
      this.spoken, this.list, this.waits, this.evidence, this.note, this.details);
    this.refresher = new Refresher(() => this.load(), GAP_MS, signal, failed);
    const timer = setInterval(() => this.refresher.request(), IDLE_GAP_MS);
    signal.addEventListener("abort", () => clearInterval(timer), { once: true });
    this.refresher.request();
  }

  /** Read again if a snapshot has another number of open alarms, or the evidence is old. */
  follow(numOpen) {
    if (numOpen !== this.numOpen || performance.now() - this.loadedMs >= MAX_AGE_MS) this.refresher.request();
  }

  async load() {
    const { numAcknowledged } = this;
    const { statuses: [status] } = await get("v1/alarms", { stream: this.name }, this.signal);
    if (numAcknowledged !== this.numAcknowledged) { // the answer may be older than that
      this.refresher.request();
      return;
    }
    this.loadedMs = performance.now();
    this.update(status);
  }

  update(status) {
    this.status = status;
    this.element.hidden = !status;
    this.numOpen = status ? status.alarms.filter(isOpen).length : 0;
    this.changed(status ?? null);
    if (!status) return;
    const isWaiting = status.state === "ALARM_STATE_WAITING";
    this.element.classList.toggle("firing", this.numOpen > 0);
    this.chip.classList.toggle("open", this.numOpen > 0);
    setText(this.chip, this.numOpen ? openWords(this.numOpen) : isWaiting ? "Not watching yet" : "No open alarm");
    setText(this.waits, isWaiting ? waitWords(status) : "");
    setText(this.note, noteWords(status));
    this.showEvidence();
    this.show();
  }

  /** Bring the card into view, with the focus. */
  reveal() {
    this.title.focus({ preventScroll: true });
    this.element.scrollIntoView({ block: "start" });
  }

  /** Draw the alarms again; the links follow the URL. */
  show() {
    if (!this.status) return;
    const key = JSON.stringify([this.status.alarms, [...this.sent], [...this.refusals], this.toSegment(null)]);
    if (key === this.key) return; // selected text and the focus stay
    this.key = key;
    redraw(this.element, () => this.draw());
  }

  draw() {
    const focused = document.activeElement?.dataset.alarm;
    const [open, before] = [this.status.alarms.filter(isOpen), this.status.alarms.filter((each) => !isOpen(each))];
    fill(this.list, open.toReversed().map((each) => this.openAlarm(each)));
    this.details.hidden = !before.length;
    setText(this.summary, beforeWords(before));
    fill(this.before, before.toReversed().map((each) => h("li", {}, this.sentence(each), closedWords(each))));
    if (focused) this.list.querySelector(`[data-alarm="${focused}"]`)?.focus();
  }

  openAlarm(alarm) {
    const isSent = this.sent.has(alarm.number);
    const refusal = this.refusals.get(alarm.number);
    return h("article", { class: "alarm", "aria-label": `Alarm ${alarm.number}` },
      h("div", {}, h("p", { class: "what" }, this.sentence(alarm)), h("p", { class: "note" }, factWords(alarm))),
      h("button", {
        type: "button", "data-alarm": alarm.number, "aria-label": `Acknowledge alarm ${alarm.number}`,
        "aria-disabled": isSent ? "true" : null, onclick: () => { if (!isSent) this.acknowledge(alarm.number); },
      }, "Acknowledge"),
      refusal ? h("p", { class: "refusal", role: "alert" }, refusal) : null);
  }

  /** One plain sentence, with links to the segments that explain it. */
  sentence(alarm) {
    const { changed, direction, reference, value, segments, changedFirst } = alarm;
    const title = watchTitle(alarm.watch);
    const isNamed = changed.toLowerCase().startsWith(title.toLowerCase()); // "precision at the threshold"
    const [from, to, lower, upper] = [reference, value.estimate, value.lower, value.upper].map((each) => figure(each));
    const parts = isNamed ? [h("strong", {}, title), changed.slice(title.length)] : [h("strong", {}, `${title}:`), ` ${changed}`];
    parts.push(` ${direction} from ${from} to ${to} (${lower} to ${upper}) since about ${moment(new Date(alarm.since))}`);
    if (segments.length) parts.push("; ", ...explained(segments.map(({ segment }) => segment), this.toSegment));
    if (FIRST[changedFirst]) parts.push(`; ${FIRST[changedFirst]}`);
    return [...parts, "."];
  }

  async acknowledge(number) {
    this.sent.add(number);
    this.refusals.delete(number);
    this.show();
    try {
      const { alarm } = await post(streamPath(this.name, "acknowledge"), { number }, this.signal);
      this.numAcknowledged += 1;
      this.title.focus(); // its button goes
      setText(this.spoken, `Alarm ${number} is acknowledged.`);
      const alarms = this.status.alarms.map((each) => (each.number === number ? alarm : each));
      this.sent.delete(number);
      this.update({ ...this.status, alarms });
    } catch (error) {
      if (this.signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      this.sent.delete(number);
      this.refusals.set(number, `Not acknowledged. ${sentence(error.message)}`);
      this.show();
    }
    this.refresher.request();
  }

  /** A bar for each watch; they are filled in place. */
  showEvidence() {
    const { evidence } = this.status;
    const key = JSON.stringify(evidence.map(({ watch }) => watch));
    if (key !== this.watches) {
      this.watches = key;
      this.bars = evidence.map(({ watch }) => {
        const bar = h("div");
        const meter = h("div", { class: "track", role: "meter", "aria-valuemin": 0, "aria-valuemax": 100,
          "aria-label": `${watchTitle(watch)}: evidence, in percent of an alarm` }, bar);
        return { bar, meter, text: h("span", { class: "share" }), open: h("span", { class: "still-open" }, "open alarm"), title: watchTitle(watch) };
      });
      fill(this.evidence, this.bars.map(({ meter, text, open, title }) =>
        h("div", {}, h("dt", {}, title, " ", open), h("dd", {}, meter, text))));
    }
    evidence.forEach(({ share, firing }, index) => {
      const { bar, meter, text, open } = this.bars[index];
      bar.style.width = `${100 * share}%`;
      meter.setAttribute("aria-valuenow", Math.floor(100 * share));
      meter.classList.toggle("firing", firing);
      open.hidden = !firing;
      setText(text, shareWords(share));
    });
  }
}

/** "2 acknowledged alarms", "1 acknowledged alarm and 3 from before the declaration". */
function beforeWords(alarms) {
  const past = alarms.filter((each) => each.isPast).length;
  const words = (number, what) => `${count(number)} ${what}${number === 1 ? "alarm" : "alarms"}`;
  if (!past) return words(alarms.length, "acknowledged ");
  if (past === alarms.length) return `${words(past, "")} from before the declaration`;
  return `${words(alarms.length - past, "acknowledged ")} and ${count(past)} from before the declaration`;
}

/** When it was acknowledged, or would have rung. */
function closedWords({ isPast, raisedAt, acknowledgedAt }) {
  if (!isPast) return ` Acknowledged ${moment(new Date(acknowledgedAt))}.`;
  return ` It would have rung ${moment(new Date(raisedAt))}, if labels had come in time.`;
}

/** Whole percents; only an alarm is 100 %. */
function shareWords(share) {
  return share > 0 && share < 0.01 ? "< 1 %" : `${Math.floor(100 * share)} %`;
}

function waitWords({ waitsFor, reference }) {
  const isTime = waitsFor.startsWith("the end of"); // else a refusal, which is a clause of its own
  const between = period(new Date(reference.startTime), new Date(reference.endTime));
  return `No alarm can be raised yet: ${isTime ? `the stream waits for ${waitsFor}` : waitsFor}. The reference is ${between}.`;
}

function noteWords({ watchingSince, reference, leftOut, warnings = [] }) {
  if (!watchingSince) return "";
  const [start, end] = [new Date(reference.startTime), new Date(reference.endTime)];
  const notes = ["Evidence, as a share of what raises an alarm; while one is open, that since.",
    `Compared with ${period(start, end)}; watched since ${moment(new Date(watchingSince))}.`];
  if (Number(leftOut)) notes.push(`Not watched: ${count(Number(leftOut))} rows with a weight, because their labels were chosen.`);
  notes.push(...warnings.map((each) => `${each[0].toUpperCase()}${each.slice(1)}.`));
  return notes.join(" ");
}

function factWords({ sinceLimits, raisedAt, lookAt, repeats, lastAt }) {
  const [first, last] = [new Date(sinceLimits.startTime), new Date(sinceLimits.endTime)];
  const facts = [`It began ${limitWords(first, last)}; the alarm was raised ${moment(new Date(raisedAt))}.`];
  if (repeats) facts.push(`As much evidence came again ${repeats === 1 ? "once" : `${count(repeats)} times`}, last ${moment(new Date(lastAt))}.`);
  facts.push(`Look at ${lookAt}.`);
  return facts.join(" ");
}

function limitWords(first, last) {
  if (moment(first) === moment(last)) return `about ${moment(first)}`;
  const end = day(first) === day(last) ? hour(last) : moment(last);
  return `between ${moment(first)} and ${end}`;
}
