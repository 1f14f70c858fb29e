// Takes things along: files that the browser saves, text on the clipboard.

import { h } from "./dom.js";
import { pngOf, svgOf } from "./picture.js";
import { sheetCsv } from "./sheet.js";

const SHOWN_MS = 2_000; // of "Copied"

/** What is seen at an element, in words: the nearest `data-about` above it. */
export const aboutOf = (element) => element.closest("[data-about]")?.dataset.about ?? "streameval";

/** A file's name of words: letters, digits and dashes. */
export const fileName = (words, kind) =>
  `${words.normalize("NFKD").replace(/[^A-Za-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 120).toLowerCase()}.${kind}`;

/** Let the browser save a Blob, or text. */
export function save(name, content, type = "text/plain") {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type: `${type};charset=utf-8` }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url)); // the download has begun
}

/** Put text on the clipboard. Pages without TLS have only the older way. */
export async function copy(text) {
  if (navigator.clipboard && window.isSecureContext) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const focused = document.activeElement;
  const field = h("textarea", { class: "hidden", "aria-hidden": true });
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
  focused?.focus();
}

/** A button that copies what `read()` returns, and says so. */
export function copyButton(title, read, more = {}) {
  const button = h("button", { type: "button", class: "quiet", ...more, onclick: async () => {
    await copy(read());
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = title; }, SHOWN_MS);
  } }, title);
  return button;
}

/** The buttons that save a ChartCard's picture and rows. */
export function takeButtons(card) {
  const named = (kind) => fileName(`${aboutOf(card.element)} ${card.title}`, kind);
  const picture = () => svgOf(card, aboutOf(card.element));
  const button = (title, what, onclick) =>
    h("button", { type: "button", class: "take", "aria-label": `${card.title}: save ${what}`, onclick }, title);
  return h("div", { class: "takes" },
    button("PNG", "as a picture", async () => save(named("png"), await pngOf(picture()))),
    button("SVG", "as a drawing", () => save(named("svg"), picture(), "image/svg+xml")),
    button("CSV", "its rows", () => save(named("csv"), sheetCsv(card.sheet()), "text/csv")));
}
