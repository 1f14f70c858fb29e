// Reads, writes and adds states: the bytes of Evaluator.to_bytes, GetState and Merge.
// docs/state-format.md describes them. This reads scores that are floats, and refuses states with
// weights or clusters, which it would drop. Node alone, no packages.
//
//   node state.mjs sum.bin part-1.bin part-2.bin ...    writes the sum, prints what it holds

import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import zlib from "node:zlib";

const HAS_RESOLUTION = 1;
const IS_PROBABILITY = 2;
const MAX_TOTAL = 2n ** 62n;
const HAS_WEIGHTS = 4;
const HAS_CLUSTERS = 8;
const IS_WIDE = 16;
const MAX_NARROW = 2n ** 31n;

/** Decode a state; throws an Error for bytes that are not one. Counts are BigInt. */
export function decode(bytes) {
  if (bytes.length < 48 || bytes.toString("latin1", 0, 4) !== "SVEE") throw new Error("not a state");
  const format = bytes.readUInt16LE(4);
  if (format !== 1) throw new Error(`format ${format}: only format 1 is read here`);
  const end = bytes.length - 4;
  if (crc32(bytes.subarray(0, end)) !== bytes.readUInt32LE(end)) throw new Error("altered bytes");
  const flags = bytes[6];
  for (const [flag, name] of [[HAS_WEIGHTS, "weights"], [HAS_CLUSTERS, "clusters"]]) {
    if (flags & flag) throw new Error(`a state with ${name} is not read here`);
  }
  const width = flags & IS_WIDE ? 8 : 4;
  const int = (at) => (width === 8 ? bytes.readBigInt64LE(at) : BigInt(bytes.readInt32LE(at)));
  const state = {
    resolution: flags & HAS_RESOLUTION ? bytes.readInt8(7) : null,
    scale: flags & IS_PROBABILITY ? "probability" : "plain",
    maxCells: Number(int(8)) || null,
    missedPositives: int(8 + width),
    missedNegatives: int(8 + 2 * width),
  };
  let head = 8 + 3 * width;
  let at = head + 2 * (2 * width + 4);
  for (const name of ["positives", "negatives"]) {
    const size = Number(int(head));
    const [scoreBytes, countBytes] = bytes.subarray(head + 2 * width);
    if (scoreBytes > 8) throw new Error("a state with steps is not read here");
    if (at + size * (scoreBytes + countBytes) > end) throw new Error("truncated");
    const counts = new Map();
    for (let i = 0; i < size; i++) {
      const from = at + i * scoreBytes;
      const score = scoreBytes === 4 ? bytes.readFloatLE(from) : bytes.readDoubleLE(from);
      const count = countBytes && readUInt(bytes, at + size * scoreBytes + i * countBytes, countBytes);
      counts.set(score, countBytes ? count : 1n);
    }
    at += size * (scoreBytes + countBytes);
    head += 2 * width + 4;
    state[name] = counts;
  }
  if (at !== end) throw new Error("bytes are left after the state");
  return state;
}

/** Encode a state: equal states have equal bytes, in every language. */
export function encode(state) {
  const classes = [state.positives, state.negatives];
  const fields = [BigInt(state.maxCells ?? 0), state.missedPositives, state.missedNegatives];
  const totals = classes.map((counts) => [...counts.values()].reduce((sum, n) => sum + n, 0n));
  const width = [...fields, ...totals].some((value) => value >= MAX_NARROW) ? 8 : 4;
  const head = Buffer.alloc(16 + 7 * width);
  const int = (value, at) => (width === 8 ? head.writeBigInt64LE(value, at)
    : head.writeInt32LE(Number(value), at));
  head.write("SVEE", "latin1");
  head.writeUInt16LE(1, 4);
  head[6] = (state.resolution === null ? 0 : HAS_RESOLUTION)
    | (state.scale === "probability" ? IS_PROBABILITY : 0) | (width === 8 ? IS_WIDE : 0);
  head.writeInt8(state.resolution ?? 0, 7);
  fields.forEach((value, i) => int(value, 8 + i * width));
  const parts = [head];
  classes.forEach((counts, i) => {
    const at = 8 + 3 * width + i * (2 * width + 4);
    const rows = [...counts].sort(([a], [b]) => a - b);
    const scoreBytes = rows.every(([score]) => Math.fround(score) === score) ? 4 : 8;
    const largest = rows.reduce((most, [, count]) => (count > most ? count : most), 1n);
    const countBytes = largest === 1n ? 0 : [1, 2, 4, 8].find((n) => largest < 1n << BigInt(8 * n));
    int(BigInt(rows.length), at);
    int(totals[i], at + width);
    head[at + 2 * width] = scoreBytes;
    head[at + 2 * width + 1] = countBytes;
    const columns = Buffer.alloc(rows.length * (scoreBytes + countBytes));
    rows.forEach(([score, count], i) => {
      if (scoreBytes === 4) columns.writeFloatLE(score, i * 4);
      else columns.writeDoubleLE(score, i * 8);
      if (countBytes) writeUInt(columns, count, rows.length * scoreBytes + i * countBytes, countBytes);
    });
    parts.push(columns);
  });
  const body = Buffer.concat(parts);
  const checksum = Buffer.alloc(4);
  checksum.writeUInt32LE(crc32(body));
  return Buffer.concat([body, checksum]);
}

/** Add states of the same settings, without a limit on cells. */
export function add(states) {
  const [first] = states;
  const sum = {
    ...first, missedPositives: 0n, missedNegatives: 0n, positives: new Map(), negatives: new Map(),
  };
  for (const state of states) {
    for (const name of ["resolution", "scale"]) {
      if (state[name] !== first[name]) throw new Error(`${name} differs: the states do not add up`);
    }
    if (state.maxCells !== null) throw new Error("a sum with max_cells may have to drop bits");
    sum.missedPositives += state.missedPositives;
    sum.missedNegatives += state.missedNegatives;
    for (const name of ["positives", "negatives"]) {
      for (const [score, count] of state[name]) {
        sum[name].set(score, (sum[name].get(score) ?? 0n) + count);
      }
    }
  }
  if (total(sum) >= MAX_TOTAL) throw new Error("more cases than a state can count");
  return sum;
}

function total({ positives, negatives, missedPositives, missedNegatives }) {
  const counts = [...positives.values(), ...negatives.values()];
  return counts.reduce((sum, count) => sum + count, missedPositives + missedNegatives);
}

function readUInt(bytes, at, width) {
  return width === 8 ? bytes.readBigUInt64LE(at) : BigInt(bytes.readUIntLE(at, width));
}

function writeUInt(bytes, value, at, width) {
  if (width === 8) bytes.writeBigUInt64LE(value, at);
  else bytes.writeUIntLE(Number(value), at, width);
}

/** CRC-32 as zlib computes it; older Node has no zlib.crc32. */
function crc32(bytes) {
  if (zlib.crc32) return zlib.crc32(bytes);
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return (crc ^ 0xffffffff) >>> 0;
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [into, ...parts] = process.argv.slice(2);
  const sum = add(parts.map((path) => decode(readFileSync(path))));
  writeFileSync(into, encode(sum));
  const asText = (_, value) => (typeof value === "bigint" ? String(value)
    : value instanceof Map ? [...value] : value);
  console.log(JSON.stringify(sum, asText));
}
