// The list of all streams: those with open alarms, then the worst, first.

import { AlarmStates, openAlarms } from "./alarm_states.js";
import { ApiError, get, metric, Refresher, throttle, watch } from "./api.js";
import { fill, h, redraw, setText, svg } from "./dom.js";
import { count, figure, interval, percent, reason, span, titleOf } from "./format.js";
import { HEADLINE, MONITORED } from "./metrics.js";
import { DEFAULT_WINDOW, replace, seconds, toStream, toStreams, WINDOWS } from "./route.js";
import { emptyServer } from "./states.js";

const PAGE_ROWS = 50;
const STREAMS_PER_CALL = 50;
const STEPS = 24;
const NAMES_PER_PAGE = 1_000;
const NAMES_GAP_MS = 3_000;
const FIGURES_GAP_MS = 1_000;
const HIDDEN_FIGURES_GAP_MS = 30_000; // for the figures of streams that are not shown
const FRESHNESS_MS = 1_000;

const value = (name) => (entry) => metric(entry.snapshot, name)?.value;
const coverage = (entry) => entry.snapshot.coverage?.labelledShare;

// Each order: title, sort key, direction. Streams without a value come last.
const ORDERS = {
  ...Object.fromEntries(MONITORED.map((name) => [name, [`${titleOf(name)}, the worst first`, value(name), 1]])),
  [HEADLINE]: [`Alarms, then the worst ${titleOf(HEADLINE)}`, value(HEADLINE), 1],
  coverage: ["Coverage, the lowest first", coverage, 1],
  fresh: ["Freshness, the stalest first", (entry) => entry.newest, 1],
  name: ["Name", (entry) => entry.snapshot.stream, 1],
};

export class StreamsView {
  constructor(root, route, context) {
    Object.assign(this, { root, context, signal: context.signal });
    this.entries = new Map();
    this.rows = new Map();
    this.shown = PAGE_ROWS;
    this.build();
    this.alarms = new AlarmStates(this.signal, () => this.show(), (error) => this.fail(error));
    this.update(route);
    this.names = new Refresher(() => this.loadNames(), NAMES_GAP_MS, this.signal, (error) => this.fail(error));
    this.figures = new Refresher(() => this.loadFigures(), FIGURES_GAP_MS, this.signal, (error) => this.fail(error));
    this.names.request();
    const timers = [
      setInterval(() => this.tick(), FRESHNESS_MS),
      setInterval(() => this.figures.request(), HIDDEN_FIGURES_GAP_MS),
    ];
    this.signal.addEventListener("abort", () => timers.forEach(clearInterval));
  }

  build() {
    this.search = h("input", {
      type: "search", id: "find", placeholder: "Part of a name", autocomplete: "off", spellcheck: "false",
      oninput: () => this.go({ find: this.search.value.trim() }),
    });
    this.order = h("select", { id: "order", onchange: () => this.go({ sort: this.order.value }) },
      Object.entries(ORDERS).map(([key, [title]]) => h("option", { value: key }, title)));
    this.window = h("select", { id: "window", onchange: () => this.go({ window: this.window.value }) },
      WINDOWS.map(([key, title]) => h("option", { value: key }, title === "All time" ? title : `Last ${title}`)));
    this.summary = h("p", { class: "summary", id: "summary", role: "status" });
    this.warnings = h("ul", { class: "warnings", id: "server-warnings" });
    this.list = h("div", { id: "streams" });
    this.more = h("button", { type: "button", class: "quiet", hidden: true, onclick: () => { this.shown += PAGE_ROWS; this.show(); this.watch(); } });
    fill(this.root,
      h("div", { class: "view-head" }, h("h1", { tabindex: -1 }, "Streams"), this.summary),
      this.filters = h("form", { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() },
        h("div", {}, h("label", { for: "find" }, "Search"), this.search),
        h("div", {}, h("label", { for: "window" }, "Window"), this.window),
        h("div", {}, h("label", { for: "order" }, "Order"), this.order)),
      this.warnings, this.list, this.more);
  }

