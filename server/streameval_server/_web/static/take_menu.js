// What one stream's view can be exported as, links and a report, and the alerts that can be made of what is seen.

import { h, setText } from "./dom.js";
import { grpcAddress } from "./grpc_address.js";
import { closing, modal } from "./popover.js";
import { windowBetween } from "./route.js";
import { alarmCommand, prometheusRule, reportCommand } from "./rules.js";
import { copyButton } from "./take.js";

export class TakeMenu {
  /** `link(change)` returns the link to the view with another window. */
  constructor(name, link) {
    Object.assign(this, { name, link, snapshot: null });
    this.pinned = copyButton("Copy link to this time", () => this.address(this.link({ window: this.covered() })));
    this.element = h("details", { class: "menu", id: "take" }, h("summary", { class: "button" }, "Export"),
      h("div", { class: "menu-items" },
        copyButton("Copy link", () => location.href), this.pinned,
        h("button", { type: "button", class: "quiet", onclick: () => this.showDialog("report") }, "Report …"),
        h("button", { type: "button", class: "quiet", onclick: () => this.showDialog("alert") }, "Create alert …")),
      this.makeDialog());
    closing(this.element);
  }

  makeDialog() {
    this.rule = h("code");
    this.command = h("code");
    this.report = h("code");
    this.partNote = h("p", { class: "note" });
    const part = (title, note, code) => [h("h3", {}, title), h("p", { class: "note" }, note),
      h("pre", { tabindex: 0 }, code), copyButton("Copy", () => code.textContent)];
    this.title = h("h2", { id: "rules-title" });
    this.parts = {
      alert: h("div", {}, this.partNote,
        part("Alarms of the server", "Their rate of false alarms is stated; the tolerances are yours to choose. Compared with what is seen.", this.command),
        part("An alert of Prometheus", "When the upper limit of the recent window falls below the lower limit of what is seen.", this.rule)),
      report: h("div", {}, part("On a terminal", "One HTML file of what is seen, which prints and opens without a server.", this.report)),
    };
    this.dialog = h("dialog", { class: "rules", "aria-labelledby": "rules-title" }, this.title, Object.values(this.parts),
      h("div", { class: "dialog-row" }, h("button", { type: "button", onclick: () => this.dialog.close() }, "Close")));
    return modal(this.dialog);
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

  /** Show the dialog of a part. */
  async showDialog(part) {
    const { snapshot } = this;
    if (!snapshot) return;
    const address = await grpcAddress();
    setText(this.rule, prometheusRule(this.name, snapshot) ?? "# Too few cases for an interval: nothing to compare with.");
    setText(this.command, alarmCommand(this.name, snapshot, address));
    setText(this.report, reportCommand(this.name, snapshot, address));
    setText(this.partNote, snapshot.segment ? "Prometheus and alarms have whole streams: the segment is left out of their conditions, not of the figures." : "");
    setText(this.title, { alert: "Create alert", report: "Report" }[part]);
    for (const [key, element] of Object.entries(this.parts)) element.hidden = key !== part;
    if (!this.dialog.open && this.dialog.isConnected) this.dialog.showModal();
  }
}
