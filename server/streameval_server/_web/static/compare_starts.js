// Comparisons to begin with: the pairs first, each with its answer, then what the streams' names suggest.

import { ApiError, get, pairPath } from "./api.js";
import { fill, h } from "./dom.js";
import { toCompare } from "./route.js";

const MAX_PAIRS = 12;
const MAX_STARTS = 3;

/** The list, of the chosen stream if there is one. */
export function startList({ names, pairs, chosen, signal }) {
  const own = chosen ? pairs.filter(({ a, b }) => a === chosen || b === chosen) : pairs;
  const paired = new Set(own.flatMap(({ a, b }) => [`${a} ${b}`, `${b} ${a}`]));
  return h("ul", { class: "starts" }, own.slice(0, MAX_PAIRS).map((pair) => pairItem(pair, signal)),
    starts(names, chosen, paired).map(([title, parameters]) => h("li", {}, h("a", { href: toCompare(parameters) }, title))));
}

function pairItem({ name, a, b }, signal) {
  const said = h("span", { class: "summary" });
  get(pairPath(name, "compare"), {}, signal).then(({ comparison }) => fill(said, ` ${comparison.sentence}`), (error) => {
    if (error instanceof ApiError) fill(said, ` ${error.message}`);
    else if (!signal.aborted) throw error;
  });
  return h("li", { class: "pair-start" }, h("a", { href: toCompare({ a, b }) }, `${b} against ${a}`), said);
}

/**
 * Comparisons to begin with, as [title, parameters]: of the chosen stream, else of the first that has another of its
 * group. The names are sorted, so the members of a group are neighbours.
 */
function starts(names, chosen, paired) {
  const group = (name) => name.split("/")[0];
  const first = chosen ?? names.find((name, index) => index + 1 < names.length && group(name) === group(names[index + 1])) ?? names[0];
  if (first === undefined) return [];
  const own = `The last 24 h of ${first} against all time`;
  const others = names.filter((name) => name !== first && group(name) === group(first) && !paired.has(`${first} ${name}`)).slice(0, MAX_STARTS);
  const pair = (a, b) => [`${b} against ${a}`, { a, "a.window": "24h", b, "b.window": "24h" }];
  return [...others.map((name) => pair(first, name)),
    [own, { a: first, "a.window": "24h", b: first, "b.window": "all" }]];
}