  update(route) {
    const given = (name) => route.parameters.get(name);
    const window = WINDOWS.some(([key]) => key === given("window")) ? given("window") : DEFAULT_WINDOW;
    const isOther = this.state && this.state.window !== window;
    this.state = { window, sort: ORDERS[given("sort")] ? given("sort") : HEADLINE, find: given("find") ?? "" };
    if (this.search.value.trim() !== this.state.find) this.search.value = this.state.find;
    this.order.value = this.state.sort;
    this.window.value = window;
    if (isOther) {
      this.entries.clear();
      this.figures.request();
    }
    this.show();
    this.watch();
  }

  go(change) {
    const { window, sort, find } = { ...this.state, ...change };
    replace(toStreams({ window: window === DEFAULT_WINDOW ? "" : window, sort: sort === HEADLINE ? "" : sort, find }));
    this.update(this.context.route());
  }

  fields() {
    const last = seconds(this.state.window);
    return {
      metrics: [...MONITORED, "prevalence"],
      ...(last ? { last: `${last}s`, steps: STEPS } : {}),
    };
  }

  async loadNames() {
    const streams = [];
    let pageToken = "";
    do {
      const page = await get("v1/streams", { pageSize: NAMES_PER_PAGE, pageToken }, this.signal);
      streams.push(...page.streams);
      pageToken = page.nextPageToken;
    } while (pageToken);
    const names = streams.map((each) => each.name);
    this.alarms.declare(streams);
    const isOther = !this.all || names.length !== this.all.length || names.some((name, index) => name !== this.all[index]);
    this.all = names;
    this.isBroken = false;
    if (isOther) {
      const present = new Set(names);
      for (const name of this.entries.keys()) if (!present.has(name)) this.entries.delete(name);
      if (!names.length) this.server = await this.describe();
      this.figures.request();
      this.show();
    }
    if (!this.visible().length) this.context.connection("live"); // there is nothing to watch
    this.names.gapMs = names.length > NAMES_PER_PAGE ? HIDDEN_FIGURES_GAP_MS : NAMES_GAP_MS;
    this.names.request(); // streams are created and deleted
  }

  /** The server's status; empty when the token does not cover it. */
  async describe() {
    try {
      return await get("v1/server", {}, this.signal);
    } catch (error) {
      if (error instanceof ApiError && error.isDenied) return {};
      throw error;
    }
  }

  async loadFigures() {
    const [fields, { window }] = [this.fields(), this.state];
    for (let start = 0; start < (this.all ?? []).length; start += STREAMS_PER_CALL) {
      const answer = await get("v1/streams:snapshots", { streams: this.all.slice(start, start + STREAMS_PER_CALL), ...fields }, this.signal);
      if (this.state.window !== window) return; // another window was chosen meanwhile
      this.store(answer);
      this.show();
    }
    this.watch();
  }

  store(answer) {
    fill(this.warnings, answer.serverWarnings.map((each) => h("li", {}, each)));
    for (const found of answer.snapshots) {
      const newest = found.newestPane ? Math.min(Date.now(), new Date(found.newestPane.endTime).getTime()) : undefined;
      this.entries.set(found.snapshot.stream, { ...found, newest });
    }
    this.alarms.follow(answer.snapshots.map((each) => each.snapshot));
  }

  /** Watch the streams that are shown, and no others. */
  watch() {
    const names = this.visible().map((entry) => entry.snapshot.stream);
    const key = JSON.stringify([names.toSorted(), this.fields()]);
    if (!names.length || key === this.watchedKey) return;
    this.watchedKey = key;
    this.watching?.abort();
    this.watching = new AbortController();
    const signal = AbortSignal.any([this.watching.signal, this.signal]);
    const show = throttle(() => this.show(), signal);
    watch("v1/streams:watch", { streams: names.toSorted().slice(0, 100), ...this.fields() }, {
      signal,
      onAnswer: (answer) => {
        this.store(answer);
        for (const name of answer.missing) this.entries.delete(name);
        show();
      },
      onState: (state, error) => {
        this.context.connection(state, error);
        if (state === "refused") this.fail(error);
      },
    });
  }

