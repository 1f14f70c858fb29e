// What is shown instead of figures: each state says what is so, and what to do about it.

import { token } from "./api.js";
import { h } from "./dom.js";
import { count, span } from "./format.js";
import { toStream, toStreams } from "./route.js";

const GRPC_PORT = 50051; // what a server listens on that was not told otherwise

function state(id, title, ...content) {
  return h("section", { class: "state card", id, "aria-labelledby": `${id}-title` },
    h("h2", { id: `${id}-title` }, title), ...content);
}

const code = (text) => h("pre", { tabindex: 0 }, h("code", {}, text));

/** No streams at all: the five lines that send a first prediction. */
export function emptyServer(grpcAddress) {
  const port = grpcAddress?.match(/:(\d+)$/)?.[1] ?? GRPC_PORT;
  const address = `${location.hostname}:${port}`;
  const secured = `${location.protocol === "https:" ? ", tls=True" : ""}${token.get() ? ', token="sv1.…"' : ""}`;
  return state("empty-server", "No predictions yet",
    h("p", {}, "Send the first one, and its label, from Python. This page notices."),
    h("p", { class: "step" }, "Once: ", h("code", {}, "pip install 'streameval[client]'")),
    code([
      "from streameval.client import Client",
      `with Client("${address}"${secured}) as client:`,
      '    stream = client.stream("fraud/v1")',
      '    stream.log("order-17", 0.93)    # an id and a score',
      '    stream.label("order-17", True)  # the truth, later',
    ].join("\n")));
}

/** A stream, or a window of it, without labelled cases. */
export function noData({ name, snapshot, windowTitle, isAllTime, newest }) {
  const coverage = snapshot.coverage;
  const all = h("a", { class: "button", href: toStream(name, { window: "all" }) }, "Show all time");
  if (coverage && Number(coverage.pending) > 0) {
    return state("no-data", "Predictions, but no label yet",
      h("p", {}, `${count(Number(coverage.predictions))} predictions have arrived, and ${count(Number(coverage.pending))} wait for their labels. `
        + "Figures appear with the first labels of both classes."),
      isAllTime ? null : all);
  }
  if (!isAllTime) {
    return state("no-data", `No cases in this window (${windowTitle})`,
      h("p", {}, newest ? `The newest that is kept is ${span((Date.now() - newest) / 1000)} old.` : "Nothing has been counted in it."),
      all);
  }
  return state("no-data", "No data yet",
    h("p", {}, `${name} exists, and nothing has been counted in it. Send it predictions and labels, or cases:`),
    code(`client.stream("${name}").add_case(True, 0.93)`));
}

/** One class only: what there is, what is missing, and what that rules out. */
export function oneClass(snapshot) {
  const positives = Number(snapshot.numPositiveRef);
  const negatives = Number(snapshot.numNegativeRef);
  const [there, absent] = positives ? ["positive", "negative"] : ["negative", "positive"];
  const pending = Number(snapshot.coverage?.pending ?? 0);
  return state("one-class", `Only ${there} cases so far`,
    h("p", {}, `All ${count(positives + negatives)} labelled cases are ${there}. Precision, recall and ROC compare the two classes, `
      + `so there is nothing to draw until a ${absent} case arrives`
      + (positives ? "; with positives alone precision is 1 at every threshold." : ".")),
    pending ? h("p", {}, `${count(pending)} predictions still wait for their labels.`) : null);
}

/** A token is needed, or another one. It stays in this tab. */
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
  return state("denied", isMissing ? "This server asks for a token" : "This token does not open that",
    h("p", {}, isMissing && !token.get()
      ? "Ask whoever runs it for one with the scope query."
      : `The server says: ${error.message}.`),
    form,
    h("p", { class: "note" }, "The token is kept in this tab only, until it is closed."),
    token.get() ? h("button", { type: "button", class: "quiet", onclick: () => { token.forget(); retry(); } }, "Forget the token") : null);
}

/** The server did not answer, and nothing is known yet. */
export function away(error) {
  return state("away", "The server does not answer",
    h("p", {}, `${sentence(error.message)} Trying again; the page goes on by itself when it is back.`));
}

/** Whatever the server refused otherwise: a name that is none, a segment that is not declared. */
export function refused(error) {
  return state("refused", error.status === 404 ? "There is no such stream" : "The server refused that",
    h("p", {}, sentence(error.message)),
    h("a", { class: "button", href: toStreams() }, "All streams"));
}

export function sentence(text) {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;
}
