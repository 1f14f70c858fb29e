// What a chart shows, in rows: the one source of its table and of its CSV, so that they cannot differ.
//
// A sheet is {caption, columns, rows}: a row has one raw value for each column, and a column knows how
// the value is shown and which fields of a file it becomes.

import { table } from "./dom.js";
import { interval, measured, reason } from "./format.js";

const RISKY = /^[=+\-@\t\r]/; // a spreadsheet would compute it

/** A column of numbers, shown by `show`; a missing one is an empty field. */
export const numbers = (title, show) => ({ title, numeric: true, names: [title], show, fields: (value) => [field(value)] });

/** A column of Metric messages; one without a value says why. */
export const measures = (title, name) => ({
  title, numeric: true, names: [title],
  show: (found) => (found.value === undefined ? reason(found) : measured(name, found.value)), fields: (found) => [field(found.value)],
});

/** A column of Interval messages, in the unit of a metric where one is named. A file calls them those of `of`. */
export const intervals = (title, name = null, of = "") => ({
  title, numeric: true, names: of ? [`${of}, lower limit`, `${of}, upper limit`] : ["Lower limit", "Upper limit"],
  show: (limits) => interval(limits, name) ?? "–", fields: (limits) => [field(limits?.lower), field(limits?.upper)],
});

/** A column of [start, end]; `show(start, end)` may return an element. A file has them in UTC. */
export const periods = (title, show) => ({
  title, numeric: false, names: ["From (UTC)", "To (UTC)"],
  show: (ends) => show(...ends), fields: (ends) => ends.map((end) => end.toISOString()),
});

/** A column of words, in a file called `name`. A field that a spreadsheet would compute is marked as text. */
export const words = (title, name = title) => ({
  title, numeric: false, names: [name], show: (value) => value, fields: (value) => [RISKY.test(value) ? `'${value}` : value],
});

/** The sheet as a table. */
export const sheetTable = ({ caption, columns, rows }) =>
  table(caption, columns, rows.map((row) => row.map((value, index) => columns[index].show(value))));

/** The sheet as a file (RFC 4180), with all digits. */
export function sheetCsv({ columns, rows }) {
  const lines = [columns.flatMap(({ names }) => names),
    ...rows.map((row) => row.flatMap((value, index) => columns[index].fields(value)))];
  return lines.map((line) => `${line.map(quoted).join(",")}\r\n`).join("");
}

const field = (value) => (value === undefined || value === null ? "" : String(value));

const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
