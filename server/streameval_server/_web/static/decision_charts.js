// The charts of a window's cases: both curves, the threshold, the scores by class. All mark the chosen threshold.

import { PrCard, RocCard } from "./curves.js";
import { h } from "./dom.js";
import { hullOf, points } from "./geometry.js";
import { HistogramCard } from "./histogram.js";
import { ThresholdCard } from "./threshold.js";

const MAX_POINTS = 2048;
const BINS = 40;

export class DecisionCharts {
  /** `at` and `costs` are those of the URL, null where it has none; the rest is ThresholdCard's. */
  constructor(signal, { name, at, costs }, { changed, toWindow, failed }) {
    this.pr = new PrCard(signal);
    this.roc = new RocCard(signal);
    this.histogram = new HistogramCard(signal);
    this.threshold = new ThresholdCard(name, signal, { at, costs }, {
      toWindow, failed, changed: (chosen) => {
        changed(chosen);
        this.draw();
      },
    });
    this.curves = h("div", { class: "pair" }, this.pr.element, this.roc.element);
    this.cards = [this.pr, this.roc, this.threshold, this.histogram];
    this.clear();
  }

  /** Forget the answers about the last selection. */
  clear() {
    this.curve = this.counted = null;
    this.threshold.clear();
  }

  /** Show another threshold, from the URL. */
  choose(at) {
    this.threshold.at = at;
    this.threshold.show();
    this.draw();
  }

  /** Show what a snapshot's classes allow: without both there is no curve. */
  update(snapshot, hasBoth) {
    this.threshold.declared = snapshot.operatingPoint ?? null;
    this.curves.hidden = this.threshold.element.hidden = !hasBoth;
  }

  async loadCurve(reader) {
    const answer = await reader.read("curve", { kind: "CURVE_KIND_OPERATING_POINTS", maxPoints: MAX_POINTS });
    const curve = points(answer.curve);
    const [positives, negatives] = [curve.tp.at(-1), curve.fp.at(-1)];
    if (!positives || !negatives) return;
    const hull = hullOf(curve);
    this.curve = { curve, hull, positives, negatives };
    this.threshold.update({ ...curve, revision: answer.revision }, hull, positives, negatives, reader);
    this.draw();
  }

  async loadHistogram(reader) {
    this.counted = await reader.read("histogram", { bins: BINS });
    this.histogram.element.hidden = !this.counted.edges.length;
    this.draw();
  }

  draw() {
    const { chosen } = this.threshold;
    if (this.curve) {
      const drawn = { ...this.curve, chosen };
      for (const card of [this.pr, this.roc]) {
        card.draw(drawn);
        card.element.removeAttribute("aria-busy");
      }
    }
    if (this.counted?.edges.length) this.histogram.draw(this.counted, this.curve ? chosen?.threshold : undefined);
  }
}
