// The list of streams: ranked, searched, grouped and paged by the server, live.

import { ApiError, throttle, watch } from "./api.js";
import { fill, h, redraw, setText } from "./dom.js";
import { count, titleOf } from "./format.js";
import { grpcAddress } from "./grpc_address.js";
import { HEADLINE, ORDERED } from "./metrics.js";
import { DEFAULT_WINDOW, replace, seconds, toStreams, WINDOWS } from "./route.js";
import { scaleOf } from "./sparkline.js";
import { Sparklines } from "./sparklines.js";
import { emptyServer, skeleton } from "./states.js";
import { COLUMNS, GroupRow, StreamRow, streamsWord, usedColumns } from "./stream_rows.js";

const PAGE_ROWS = 50;
const MAX_ROWS = 1_000; // the server's
const TYPING_MS = 150;
const TICK_MS = 1_000;
const MIN_INTERVAL = "0.5s";
const MIN_NAMED_OUTDATED = 100;

const DEFAULT_ORDER = "alarms";
const ORDERS = {
  [DEFAULT_ORDER]: "Alarms, then what became worse",
  change: "The largest fall first",
  ...Object.fromEntries(ORDERED.map((name) => [name, `${titleOf(name)}, the worst first`])),
  projected: `Projected ${titleOf(HEADLINE)}, the worst first`,
  volume: "Volume, the most first",
  coverage: "Coverage, the lowest first",
  newest: "Freshness, the stalest first",
  name: "Name",
};

// What a tile counts and filters by: [the answer's number, what is counted].
const TILES = {
  alarms: ["numAlarms", "open alarms"], worse: ["numFallen", "worse"], silent: ["numSilent", "silent"],
  labels: ["numShortOfLabels", "short of labels"],
};

export class StreamsView {
  constructor(root, route, context) {
    Object.assign(this, { root, context, signal: context.signal });
    this.rows = new Map();
    this.shown = PAGE_ROWS;
    this.forget();
    this.build();
    this.sparklines = new Sparklines(this.signal, () => this.showSeries(), (error) => this.fail(error));
    this.update(route);
    const timer = setInterval(() => this.rows.forEach((row) => row.tick()), TICK_MS);
    this.signal.addEventListener("abort", () => { clearInterval(timer); clearTimeout(this.typing); });
  }

  build() {
    this.search = h("input", {
      type: "search", id: "find", placeholder: "Part of a name", autocomplete: "off", spellcheck: "false",
      oninput: () => {
        clearTimeout(this.typing);
        this.typing = setTimeout(() => this.go({}), TYPING_MS);
      },
    });
    this.order = h("select", { id: "order", onchange: () => this.go({ sort: this.order.value }) },
      Object.entries(ORDERS).map(([key, title]) => h("option", { value: key }, title)));
    this.window = h("select", { id: "window", onchange: () => this.go({ window: this.window.value }) },
      WINDOWS.map(([key, title]) => h("option", { value: key }, title === "All time" ? title : `Last ${title}`)));
    this.grouped = h("input", { type: "checkbox", id: "grouped", onchange: () => this.go({ groups: this.grouped.checked, open: [] }) });
    this.tiles = Object.entries(TILES).map(([key, [field, title]]) => {
      const value = h("span", { class: "value" });
      const element = h("button", { type: "button", class: `tile ${key}`, id: `tile-${key}`, onclick: () => this.go({ only: this.state.only === key ? "" : key }) }, value, title);
      return { key, field, value, element };
    });
    this.summary = h("p", { class: "summary", id: "summary", role: "status" });
    this.warnings = h("ul", { class: "warnings", id: "server-warnings" });
    this.list = h("div", { id: "streams" }, skeleton(Array(8).fill(44)));
    this.more = h("button", { type: "button", class: "quiet", hidden: true, onclick: () => { this.shown += PAGE_ROWS; this.watch(); } });
    this.end = h("p", { class: "note", hidden: true },
      `The first ${count(MAX_ROWS)} are shown. Search for the others, or group by the first part of the names.`);
    fill(this.root,
      h("div", { class: "view-head" }, h("h1", { tabindex: -1 }, "Streams"), this.summary),
      this.overview = h("div", { class: "tiles", role: "group", "aria-label": "Show only these streams", hidden: true }, this.tiles.map(({ element }) => element)),
      this.filters = h("form", { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() },
        h("div", {}, h("label", { for: "find" }, "Search"), this.search),
        h("div", {}, h("label", { for: "window" }, "Window"), this.window),
        h("div", {}, h("label", { for: "order" }, "Order"), this.order),
        h("div", { class: "check" }, this.grouped, h("label", { for: "grouped" }, "Group", h("span", { class: "wide" }, " by first part of the name")))),
      this.warnings, this.list, this.more, this.end);
  }

