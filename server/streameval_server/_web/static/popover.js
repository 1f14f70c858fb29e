// What opens over the page: a click elsewhere and Escape close it.

import { h } from "./dom.js";

const opened = () => [...document.querySelectorAll("details[data-closing][open]")];

document.addEventListener("pointerdown", ({ target }) => {
  for (const each of opened()) if (!each.contains(target)) each.open = false;
});

document.addEventListener("keydown", ({ key }) => {
  if (key !== "Escape" || document.querySelector("dialog[open]")) return;
  for (const each of opened()) {
    each.open = false;
    each.querySelector("summary").focus();
  }
});

/** Let a click outside of a <details> and the Escape key close it, wherever the focus is. */
export function closing(details) {
  details.dataset.closing = "";
  return details;
}

/** Let a click outside of a modal <dialog> close it, as Escape does by itself. */
export function modal(dialog) {
  dialog.addEventListener("pointerdown", ({ target, clientX: x, clientY: y }) => {
    const { left, right, top, bottom } = dialog.getBoundingClientRect();
    if (target === dialog && (x < left || x > right || y < top || y > bottom)) dialog.close();
  });
  return dialog;
}

/** An (i) that opens `content`, a caveat about `about`. */
export function info(about, content) {
  return closing(h("details", { class: "info" },
    h("summary", { "aria-label": `About ${about}` }, "i"), h("div", { class: "info-text" }, content)));
}
