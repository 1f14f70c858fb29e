// Elements without HTML strings: what users sent is always text, never markup.

const SVG = "http://www.w3.org/2000/svg";

/** Make an element. Attributes: `class`, `on…` listeners, `style` as an object, booleans, strings. */
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** Make an SVG element. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** Replace an element's children. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

const CLICK_MS = 400; // a finger's click comes a while after it is up, and after a drag none does

let pressed = null;
let released = null;
const waiting = new Map(); // elements, and what draws each once nothing is pressed

function release(delayMs) {
  clearTimeout(released);
  released = setTimeout(() => {
    pressed = null;
    for (const draw of waiting.values()) queueMicrotask(draw);
    waiting.clear();
  }, delayMs);
}

window.addEventListener("pointerdown", ({ target }) => { clearTimeout(released); pressed = target; }, true);
window.addEventListener("click", () => release(0), true);
for (const end of ["pointerup", "pointercancel", "contextmenu"]) { // a menu may swallow the others
  window.addEventListener(end, () => release(CLICK_MS), true);
}

/**
 * Draw now what may be pressed or, between a press and its click, after: a click needs the same element twice.
 * Only the last draw of an element counts, so all of them come by here, and look at what is so when they are called.
 */
export function redraw(element, draw) {
  if (pressed && element.contains(pressed)) {
    waiting.set(element, draw);
  } else {
    waiting.delete(element);
    draw();
  }
}

/** Set text only where it changed, so that selections and screen readers are left alone. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** A table: columns are {title, numeric}, rows are arrays of text or elements. */
export function table(caption, columns, rows) {
  return h("table", { class: "data" },
    h("caption", {}, caption),
    h("thead", {}, h("tr", {}, columns.map((column) =>
      h("th", { scope: "col", class: column.numeric ? "number" : null }, column.title)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, index) =>
      h("td", { class: columns[index].numeric ? "number" : null }, cell))))),
  );
}
