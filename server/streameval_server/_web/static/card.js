// A card with a chart: heading, a note behind an (i), legend, plot, its data as a table, and what can be taken along.

import { h, redraw } from "./dom.js";
import { Plot } from "./plot.js";
import { info } from "./popover.js";
import { sheetTable } from "./sheet.js";
import { takeButtons } from "./take.js";

export class ChartCard {
  constructor(signal, { id, title, note, shape, keys }) {
    this.heading = h("h2", { id: `${id}-title` }, title);
    this.plotted = h("div", { class: `plot ${shape}`, id: `${id}-plot` });
    this.tableBody = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `${title}: table` });
    this.details = h("details", { class: "rows", ontoggle: () => this.fillTable() },
      h("summary", {}, "Show as a table"), this.tableBody);
    this.keys = h("ul", { class: "keys", role: "list" });
    this.note = h("p", { class: "note" }, note ?? "");
    this.foot = h("div", { class: "card-foot" }, this.details, takeButtons(this));
    this.element = h("section", { class: "card", "aria-labelledby": `${id}-title`, id },
      h("div", { class: "card-head" }, h("div", { class: "titled" }, this.heading, info(title, this.note)), this.keys),
      this.plotted, this.foot);
    this.plot = new Plot(this.plotted, signal);
    this.legend(keys ?? []);
  }

  get title() {
    return this.heading.textContent;
  }

  /** Set the legend; keys are [class of the swatch, text]. */
  legend(keys) {
    this.keys.replaceChildren(...keys.map(([kind, text]) =>
      h("li", {}, h("span", { class: `swatch ${kind}`, "aria-hidden": true }), text)));
  }

  /**
   * Draw the plot. `makeSheet()` returns the rows that it shows (sheet.js): those of the CSV, and of the
   * table while it is open unless `makeTableSheet` has fewer.
   */
  draw(label, build, makeSheet, makeTableSheet = makeSheet) {
    Object.assign(this, { sheet: makeSheet, tableSheet: makeTableSheet });
    this.fillTable();
    return this.plot.draw(label, build);
  }

  fillTable() {
    redraw(this.tableBody, () => {
      if (this.details.open && this.tableSheet) this.tableBody.replaceChildren(sheetTable(this.tableSheet()));
    });
  }
}
