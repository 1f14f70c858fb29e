// The page's frame: shows the view of the URL, the connection's state, the theme and the token.

import { token } from "./api.js";
import { CompareView } from "./compare.js";
import { fill, setText } from "./dom.js";
import { clock } from "./format.js";
import { currentRoute } from "./route.js";
import { denied, failureWords, refused, unavailable } from "./states.js";
import { StreamView } from "./stream.js";
import { StreamsView } from "./streams.js";
import { startTheme } from "./theme.js";

const VIEWS = { streams: StreamsView, stream: StreamView, compare: CompareView };
const TITLES = { streams: () => "Streams", stream: (route) => route.stream, compare: () => "Compare" };

const main = document.getElementById("main");
const pill = document.getElementById("connection");
const banner = document.getElementById("banner");
const forget = document.getElementById("forget");

let shown = null; // {key, view, aborter}
let lastAnswer = null;

function navigate() {
  const route = currentRoute();
  const key = `${route.view} ${route.stream ?? ""}`;
  document.title = `${TITLES[route.view](route)} · streameval`;
  for (const link of document.querySelectorAll("[data-view]")) {
    if (link.dataset.view === (route.view === "compare" ? "compare" : "streams")) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (shown?.key === key) {
    shown.view.update(route);
    return;
  }
  show(route, key);
}

function show(route, key) {
  const isFirst = shown === null;
  shown?.aborter.abort();
  const aborter = new AbortController();
  connection("connecting");
  fill(main);
  const context = {
    signal: aborter.signal,
    route: currentRoute,
    connection: (state, error) => {
      // The server answered, though not with figures: neither live nor disconnected.
      if (!aborter.signal.aborted) connection(state === "refused" && !error.isDenied ? "idle" : state, error);
    },
    failure: (error) => failure(error),
  };
  const root = document.createElement("div");
  main.append(root);
  shown = { key, aborter, view: null };
  shown.view = new VIEWS[route.view](root, route, context);
  window.scrollTo(0, 0);
  if (!isFirst) main.querySelector("h1")?.focus(); // so that a screen reader announces the new view
}

function retry() {
  const { key } = shown;
  shown.aborter.abort();
  show(currentRoute(), key);
}

function failure(error) {
  forget.hidden = !token.get();
  if (error.isDenied) {
    connection("refused");
    return denied(error, retry);
  }
  return error.isUnavailable ? unavailable(error) : refused(error);
}

const WORDS = { idle: "", connecting: "Connecting", live: "Live", lost: "Connection lost", refused: "Not connected" };

/** `error` is why the state is "lost". */
function connection(state, error = null) {
  if (state === "live") lastAnswer = new Date();
  forget.hidden = !token.get();
  const words = state === "lost" ? lostWords(error) : "";
  if (pill.dataset.state === state && (state !== "lost" || banner.textContent === words)) return;
  const isBack = state === "live" && !banner.hidden;
  pill.dataset.state = state;
  pill.hidden = state === "idle"; // nothing is watched
  setText(pill, state === "lost" && error.status ? "Server fails" : WORDS[state]);
  banner.hidden = state !== "lost";
  if (state === "lost") setText(banner, words);
  if (state === "lost" || isBack) setText(document.getElementById("spoken"), isBack ? "The connection is back; figures are live." : banner.textContent);
}

function lostWords(error) {
  const [title, advice] = error.status ? failureWords(error) : ["The connection to the server is lost", ""];
  return [`${title}.`, lastAnswer ? `Figures are from ${clock(lastAnswer)}.` : "", advice, "Trying again."].filter(Boolean).join(" ");
}

forget.addEventListener("click", () => { token.forget(); retry(); });
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the URL's fragment belongs to the views
  main.focus();
});
window.addEventListener("hashchange", navigate);
startTheme(document.getElementById("theme"));
navigate();
