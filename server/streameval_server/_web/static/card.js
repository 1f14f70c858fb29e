// A card with a chart: heading, legend, plot, note, and the chart's data as a table.

import { h, redraw } from "./dom.js";
import { Plot } from "./plot.js";

export class ChartCard {
  constructor(signal, { id, title, note, shape, keys }) {
    this.plotted = h("div", { class: `plot ${shape}`, id: `${id}-plot` });
    this.tableBody = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `${title}: table` });
    this.details = h("details", { ontoggle: () => this.fillTable() },
      h("summary", {}, "Show as a table"), this.tableBody);
    this.keys = h("ul", { class: "keys", role: "list" });
    this.note = h("p", { class: "note" }, note ?? "");
    this.element = h("section", { class: "card", "aria-labelledby": `${id}-title`, id },
      h("div", { class: "card-head" }, h("h2", { id: `${id}-title` }, title), this.keys),
      this.plotted, this.note, this.details);
    this.plot = new Plot(this.plotted, signal);
    this.legend(keys ?? []);
  }

  /** Set the legend; keys are [class of the swatch, text]. */
  legend(keys) {
    this.keys.replaceChildren(...keys.map(([kind, text]) =>
      h("li", {}, h("span", { class: `swatch ${kind}`, "aria-hidden": true }), text)));
  }

  /** Draw the plot; `makeTable()` builds the table when it is open. */
  draw(label, build, makeTable) {
    this.makeTable = makeTable;
    this.fillTable();
    return this.plot.draw(label, build);
  }

  fillTable() {
    redraw(this.tableBody, () => {
      if (this.details.open && this.makeTable) this.tableBody.replaceChildren(this.makeTable());
    });
  }
}
