// Annotations of a stream's time, such as deployments: drawn in its charts, listed below, made and deleted.

import { ApiError, get, post, remove, streamPath } from "./api.js";
import { fill, h, redraw, setText } from "./dom.js";
import { count, moment, timeOf } from "./format.js";
import { sentence } from "./states.js";

export class Marks {
  /** `changed()` is called when the marks are other ones. */
  constructor(name, signal, changed) {
    Object.assign(this, { name, signal, changed, marks: [], key: "[]" });
    this.summary = h("summary", {}, "Marks: none yet");
    this.list = h("ul", { class: "marks", role: "list" });
    this.text = h("input", { id: "mark-text", maxlength: 200, required: true, placeholder: "v4 deployed", autocomplete: "off" });
    this.time = h("input", { id: "mark-time", type: "datetime-local" });
    this.refusal = h("p", { class: "refusal", role: "alert", hidden: true });
    this.form = h("form", { onsubmit: (event) => { event.preventDefault(); this.add(); } },
      h("label", { for: "mark-text" }, "What happened"), this.text,
      h("label", { for: "mark-time" }, "When (empty: now)"), this.time,
      h("button", { type: "submit" }, "Add a mark"));
    this.element = h("details", { class: "marked", id: "marks" }, this.summary, this.list, this.form, this.refusal);
  }

  async load() {
    const { marks } = await get(streamPath(this.name, "marks"), {}, this.signal);
    const key = JSON.stringify(marks);
    if (key === this.key) return; // a button that has the focus stays
    this.key = key;
    this.marks = marks.map(({ number, time, text }) => ({ number, text, time: new Date(time) }));
    setText(this.summary, this.marks.length ? `Marks (${count(this.marks.length)})` : "Marks: none yet");
    redraw(this.list, () => fill(this.list, this.marks.toReversed().map((each) => h("li", {},
      h("span", {}, `${moment(each.time)}: ${each.text} `),
      h("button", { type: "button", class: "quiet", "aria-label": `Delete the mark ${each.text}`, onclick: () => this.change(() => this.drop(each)) }, "Delete")))));
    this.changed();
  }


  add() {
    const time = this.time.value ? { time: timeOf(this.time.value).toISOString() } : {};
    return this.change(async () => {
      await post(streamPath(this.name, "marks"), { text: this.text.value.trim(), ...time }, this.signal);
      this.text.value = this.time.value = "";
    });
  }

  drop({ number }) {
    return remove(streamPath(this.name, "marks"), { number }, this.signal);
  }

  /** Make a change and show the marks as they are then; say why where it is refused. */
  async change(act) {
    this.refusal.hidden = true;
    try {
      await act();
      await this.load();
    } catch (error) {
      if (this.signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      this.refusal.hidden = false;
      setText(this.refusal, `Nothing is changed. ${sentence(error.message)}`);
    }
  }
}