  visible() {
    const wanted = this.state.find.toLowerCase();
    const [, key] = ORDERS[this.state.sort];
    const isFirst = (entry) => this.state.sort === HEADLINE && openAlarms(entry.snapshot) > 0;
    const compare = (a, b) => {
      if (isFirst(a) !== isFirst(b)) return isFirst(a) ? -1 : 1;
      const [x, y] = [key(a), key(b)];
      if (x === y || (x === undefined && y === undefined)) return a.snapshot.stream < b.snapshot.stream ? -1 : 1;
      if (x === undefined || y === undefined) return x === undefined ? 1 : -1;
      return x < y ? -1 : 1;
    };
    this.found = [...this.entries.values()].filter((entry) => entry.snapshot.stream.toLowerCase().includes(wanted)).sort(compare);
    return this.found.slice(0, this.shown);
  }

  show() {
    if (this.isBroken) return;
    this.filters.hidden = this.all?.length === 0;
    if (this.all && !this.all.length) {
      setText(this.summary, "");
      this.more.hidden = true;
      this.table = null;
      if (!this.list.querySelector("#empty-server")) {
        fill(this.list, emptyServer(this.server.grpcAddress));
      }
      return;
    }
    const entries = this.visible();
    setText(this.summary, this.summaryText());
    this.more.hidden = this.found.length <= entries.length;
    this.more.textContent = `Show more of ${count(this.found.length)}`;
    if (!entries.length) {
      this.table = null;
      fill(this.list, h("p", { class: "empty" }, this.all && this.entries.size >= this.all.length
        ? `No stream's name contains “${this.state.find}”.` : "Reading …"));
      return;
    }
    if (!this.table) fill(this.list, this.makeTable());
    this.place(entries);
  }

  summaryText() {
    if (!this.all) return "";
    if (this.entries.size < this.all.length) return `${count(this.entries.size)} of ${count(this.all.length)} streams read`;
    const alarming = this.found.filter((entry) => openAlarms(entry.snapshot)).length;
    return `${count(this.found.length)} ${this.found.length === 1 ? "stream" : "streams"}`
      + (alarming ? `, ${count(alarming)} with open alarms` : "");
  }

  makeTable() {
    const cell = (title, kind) => h("th", { scope: "col", class: kind }, title);
    this.table = h("tbody");
    this.rows.clear();
    return h("table", { class: "streams" },
      h("caption", { class: "hidden" }, "Streams with their current figures"),
      h("thead", {}, h("tr", {}, cell("Stream"), cell(titleOf(HEADLINE), "number"), cell("95 % interval", "number"),
        h("th", { scope: "col", class: "drawn" }, h("span", { class: "scale" }, h("span", {}, "0"), h("span", {}, "1"))),
        cell("Over the window"), cell("Prevalence", "number"), cell("Labelled", "number"), cell("Newest", "number"))),
      this.table);
  }

  /** Update existing rows in place, so that the focus stays. */
  place(entries) {
    this.placed = entries.map((entry) => {
      const name = entry.snapshot.stream;
      if (!this.rows.has(name)) this.rows.set(name, new Row(name));
      const row = this.rows.get(name);
      row.update(entry, this.state.window);
      this.alarms.show(row.alarms, entry.snapshot);
      return row;
    });
    const { table } = this;
    redraw(table, () => { if (table === this.table) this.arrange(); });
    this.tick();
  }

  /** Sort the rows, moving only those out of place; keep the focus. */
  arrange() {
    const { table, placed } = this;
    const focused = document.activeElement;
    this.rows = new Map(placed.map((row) => [row.name, row]));
    const present = new Set(placed.map(({ element }) => element));
    for (const row of [...table.children]) if (!present.has(row)) row.remove();
    placed.forEach(({ element }, index) => {
      if (table.children[index] !== element) table.insertBefore(element, table.children[index] ?? null);
    });
    if (focused !== document.activeElement && table.contains(focused)) focused.focus();
  }

  tick() {
    for (const row of this.rows.values()) row.tick();
  }

  fail(error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.isUnavailable) this.context.connection("lost");
    if (this.entries.size && error.isUnavailable) {
      this.names.request();
      return; // the last figures stay, and the banner says that they are old
    }
    this.isBroken = this.filters.hidden = true;
    this.table = null;
    this.watchedKey = null;
    fill(this.list, this.context.failure(error));
    if (error.isUnavailable) this.names.request();
  }
}

