// Logs predictions, then their labels, and reads the model's figures.
//
//   npm ci
//   node monitor.mjs 127.0.0.1:50051 node/example

import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import grpc from "@grpc/grpc-js";
import protoLoader from "@grpc/proto-loader";
import { Producer } from "./producer.mjs";

const [address = "127.0.0.1:50051", stream = "node/example"] = process.argv.slice(2);

const root = join(dirname(fileURLToPath(import.meta.url)), "../../proto");
const definition = protoLoader.loadSync(
  ["streameval/v1/ingest.proto", "streameval/v1/query.proto"],
  // longs as strings: revisions and microseconds do not fit a JavaScript number.
  { includeDirs: [root], keepCase: true, longs: String, enums: String, defaults: true, oneofs: true },
);
const { v1 } = grpc.loadPackageDefinition(definition).streameval;

const metadata = new grpc.Metadata();
if (process.env.STREAMEVAL_TOKEN) {
  metadata.set("authorization", `Bearer ${process.env.STREAMEVAL_TOKEN}`);
}
// The authorities to trust, in PEM: without TLS a token travels in plain text.
const roots = process.env.STREAMEVAL_ROOT_CERTIFICATES;
const credentials = roots
  ? grpc.credentials.createSsl(readFileSync(roots))
  : grpc.credentials.createInsecure();
const ingest = new v1.IngestService(address, credentials);
const query = new v1.QueryService(address, credentials);

// Simulated cases: scores of a fairly good model, and the labels that arrive later.
const cases = Array.from({ length: 1000 }, (_, i) => {
  const positive = i % 10 === 0;
  const noise = ((i * 7919) % 1000) / 1000;
  return { id: `order-${i}`, score: positive ? 0.35 + 0.6 * noise : 0.7 * noise, positive };
});

const producer = new Producer(ingest, metadata);
producer.send(stream, {
  predictions: { ids: cases.map((c) => c.id), scores: cases.map((c) => c.score) },
});
// In production the labels arrive weeks later.
producer.send(stream, {
  labels: { ids: cases.map((c) => c.id), positives: cases.map((c) => c.positive) },
});
// Everything sent is durable at this revision; the query below waits for it.
const min_revision = await producer.flush().catch((error) => {
  console.error(`ingest: ${error.details}`);
  process.exit(1);
});

query.GetSnapshot({ selection: { stream, min_revision } }, metadata, async (error, answer) => {
  await producer.close();
  ingest.close();
  query.close();
  if (error) {
    console.error(`snapshot: ${error.details}`);
    process.exitCode = 1;
    return;
  }
  const { snapshot } = answer;
  for (const { name, value, undefined_reason, interval } of snapshot.metrics) {
    const limits = interval?.lower == null ? "" : ` [${interval.lower}, ${interval.upper}]`;
    console.log(`${name} ${value ?? undefined_reason}${limits}`);
  }
  console.log(`labelled ${snapshot.coverage.labelled} of ${snapshot.coverage.predictions}`);
  console.log(`refused ${producer.refused.length}`);
});
