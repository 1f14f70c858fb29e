// The states that are shown instead of figures: each says what is the case and what to do.

import { token } from "./api.js";
import { h } from "./dom.js";
import { count, moment } from "./format.js";
import { toStream, toStreams } from "./route.js";

function state(id, title, ...content) {
  return h("section", { class: "state card", id, "aria-labelledby": `${id}-title` },
    h("h2", { id: `${id}-title` }, title), ...content);
}

export const code = (text) => h("pre", { tabindex: 0 }, h("code", {}, text));

/** No streams: shows the five lines that send a first prediction. */
export function emptyServer(address) {
  const secured = `${location.protocol === "https:" ? ", tls=True" : ""}${token.get() ? ', token="sv1.…"' : ""}`;
  return state("empty-server", "No predictions yet",
    h("p", {}, "Send the first one, and its label, from Python. This page shows it at once."),
    h("p", { class: "step" }, "First: ", h("code", {}, "pip install 'streameval[client]'")),
    code([
      "from streameval.client import Client",
      `with Client("${address}"${secured}) as client:`,
      '    stream = client.stream("fraud/v1")',
      '    stream.log("order-17", 0.93)    # an id and a score',
      '    stream.label("order-17", True)  # the truth, later',
    ].join("\n")));
}

/** A stream, or a window of it, without cases and predictions; `newest` is since when none has come, and a link. */
export function noData({ name, windowTitle, isAllTime, newest }) {
  if (!isAllTime) {
    return state("no-data", `No cases in this window (${windowTitle})`,
      newest ? h("p", {}, `No row has come since ${moment(newest.at)}.`) : null,
      newest ? h("a", { class: "button", href: newest.href }, "Show the day before") : null, " ",
      h("a", { class: "button", href: toStream(name, { window: "all" }) }, "Show all time"));
  }
  return state("no-data", "No data yet",
    h("p", {}, `${name} exists, but has no cases. Send it predictions and labels, or cases:`),
    code(`client.stream("${name}").add_case(True, 0.93)`));
}

/** One class only: says which class is missing and which figures need it. */
export function oneClass(snapshot) {
  const positives = Number(snapshot.numPositiveRef);
  const negatives = Number(snapshot.numNegativeRef);
  const [there, absent] = positives ? ["positive", "negative"] : ["negative", "positive"];
  const pending = Number(snapshot.coverage?.pending ?? 0);
  return state("one-class", `Only ${there} cases so far`,
    h("p", {}, `All ${count(positives + negatives)} labelled cases are ${there}. Precision, recall and ROC compare the two classes, `
      + `so there is nothing to draw until a ${absent} case arrives`
      + (positives ? "; with positives alone precision is 1 at every threshold." : ".")),
    pending ? h("p", {}, `${count(pending)} predictions have no label yet.`) : null);
}

/** Asks for a token, or for another one; it is stored in this tab only. */
export function denied(error, retry) {
  const isMissing = error.status === 401;
  const input = h("input", { type: "password", id: "token", autocomplete: "off", spellcheck: "false", required: true });
  const form = h("form", {
    onsubmit: (event) => {
      event.preventDefault();
      token.set(input.value.trim());
      retry();
    },
  }, h("label", { for: "token" }, "Token"), input, h("button", { type: "submit" }, "Continue"));
  return state("denied", isMissing ? "This server requires a token" : "This token does not allow that",
    h("p", {}, isMissing && !token.get()
      ? "Ask the server's operator for a token with the scope query."
      : `The server says: ${error.message}.`),
    form,
    h("p", { class: "note" }, "The token is stored in this tab only, until the tab is closed."),
    token.get() ? h("button", { type: "button", class: "quiet", onclick: () => { token.forget(); retry(); } }, "Forget the token") : null);
}

/** What an error is that may pass, and what to do: [title, advice]. */
export function failureWords({ status, requestId }) {
  if (status === 0) return ["The server does not answer", "Check that it runs, and that this address reaches it."];
  if (!requestId) return [`A proxy before the server answered ${status}`, "Ask who runs the proxy whether it reaches the server, and how long it waits."];
  const log = `Its log has the cause under the request ID ${requestId}.`;
  return {
    429: ["The server has too much to do", "Choose a shorter window, or raise its limits."],
    503: ["The server is not ready", "It starts, stops, or waits for its disk."],
    504: ["The answer took the server too long", "Choose a shorter window."],
  }[status] ?? [`The server failed with status ${status}`, `It runs, but could not compute this. ${log}`];
}

/** A call failed that may succeed later, and there are no figures yet. */
export function unavailable(error) {
  const [title, advice] = failureWords(error);
  return state("away", title,
    h("p", {}, [sentence(error.message), advice].filter((each) => each !== `${title}.`).join(" ")), h("p", { class: "note" }, "The page tries again by itself."));
}

/** Say in a card that it failed while others have their figures; null: it did not. The banner says that no answer comes. */
export function showFailure(card, error) {
  card.querySelector(":scope > .failed-part")?.remove();
  if (!error?.status) return;
  const [title, advice] = failureWords(error);
  card.prepend(h("p", { class: "failed-part", role: "status" }, h("strong", {}, `${title}: `), `${sentence(error.message)} ${advice} It is tried again.`));
}

/** Shapes of what is loading: the first of `heights`, in pixels, is on top. */
export function skeleton(heights) {
  return h("div", { class: "skeleton", role: "status", "aria-label": "Loading" },
    heights.map((height) => h("div", { style: { height: `${height}px` } })));
}

/** Another refusal: an invalid name, a segment key that is not declared. */
export function refused(error) {
  return state("refused", error.status === 404 ? "There is no such stream" : "The server refused that",
    h("p", {}, sentence(error.message)),
    h("a", { class: "button", href: toStreams() }, "All streams"));
}

/** A link whose window or segment cannot be read; `href` is the view without them. */
export function malformed(problems, href) {
  return state("malformed", "This link cannot be read",
    h("p", {}, problems.join(" ")),
    h("a", { class: "button", href }, "Show the stream without it"));
}

export function sentence(text) {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;
}
