// What opens over the page: a click elsewhere and Escape close it.

import { h } from "./dom.js";

/** Let a click outside of a <details> and the Escape key close it. */
export function closing(details) {
  const outside = ({ target }) => { if (!details.contains(target)) details.open = false; };
  details.addEventListener("toggle", () => {
    if (details.open) document.addEventListener("pointerdown", outside);
    else document.removeEventListener("pointerdown", outside);
  });
  details.addEventListener("keydown", ({ key }) => {
    if (key !== "Escape" || details.querySelector("dialog[open]")) return;
    details.open = false;
    details.querySelector("summary").focus();
  });
  return details;
}

/** An (i) that opens `content`, a caveat about `about`. */
export function info(about, content) {
  return closing(h("details", { class: "info" },
    h("summary", { "aria-label": `About ${about}` }, "i"), h("div", { class: "info-text" }, content)));
}
