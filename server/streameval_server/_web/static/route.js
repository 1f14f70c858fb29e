// Reads and writes the URL's fragment, which holds the view and its selection: a link shows the
// same, and the names in it are not sent to servers' logs.
//
//   #/?window=24h&find=fraud&sort=auc_pr
//   #/stream/fraud/v3?window=1h&segment=country:US&mature=3h&at=0.42&costs=1:10&tab=alarms
//   #/compare?a=fraud/v3&a.window=1h&b=fraud/v4&b.window=1h&metric=auc_pr

export const DEFAULT_WINDOW = "24h";

export const WINDOWS = [
  ["15m", "15 min"], ["1h", "1 h"], ["6h", "6 h"], ["24h", "24 h"], ["7d", "7 d"], ["30d", "30 d"], ["90d", "90 d"], ["all", "All time"],
];

const SECONDS = { s: 1, m: 60, h: 3600, d: 86400 };

/** The view that the URL names: {view, stream, parameters}. */
export function currentRoute() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const parameters = new URLSearchParams(query);
  const stream = path.match(/^stream\/(.+)$/)?.[1];
  if (stream) return { view: "stream", stream: decoded(stream), parameters };
  return { view: path === "compare" ? "compare" : "streams", parameters };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function link(path, parameters) {
  const kept = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== null && value !== "") kept.set(name, value);
  }
  const query = kept.toString().replaceAll("%2F", "/").replaceAll("%3A", ":");
  return `#/${path}${query ? `?${query}` : ""}`;
}

export const toStreams = (parameters = {}) => link("", parameters);
export const toStream = (name, parameters = {}) =>
  link(`stream/${name.split("/").map(encodeURIComponent).join("/")}`, parameters);
export const toCompare = (parameters = {}) => link("compare", parameters);

/** Change the URL without leaving the view. */
export function replace(href) {
  if (href !== location.hash) history.replaceState(null, "", href);
}

/** Seconds of a window such as 15m; null for other texts. */
export function seconds(window) {
  const found = /^(\d+)([smhd])$/.exec(window);
  return found ? Number(found[1]) * SECONDS[found[2]] : null;
}

/** [start, end] of a window such as 2026-11-21T10:00Z..2026-11-21T11:00Z; null for others. */
export function between(window) {
  const ends = window.split("..").map((text) => new Date(text));
  return ends.length === 2 && ends.every((end) => !Number.isNaN(end.getTime())) ? ends : null;
}

export function windowBetween(start, end) {
  const short = (date) => date.toISOString().replace(/:00\.000Z$/, "Z");
  return `${short(start)}..${short(end)}`;
}

/** Split key:value; keys contain no colon. */
export function segment(text) {
  const at = text ? text.indexOf(":") : -1;
  return at > 0 ? { key: text.slice(0, at), value: text.slice(at + 1) } : null;
}

/** What is wrong with a segment as it is written, in words; "" for a segment and for none. */
export function segmentProblem(text) {
  if (!text || segment(text)) return "";
  const [key, value] = text.split(/=(.*)/s);
  return `“${text}” is no segment. Write key:value, as in ${key && value !== undefined ? `${key}:${value}` : "country:US"}.`;
}

/** The same of a window. */
export function windowProblem(text) {
  if (!text || text === "all" || seconds(text) || between(text)) return "";
  return `“${text}” is no window. Write one such as 6h, or two times with .. between them.`;
}

export const segmentText = ({ key, value }) => `${key}:${value}`;

/** What a false positive and a missed positive cost, as query parameters. */
export const errorCosts = ([falsePositive, falseNegative]) =>
  ({ "errorCosts.falsePositive": falsePositive, "errorCosts.falseNegative": falseNegative });

/**
 * A Selection's fields as query parameters, below a prefix such as "selection." or "a."; `mature` leaves
 * out what is younger than that, such as 3h.
 */
export function selection(prefix, window, chosen, mature = "") {
  const fields = {};
  const ends = between(window);
  if (ends) {
    fields[`${prefix}between.startTime`] = ends[0].toISOString();
    fields[`${prefix}between.endTime`] = ends[1].toISOString();
  } else if (seconds(window)) {
    fields[`${prefix}last`] = `${seconds(window)}s`;
  }
  if (mature) fields[`${prefix}matureAfter`] = `${seconds(mature)}s`;
  if (chosen) {
    fields[`${prefix}segment.key`] = chosen.key;
    fields[`${prefix}segment.value`] = chosen.value;
  }
  return fields;
}
