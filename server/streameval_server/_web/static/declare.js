// Declares a threshold: asks first, then changes the stream's settings.

import { ApiError, patch, streamPath } from "./api.js";
import { h, setText } from "./dom.js";
import { score } from "./format.js";
import { modal } from "./popover.js";
import { sentence } from "./states.js";

export class DeclareButton {
  constructor(name, signal) {
    Object.assign(this, { name, signal });
    this.button = h("button", { type: "button", class: "quiet", id: "declare", hidden: true, onclick: () => this.ask() }, "Declare this threshold …");
    this.spoken = h("span", { class: "summary", role: "status", id: "declared" });
    this.title = h("h2", { id: "declare-title" });
    this.before = h("p");
    this.refusal = h("p", { class: "refusal", role: "alert", hidden: true });
    this.confirm = h("button", { type: "button", class: "primary", onclick: () => this.declare() }, "Declare it");
    this.dialog = h("dialog", { "aria-labelledby": "declare-title" },
      this.title, this.before,
      h("p", { class: "note" }, "From then on the rates at the threshold and their Prometheus metrics are those of the new one. Alarms "
        + "that watch them begin anew with a reference, and their open alarms are dropped. Counted cases do not change."),
      this.refusal,
      h("div", { class: "dialog-row" }, h("button", { type: "button", onclick: () => this.dialog.close() }, "Cancel"), this.confirm));
    this.element = h("div", { class: "declare" }, this.button, this.spoken, modal(this.dialog));
  }

  /** Offer a threshold to those who may declare it; `declared` is the operating point of now, null for none. */
  offer(threshold, declared, mayUpdate) {
    Object.assign(this, { threshold, declared });
    this.button.hidden = !mayUpdate;
    this.button.disabled = !Number.isFinite(threshold) || threshold === declared?.threshold || threshold === declared?.lowestScore;
  }

  ask() {
    this.asked = this.threshold; // the offer may change while the dialog is open
    setText(this.title, `Declare ${score(this.asked)} as the threshold of ${this.name}?`);
    setText(this.before, this.declared ? `It declares ${score(this.declared.threshold)} now.` : "It declares none now.");
    this.refusal.hidden = true;
    this.confirm.disabled = false;
    this.dialog.showModal();
  }

  async declare() {
    this.confirm.disabled = true;
    try {
      await patch(streamPath(this.name), { stream: { settings: { threshold: this.asked } }, updateMask: "settings.threshold" }, this.signal);
      this.dialog.close();
      setText(this.spoken, `${score(this.asked)} is declared.`);
    } catch (error) {
      if (this.signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      this.confirm.disabled = false;
      this.refusal.hidden = false;
      setText(this.refusal, `Not declared. ${sentence(error.message)}`);
    }
  }
}
