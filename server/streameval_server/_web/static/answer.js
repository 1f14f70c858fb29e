// What the view is opened for, in sentences: whether it became worse, since when, because of what, and
// what the labels that are still to come will change.

import { explained, isOpen, watchTitle } from "./alarms.js";
import { metric } from "./api.js";
import { fill, h, redraw } from "./dom.js";
import { count, figure, moment, period, titleOf } from "./format.js";
import { HEADLINE } from "./metrics.js";
import { sentence } from "./states.js";

const MIN_PENDING_SHARE = 0.005; // of the labels: fewer round to 0 %
const NARROW = 0.02; // intervals of this width have a third digit

export class Answer {
  /** `toSegment(segment)` returns the link to a segment; `toAlarms()` shows the alarms' card. */
  constructor(toSegment, toAlarms) {
    Object.assign(this, { toSegment, facts: {} });
    this.text = h("p", {});
    this.button = h("button", { type: "button", class: "quiet", onclick: toAlarms }, "Show the alarms");
    this.element = h("section", { class: "answer", id: "answer", "aria-label": "In short", hidden: true }, this.text, this.button);
  }

  /** Take what has become known: {snapshot, status, projected, segment}; null status is no detector. */
  update(facts) {
    Object.assign(this.facts, facts);
    const { snapshot, status } = this.facts;
    this.element.hidden = !snapshot || status === undefined;
    if (!this.element.hidden) redraw(this.text, () => this.draw());
  }

  draw() {
    const { status } = this.facts;
    const open = status ? status.alarms.filter(isOpen) : [];
    const quality = this.qualityWords();
    const parts = [open.length ? this.worse(open) : [this.calmWords(status)], quality ? [quality] : []];
    const key = JSON.stringify([parts.map((each) => each.map((part) => part.outerHTML ?? part)), this.toSegment(null)]);
    if (key === this.key) return; // selected text and the focus stay
    this.key = key;
    this.element.classList.toggle("worse", open.length > 0);
    this.button.hidden = !open.length;
    fill(this.text, parts.flatMap((each, index) => (index && each.length ? [" ", ...each] : each)));
  }

  /** What fell or rose first, since when and why; other open alarms by name. */
  worse([first, ...others]) {
    const { direction, difference, since, segments } = first;
    const subject = this.facts.segment ? `${watchTitle(first.watch)} of the whole stream` : watchTitle(first.watch);
    const parts = [h("strong", {}, `${subject} ${direction} by ${size(difference.estimate)} since about ${moment(new Date(since))}.`)];
    if (segments.length) parts.push(" ", ...explained(segments.map(({ segment }) => segment), this.toSegment), ".");
    const also = others.filter(({ watch }) => watch !== first.watch).map((each) => `${watchTitle(each.watch)} ${each.direction}`);
    if (also.length) parts.push(` ${[...new Set(also)].join(", ")}, too.`);
    return parts;
  }

  calmWords(status) {
    if (!status) return "";
    const { state, reference } = status;
    const between = period(new Date(reference.startTime), new Date(reference.endTime));
    return state === "ALARM_STATE_WAITING"
      ? `Whether it became worse is not known yet: the time to compare with is ${between}.`
      : `Nothing that is watched is known to have become worse than it was ${between}.`;
  }

  /** What the window reads, and will read. */
  qualityWords() {
    const { snapshot, projected } = this.facts;
    const [positives, negatives] = [Number(snapshot.numPositiveRef), Number(snapshot.numNegativeRef)];
    const { coverage } = snapshot;
    const pending = Number(coverage?.pending ?? 0);
    if (!positives && !negatives) {
      return pending ? `No label has arrived yet of ${count(pending)} predictions, so its quality is not known.`
        : "There are no labelled cases in this window.";
    }
    const title = titleOf(HEADLINE);
    if (!positives || !negatives) {
      const [there, missing] = positives ? ["positive", "negative"] : ["negative", "positive"];
      return `${positives + negatives === 1 ? "The one label that has" : `All ${count(positives + negatives)} labels that have`} arrived `
        + `${positives + negatives === 1 ? "is" : "are"} ${there}: ${title} is known once a ${missing} one comes.`;
    }
    const found = metric(snapshot, HEADLINE);
    const now = `${title} is ${limited(found.value, found.interval)}`;
    const share = coverage ? pending / (Number(coverage.predictions) - Number(coverage.retracted)) : 0;
    if (!(share >= MIN_PENDING_SHARE)) return `${now}.`;
    const toCome = `${Math.round(100 * share)} % of the labels are still to come`;
    if (projected?.projected === undefined) return sentence(`${now} so far; ${toCome}`);
    return `${sentence(`${now} so far`)} ${toCome}; projected ${limited(projected.projected, projected.interval)}.`;
  }
}

/** 0.10, or 0.0042: two digits that count. */
function size(difference) {
  const value = Math.abs(difference);
  return value < 0.095 ? String(Number(value.toPrecision(2))) : figure(value, 2);
}

/** 0.71 (0.66 to 0.75). */
function limited(value, limits) {
  if (limits?.lower === undefined) return figure(value, 2);
  const digits = limits.upper - limits.lower < NARROW ? 3 : 2;
  return `${figure(value, digits)} (${figure(limits.lower, digits)} to ${figure(limits.upper, digits)})`;
}
