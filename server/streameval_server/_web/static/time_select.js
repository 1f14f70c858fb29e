// Chooses steps of a time chart: by a click, by dragging over several, or by the keyboard.

import { h } from "./dom.js";
import { rowAt } from "./time_rows.js";

export const HELP = "Click a step to open it, or drag over several; by keyboard, arrow keys move, with Shift they select, Enter opens.";
const MIN_DRAG_PX = 6; // a click moves less

export class TimeSelect {
  /**
   * `chart` is the Plot; `describe(row)` puts a step in words; `chosen(start, end)` gets the times of what
   * was chosen.
   */
  constructor(chart, signal, describe, chosen) {
    Object.assign(this, { chart, describe, chosen, rows: [], at: null, from: null });
    this.element = chart.element;
    this.shade = h("div", { class: "chosen-span", hidden: true });
    this.cursor = h("div", {
      class: "time-cursor", tabindex: 0, role: "slider", "aria-label": "Steps of the chart", "aria-valuemin": 1,
      onkeydown: (event) => this.key(event), onfocus: () => this.show(), onblur: () => this.leave(),
    });
    const listen = (name, act) => this.element.addEventListener(name, act, { signal });
    listen("pointerdown", (event) => this.press(event));
    listen("pointermove", (event) => this.drag(event));
    listen("pointerup", (event) => this.release(event));
    listen("pointercancel", () => this.leave());
  }

  /** Use newer rows; what is being chosen stays, as far as it can. */
  update(rows) {
    this.rows = rows;
    if (this.at !== null) this.at = Math.min(this.at, rows.length - 1);
    this.cursor.hidden = !rows.length;
    this.cursor.setAttribute("aria-valuemax", Math.max(1, rows.length));
    this.cursor.setAttribute("aria-valuenow", (this.at ?? rows.length - 1) + 1);
    if (rows.length) this.cursor.setAttribute("aria-valuetext", this.describe(rows[this.at ?? rows.length - 1]));
    if (!this.cursor.isConnected) this.element.after(this.cursor, this.shade);
  }

  // --- Pointer ----------------------------------------------------------------------------------

  timeAt(event) {
    const x = event.clientX - this.element.getBoundingClientRect().left;
    return this.chart.timeAt(x);
  }

  press(event) {
    if (event.button !== 0 || event.pointerType === "touch" || !this.rows.length) return; // a touch scrolls
    this.pressed = { x: event.clientX, time: this.timeAt(event) };
    this.element.setPointerCapture(event.pointerId);
  }

  drag(event) {
    if (!this.pressed || Math.abs(event.clientX - this.pressed.x) < MIN_DRAG_PX) return;
    this.isDragged = true;
    this.mark(...this.spanOf(this.pressed.time, this.timeAt(event)));
  }

  release(event) {
    const { pressed, isDragged } = this;
    this.leave();
    if (!pressed) return;
    const [start, end] = this.spanOf(pressed.time, isDragged ? this.timeAt(event) : pressed.time);
    this.chosen(start, end);
  }

  /** The whole steps between two times. */
  spanOf(one, other) {
    const [first, last] = [Math.min(one, other), Math.max(one, other)].map((time) => rowAt(this.rows, time));
    return [first.start, last.end];
  }

  // --- Keyboard ---------------------------------------------------------------------------------

  key(event) {
    const last = this.rows.length - 1;
    const moves = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10, Home: -Infinity, End: Infinity };
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      const [first, end] = this.range();
      this.chosen(this.rows[first].start, this.rows[end].end);
    } else if (event.key === "Escape") {
      this.from = null;
      this.show();
    } else if (event.key in moves) {
      event.preventDefault();
      const at = this.at ?? last;
      if (event.shiftKey) this.from ??= at;
      else this.from = null;
      this.at = Math.max(0, Math.min(last, at + moves[event.key]));
      this.show();
    }
  }

  range() {
    const at = this.at ?? this.rows.length - 1;
    const from = this.from ?? at;
    return [Math.min(from, at), Math.max(from, at)];
  }

  /** Mark what the keyboard has chosen, and say it. */
  show() {
    if (!this.rows.length) return;
    this.at ??= this.rows.length - 1;
    const [first, last] = this.range();
    this.mark(this.rows[first].start, this.rows[last].end);
    const row = this.rows[this.at];
    this.cursor.setAttribute("aria-valuenow", this.at + 1);
    const several = last > first ? `${last - first + 1} steps selected, to ` : "";
    this.cursor.setAttribute("aria-valuetext", `${several}${this.describe(row)}`);
    this.chart.point(row.middle);
  }

  mark(start, end) {
    const [left, right] = [start, end].map((time) => this.chart.xOf(time.getTime()));
    this.shade.hidden = false;
    Object.assign(this.shade.style, {
      left: `${this.element.offsetLeft + left}px`, width: `${right - left}px`,
      top: `${this.element.offsetTop}px`, height: `${this.element.clientHeight - 24}px`,
    });
  }

  leave() {
    this.pressed = null;
    this.isDragged = false;
    this.from = null;
    this.shade.hidden = true;
    this.chart.unpoint();
  }
}