  update(route) {
    const given = (name) => route.parameters.get(name);
    const window = WINDOWS.some(([key]) => key === given("window")) ? given("window") : DEFAULT_WINDOW;
    this.state = {
      window, sort: ORDERS[given("sort")] ? given("sort") : DEFAULT_ORDER, find: given("find") ?? "",
      only: TILES[given("only")] ? given("only") : "",
      groups: given("groups") === "1", open: (given("open") ?? "").split(",").filter(Boolean),
    };
    if (this.search !== document.activeElement && this.search.value.trim() !== this.state.find) this.search.value = this.state.find;
    this.order.value = this.state.sort;
    this.window.value = window;
    this.grouped.checked = this.state.groups;
    this.watch();
  }

  go(change) {
    clearTimeout(this.typing); // what was typed is taken now
    const { window, sort, find, only, groups, open } = { ...this.state, find: this.search.value.trim(), ...change };
    this.shown = PAGE_ROWS;
    replace(toStreams({
      window: window === DEFAULT_WINDOW ? "" : window, sort: sort === DEFAULT_ORDER ? "" : sort, find, only,
      groups: groups ? "1" : "", open: groups ? open.join(",") : "",
    }));
    this.update(this.context.route());
  }

  toggle(group) {
    const { open } = this.state;
    this.go({ open: open.includes(group) ? open.filter((each) => each !== group) : [...open, group] });
  }

  /** What is listed, as the request's fields. */
  fields() {
    const { window, sort, find, only, groups, open } = this.state;
    const last = seconds(window);
    return {
      ...(last ? { "list.last": `${last}s` } : {}),
      "list.orderBy": sort, "list.search": find, "list.state": only, "list.pageSize": this.shown,
      ...(groups ? { "list.grouped": true, "list.openGroups": open } : {}),
      minInterval: MIN_INTERVAL,
    };
  }

  /** Watch what the URL names; rows stay until the first answer. */
  watch() {
    const key = JSON.stringify(this.fields());
    if (key === this.watchedKey) return;
    this.watchedKey = key;
    this.watching?.abort();
    this.watching = new AbortController();
    const signal = AbortSignal.any([this.watching.signal, this.signal]);
    const show = throttle(() => this.show(), signal);
    let known = new Map(); // the server sends what this watch does not have
    watch("v1/streams:watchSummaries", this.fields(), {
      signal,
      onAnswer: ({ list, streams }) => {
        for (const each of list.summaries) known.set(each.stream, each);
        known = new Map(streams.map((name) => [name, known.get(name)]));
        this.answer = { list, summaries: [...known.values()], window: this.state.window };
        this.isBroken = false;
        if (list.numCovered === 0) this.showEmpty();
        else show();
      },
      onState: (state, error) => {
        if (state === "lost") known = new Map();
        this.context.connection(state, error);
        if (state !== "live") this.fail(error);
      },
    });
  }

  forget() {
    this.answer = null;
    this.table = null;
  }

  async showEmpty() {
    const address = await grpcAddress();
    if (this.answer?.list.numCovered !== 0) return; // a stream has come meanwhile
    this.overview.hidden = this.filters.hidden = this.more.hidden = true;
    setText(this.summary, "");
    this.table = null;
    if (!this.list.querySelector("#empty-server")) fill(this.list, emptyServer(address));
  }

  show() {
    if (this.isBroken || !this.answer || this.answer.list.numCovered === 0) return;
    const { list, summaries } = this.answer;
    this.overview.hidden = this.filters.hidden = false;
    for (const { key, field, value, element } of this.tiles) {
      setText(value, count(list[field]));
      element.classList.toggle("some", list[field] > 0);
      element.setAttribute("aria-pressed", String(this.state.only === key));
    }
    fill(this.warnings, list.serverWarnings.map((each) => h("li", {}, each)));
    setText(this.summary, summaryText(list, summaries.length, this.state));
    const numRows = summaries.length + list.groups.length;
    this.more.hidden = !list.nextPageToken || this.shown >= MAX_ROWS;
    this.end.hidden = !list.nextPageToken || this.shown < MAX_ROWS;
    setText(this.more, `Show ${PAGE_ROWS} more`);
    if (!numRows) {
      this.table = null;
      fill(this.list, h("p", { class: "empty" }, emptyWords(this.state)));
      return;
    }
    if (!this.table) fill(this.list, this.makeTable());
    this.place();
  }

