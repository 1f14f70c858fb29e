// The menu of what can be taken along of one stream: links, a report, a rule and the settings of alarms.

import { ApiError, getText, streamPath } from "./api.js";
import { h, setText } from "./dom.js";
import { grpcAddress } from "./grpc_address.js";
import { selection, windowBetween } from "./route.js";
import { alarmCommand, prometheusRule } from "./rules.js";
import { sentence } from "./states.js";
import { aboutOf, copyButton, fileName, save } from "./take.js";

export class TakeMenu {
  /** `link(change)` returns the link to the view with another window. */
  constructor(name, link) {
    Object.assign(this, { name, link, snapshot: null });
    this.said = h("p", { class: "note", role: "status" });
    this.pinned = copyButton("Copy link to this time", () => this.address(this.link({ window: this.covered() })));
    this.element = h("details", { class: "menu", id: "take" }, h("summary", { class: "button" }, "Take along"),
      h("div", { class: "menu-items" },
        copyButton("Copy link", () => location.href), this.pinned,
        h("button", { type: "button", class: "quiet", onclick: () => this.report() }, "Save a report (HTML)"),
        h("button", { type: "button", class: "quiet", onclick: () => this.showRules() }, "Rule and alarm settings …"), this.said),
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
    this.partNote = h("p", { class: "note" });
    const part = (title, note, code) => [h("h3", {}, title), h("p", { class: "note" }, note),
      h("pre", { tabindex: 0 }, code), copyButton("Copy", () => code.textContent)];
    this.dialog = h("dialog", { class: "rules", "aria-labelledby": "rules-title" },
      h("h2", { id: "rules-title" }, "Watch what is seen"), this.partNote,
      part("An alert of Prometheus", "When the upper limit of the recent window falls below the lower limit of what is seen.", this.rule),
      part("Alarms of the server", "Their rate of false alarms is stated; the tolerances are yours to choose. Compared with what is seen.", this.command),
      h("div", { class: "dialog-row" }, h("button", { type: "button", onclick: () => this.dialog.close() }, "Close")));
    return this.dialog;
  }

  /** Follow the URL: the window and the segment. */
  choose(window, segment) {
    Object.assign(this, { window, segment });
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

  async report() {
    setText(this.said, "Writing the report …");
    try {
      const text = await getText(streamPath(this.name, "report"), selection("selection.", this.window, this.segment));
      save(fileName(`${aboutOf(this.element)} report`, "html"), text, "text/html");
      setText(this.said, "");
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setText(this.said, `No report. ${sentence(error.message)}`);
    }
  }

  async showRules() {
    const { snapshot } = this;
    if (!snapshot) return;
    const address = await grpcAddress();
    setText(this.rule, prometheusRule(this.name, snapshot) ?? "# Too few cases for an interval: nothing to compare with.");
    setText(this.command, alarmCommand(this.name, snapshot, address));
    setText(this.partNote, this.segment ? "Prometheus and alarms have whole streams: the segment is left out of the conditions, not of the figures." : "");
    if (!this.dialog.open && this.dialog.isConnected) this.dialog.showModal();
  }
}
