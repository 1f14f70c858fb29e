// The page: which view the URL asks for, the connection, the theme, the token.

import { token } from "./api.js";
import { CompareView } from "./compare.js";
import { fill, say } from "./dom.js";
import { clock } from "./format.js";
import { current } from "./route.js";
import { away, denied, refused } from "./states.js";
import { StreamView } from "./stream.js";
import { StreamsView } from "./streams.js";
import { startTheme } from "./theme.js";

const VIEWS = { streams: StreamsView, stream: StreamView, compare: CompareView };
const TITLES = { streams: () => "Streams", stream: (route) => route.stream, compare: () => "Compare" };

const main = document.getElementById("main");
const pill = document.getElementById("connection");
const banner = document.getElementById("banner");
const forget = document.getElementById("forget");

let shown = null; // {key, view, ending}
let lastHeard = null;

function go() {
  const route = current();
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
  shown?.ending.abort();
  const ending = new AbortController();
  connection("connecting");
  fill(main);
  const context = {
    signal: ending.signal,
    route: current,
    connection: (state) => { if (!ending.signal.aborted) connection(state); },
    failure: (error) => failure(error),
  };
  const root = document.createElement("div");
  main.append(root);
  shown = { key, ending, view: null };
  shown.view = new VIEWS[route.view](root, route, context);
  window.scrollTo(0, 0);
  if (!isFirst) main.querySelector("h1")?.focus(); // so that a screen reader hears where it is
}

function again() {
  const { key } = shown;
  shown.ending.abort();
  show(current(), key);
}

function failure(error) {
  forget.hidden = !token.get();
  if (error.isDenied) {
    connection("refused");
    return denied(error, again);
  }
  return error.isAway ? away(error) : refused(error);
}

const WORDS = { connecting: "Connecting", live: "Live", lost: "Connection lost", refused: "Not connected" };

function connection(state) {
  if (state === "live") lastHeard = new Date();
  forget.hidden = !token.get();
  if (pill.dataset.state === state) return;
  const isBack = state === "live" && !banner.hidden;
  pill.dataset.state = state;
  say(pill, WORDS[state]);
  banner.hidden = state !== "lost";
  if (state === "lost") {
    say(banner, `The connection to the server is lost. ${lastHeard ? `Figures are those of ${clock(lastHeard)}. ` : ""}Trying again.`);
  }
  if (state === "lost" || isBack) say(document.getElementById("spoken"), isBack ? "The connection is back; figures are live." : banner.textContent);
}

forget.addEventListener("click", () => { token.forget(); again(); });
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the fragment is the view's
  main.focus();
});
window.addEventListener("hashchange", go);
startTheme(document.getElementById("theme"));
go();
