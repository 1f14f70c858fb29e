// Builds elements without HTML strings: users' values are always text, never markup.

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

const CLICK_MS = 400; // a touch's click comes some time after pointerup, and after a drag it never comes

let pressed = null;
let released = null;
const deferred = new Map(); // from an element to its last draw while a pointer is down in it

function release(delayMs) {
  clearTimeout(released);
  released = setTimeout(() => {
    pressed = null;
    for (const draw of deferred.values()) queueMicrotask(draw);
    deferred.clear();
  }, delayMs);
}

window.addEventListener("pointerdown", ({ target }) => { clearTimeout(released); pressed = target; }, true);
window.addEventListener("click", () => release(0), true);
for (const end of ["pointerup", "pointercancel", "contextmenu"]) { // a context menu may suppress the others
  window.addEventListener(end, () => release(CLICK_MS), true);
}

/**
 * Call `draw`, which replaces children of `element`. While a pointer is down inside the element, defer
 * the call until after the click: a click needs the same child at press and at release. Only the last
 * deferred draw of an element runs, so every draw must go through here and must read the current state.
 */
export function redraw(element, draw) {
  if (pressed && element.contains(pressed)) {
    deferred.set(element, draw);
  } else {
    deferred.delete(element);
    draw();
  }
}

/** Set text only if it changed, so that selections stay and screen readers do not repeat it. */
export function setText(element, text) {
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
