// What opens over the page: a click elsewhere and Escape close it.

import { h } from "./dom.js";

/** Let a click outside of a <details> and the Escape key close it, wherever the focus is. */
export function closing(details) {
  const outside = ({ target }) => { if (!details.contains(target)) details.open = false; };
  const escape = ({ key }) => {
    if (key !== "Escape" || document.querySelector("dialog[open]")) return;
    details.open = false;
    details.querySelector("summary").focus();
  };
  details.addEventListener("toggle", () => {
    const change = details.open ? "addEventListener" : "removeEventListener";
    document[change]("pointerdown", outside);
    document[change]("keydown", escape);
  });
  return details;
}

/** Let a click beside a modal <dialog> close it, as Escape does by itself. */
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