  makeTable() {
    this.table = h("tbody");
    this.rows.clear();
    this.element = h("table", { class: "streams", onkeydown: (event) => this.move(event) },
      h("caption", { class: "hidden" }, "Streams with their current figures, and what happened to each since its base."),
      h("thead", {}, h("tr", {}, COLUMNS.map(([name, title, kind = ""]) => h("th", { scope: "col", class: `${kind} ${name}` }, title)))),
      this.table);
    return this.element;
  }

  /** Update existing rows in place, so that the focus stays. */
  place() {
    const { list, summaries, window } = this.answer;
    const used = usedColumns(summaries, Boolean(seconds(window)));
    for (const [name, isUsed] of Object.entries(used)) this.element.classList.toggle(`no-${name}`, !isUsed);
    const row = (key, make) => this.rows.get(key) ?? this.rows.set(key, make()).get(key);
    const streams = summaries.map((summary) => {
      const found = row(`stream ${summary.stream}`, () => new StreamRow(summary.stream));
      found.update(summary, window);
      return found;
    });
    this.placed = list.groups.length ? list.groups.flatMap((group) => {
      const head = row(`group ${group.name}`, () => new GroupRow(group.name, (name) => this.toggle(name)));
      head.update(group);
      return [head, ...streams.filter((each) => each.summary.group === group.name)];
    }) : streams;
    this.showSeries();
    const { table } = this;
    redraw(table, () => { if (table === this.table) this.arrange(); });
    this.sparklines.show(summaries.filter(({ snapshot, problem }) => Number(snapshot.revision) && !problem).map(({ stream, snapshot: { revision } }) => ({ name: stream, revision })), seconds(window));
  }

  /** Draw the rows' small charts, on one scale. */
  showSeries() {
    const rows = this.placed.filter((row) => row instanceof StreamRow).map((row) => [row, this.sparklines.of(row.name)]);
    const scale = scaleOf(rows.map(([, values]) => values ?? []), rows.map(([row, values]) => (values ? row.band : null)));
    for (const [row, values] of rows) row.showSeries(values, scale);
  }

  /** Sort the rows, moving only those out of place; keep the focus. */
  arrange() {
    const { table, placed } = this;
    const focused = document.activeElement;
    this.rows = new Map(placed.map((row) => [`${row instanceof StreamRow ? "stream" : "group"} ${row.name}`, row]));
    const present = new Set(placed.map(({ element }) => element));
    for (const row of [...table.children]) if (!present.has(row)) row.remove();
    placed.forEach(({ element }, index) => {
      if (table.children[index] !== element) table.insertBefore(element, table.children[index] ?? null);
    });
    if (focused !== document.activeElement && table.contains(focused)) focused.focus();
  }

  /** The arrow keys go from row to row. */
  move(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const row = event.target.closest("tr");
    if (!step || !row) return;
    event.preventDefault();
    const next = step > 0 ? row.nextElementSibling : row.previousElementSibling;
    next?.querySelector("a, button")?.focus();
  }

  fail(error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.isUnavailable && this.table) return; // the last figures stay, and the banner says that they are old
    this.isBroken = this.overview.hidden = this.filters.hidden = true;
    this.more.hidden = this.end.hidden = true;
    this.forget();
    fill(this.list, this.context.failure(error));
  }
}

function emptyWords({ find, only }) {
  const tile = only ? `“${TILES[only][1]}”` : "";
  return find ? `No stream's name contains “${find}”${tile && ` under ${tile}`}.` : `No stream is under ${tile}.`;
}

function summaryText(list, numShown, { groups }) {
  const parts = [groups ? `${streamsWord(list.numStreams)} in ${count(list.numGroups)} ${list.numGroups === 1 ? "group" : "groups"}`
    : numShown < list.numStreams ? `${count(numShown)} of ${streamsWord(list.numStreams)} shown` : streamsWord(list.numStreams)];
  if (list.numFailed) parts.push(`${count(list.numFailed)} could not be computed`);
  if (list.numPending) parts.push(`${count(list.numPending)} still to be read`);
  if (list.numOutdated > MIN_NAMED_OUTDATED) parts.push(`${count(list.numOutdated)} being updated`);
  return parts.join(", ");
}