/** One stream of the list. */
class Row {
  constructor(name) {
    const number = (title) => h("td", { class: "number", "data-title": title });
    this.link = h("a", {}, name);
    this.alarms = h("span", { class: "alarm-state", hidden: true });
    this.value = number(titleOf(HEADLINE));
    this.limits = number("95 % interval");
    this.drawn = h("td", { class: "drawn" });
    this.spark = h("td", { class: "spark" });
    this.prevalence = number("Prevalence");
    this.coverage = number("Labelled");
    this.fresh = number("Newest");
    this.element = h("tr", {}, h("th", { scope: "row" }, h("div", { class: "named" }, this.link, this.alarms)), this.value, this.limits, this.drawn,
      this.spark, this.prevalence, this.coverage, this.fresh);
    this.name = name;
  }

  update(entry, window) {
    this.newest = entry.newest;
    this.link.href = toStream(this.name, { window: window === DEFAULT_WINDOW ? "" : window });
    const found = metric(entry.snapshot, HEADLINE);
    const isDefined = found.value !== undefined;
    this.value.classList.toggle("reason", !isDefined);
    setText(this.value, isDefined ? figure(found.value) : undefinedReason(entry, found));
    setText(this.limits, interval(found.interval) ?? "–");
    fill(this.drawn, isDefined ? drawnInterval(found) : null);
    fill(this.spark, sparkline(entry.series));
    setText(this.prevalence, percent(metric(entry.snapshot, "prevalence")?.value));
    setText(this.coverage, entry.snapshot.coverage ? percent(entry.snapshot.coverage.labelledShare) : "–");
  }

  tick() {
    setText(this.fresh, this.newest === undefined ? "–" : age(this.newest));
  }
}

function undefinedReason(entry, found) {
  const { coverage, numPositiveRef, numNegativeRef } = entry.snapshot;
  const isUnlabelled = Number(numPositiveRef) + Number(numNegativeRef) === 0;
  return isUnlabelled && Number(coverage?.pending ?? 0) ? "no label yet" : reason(found);
}

function age(time) {
  const s = (Date.now() - time) / 1000;
  return s < 60 ? "< 1 min" : span(s);
}

function drawnInterval(found) {
  const at = (share) => 2 + 96 * share;
  return svg("svg", { class: "whisker", viewBox: "0 0 100 16", width: 100, height: 16, "aria-hidden": true },
    svg("line", { class: "middle", x1: 2, x2: 98, y1: 8, y2: 8 }),
    found.interval?.lower === undefined ? null
      : svg("line", { class: "reach", x1: at(found.interval.lower), x2: at(found.interval.upper), y1: 8, y2: 8 }),
    svg("circle", { cx: at(found.value), cy: 8, r: 3.5 }));
}

const MIN_RANGE = 0.1; // so that noise does not look like a change

function sparkline(series) {
  const values = series.map((each) => each.value);
  const known = values.filter((each) => each !== undefined);
  if (known.length < 2) return null;
  const middle = (Math.max(...known) + Math.min(...known)) / 2;
  const range = Math.max(MIN_RANGE, Math.max(...known) - Math.min(...known));
  const x = (index) => 3 + (index * 114) / (values.length - 1);
  const y = (each) => 12 - (20 * (each - middle)) / range;
  const runs = [];
  values.forEach((each, index) => {
    if (each === undefined) return;
    if (index === 0 || values[index - 1] === undefined) runs.push([]);
    runs.at(-1).push([x(index), y(each)]);
  });
  const last = values.findLastIndex((each) => each !== undefined);
  const from = values.find((each) => each !== undefined);
  return svg("svg", { class: "sparkline", viewBox: "0 0 120 24", width: 120, height: 24, role: "img",
    "aria-label": `${titleOf(HEADLINE)} from ${figure(from)} to ${figure(values[last])}` },
    runs.map((run) => (run.length > 1
      ? svg("polyline", { points: run.map((each) => each.map((end) => end.toFixed(1)).join(",")).join(" ") })
      : svg("circle", { class: "lone", cx: run[0][0], cy: run[0][1], r: 1.2 }))),
    svg("circle", { cx: x(last), cy: y(values[last]), r: 2.5 }));
}
