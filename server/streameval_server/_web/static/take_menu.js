// The menu of what can be taken along of one stream: links, a rule, and the commands for alarms and a report.

import { h, setText } from "./dom.js";
import { grpcAddress } from "./grpc_address.js";
import { windowBetween } from "./route.js";
import { alarmCommand, prometheusRule, reportCommand } from "./rules.js";
import { copyButton } from "./take.js";

export class TakeMenu {
  /** `link(change)` returns the link to the view with another window. */
  constructor(name, link) {
    Object.assign(this, { name, link, snapshot: null });
    this.pinned = copyButton("Copy link to this time", () => this.address(this.link({ window: this.covered() })));
    this.element = h("details", { class: "menu", id: "take" }, h("summary", { class: "button" }, "Take along"),
      h("div", { class: "menu-items" },
        copyButton("Copy link", () => location.href), this.pinned,
        h("button", { type: "button", class: "quiet", onclick: () => this.showRules() }, "Rule, alarms and report …")),
      this.makeDialog());
    const closing = ({ target }) => { if (!this.element.contains(target)) this.element.open = false; };
    this.element.addEventListener("toggle", () => {
      if (this.element.open) document.addEventListener("pointerdown", closing);
      else document.removeEventListener("pointerdown", closing);
    });
    this.element.addEventListener("keydown", ({ key }) => {
      if (key !== "Escape" || this.dialog.open) return;
      this.element.open = false;
      this.element.querySelector("summary").focus();
    });
  }

  makeDialog() {
    this.rule = h("code");
    this.command = h("code");
    this.report = h("code");
    this.partNote = h("p", { class: "note" });
    const part = (title, note, code) => [h("h3", {}, title), h("p", { class: "note" }, note),
      h("pre", { tabindex: 0 }, code), copyButton("Copy", () => code.textContent)];
    this.dialog = h("dialog", { class: "rules", "aria-labelledby": "rules-title" },
      h("h2", { id: "rules-title" }, "Watch or print what is seen"), this.partNote,
      part("An alert of Prometheus", "When the upper limit of the recent window falls below the lower limit of what is seen.", this.rule),
      part("Alarms of the server", "Their rate of false alarms is stated; the tolerances are yours to choose. Compared with what is seen.", this.command),
      part("A report that prints", "One HTML file of what is seen, which opens without a server.", this.report),
      h("div", { class: "dialog-row" }, h("button", { type: "button", onclick: () => this.dialog.close() }, "Close")));
    return this.dialog;
  }

  /** Follow what is shown. */
  follow(snapshot) {
    this.snapshot = snapshot;
    this.pinned.hidden = !snapshot.window;
  }

  covered() {
    const { startTime, endTime } = this.snapshot.window;
    return windowBetween(new Date(startTime), new Date(endTime));
  }

  address(fragment) {
    return new URL(fragment, location.href).href;
  }

  async showRules() {
    const { snapshot } = this;
    if (!snapshot) return;
    const address = await grpcAddress();
    setText(this.rule, prometheusRule(this.name, snapshot) ?? "# Too few cases for an interval: nothing to compare with.");
    setText(this.command, alarmCommand(this.name, snapshot, address));
    setText(this.report, reportCommand(this.name, snapshot, address));
    setText(this.partNote, snapshot.segment ? "Prometheus and alarms have whole streams: the segment is left out of their conditions, not of the figures." : "");
    if (!this.dialog.open && this.dialog.isConnected) this.dialog.showModal();
  }
}
