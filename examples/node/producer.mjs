// A durable producer: numbered batches on one Ingest stream, cumulative acks.
//
// proto/streameval/v1/ingest.proto defines the protocol: the client opens with
// (producer, epoch), counts batches from 1, and after a reconnect continues from the
// last sequence that the server names. A batch is kept here until it is acknowledged.

import { randomUUID } from "node:crypto";
import grpc from "@grpc/grpc-js";

// Transient errors. Any other (no permission, a newer epoch elsewhere) needs the
// operator, so flush() rejects with it.
const TRANSIENT = new Set([grpc.status.UNAVAILABLE, grpc.status.RESOURCE_EXHAUSTED]);

export class Producer {
  #client;
  #metadata;
  #open = { producer: randomUUID(), epoch: String(Date.now() * 1000) };
  #unacked = new Map(); // sequence -> batch, oldest first
  #sequence = 0;
  #revision = "0";
  #call;
  #waiting = []; // { sequence, resolve, reject }
  #failure;
  #retryMs = 100;
  #closed = false;
  refused = []; // { sequence, message }: consumed by the server, not counted, never resent

  constructor(ingestClient, metadata) {
    this.#client = ingestClient;
    this.#metadata = metadata;
    this.#connect();
  }

  /** Queue one batch of rows; `rows` is one of the kinds of Batch, such as { labels: {...} }. */
  send(stream, rows) {
    const batch = { sequence: ++this.#sequence, stream, ...rows };
    this.#unacked.set(batch.sequence, batch);
    if (this.#call?.resumed) this.#call.write({ batch });
  }

  /** Resolves, once everything sent so far is durable, with its log revision. */
  flush() {
    if (this.#failure) return Promise.reject(this.#failure);
    if (this.#unacked.size === 0) return Promise.resolve(this.#revision);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ sequence: this.#sequence, resolve, reject });
    });
  }

  async close() {
    await this.flush();
    this.#closed = true;
    this.#call.end();
  }

  #connect() {
    const call = this.#client.Ingest(this.#metadata);
    this.#call = call;
    call.on("data", (response) => {
      if (response.resume) this.#resume(call, response.resume);
      else if (response.ack) this.#acked(response.ack);
      else if (response.refused) {
        const { sequence, refusal } = response.refused;
        this.refused.push({ sequence: Number(sequence), refusal });
      }
    });
    call.on("error", (error) => {
      if (this.#closed) return;
      if (!TRANSIENT.has(error.code)) {
        this.#failure = error;
        for (const { reject } of this.#waiting.splice(0)) reject(error);
        return;
      }
      console.error(`ingest: ${error.details}; retrying`);
      setTimeout(() => this.#connect(), this.#retryMs * (0.5 + Math.random()));
      this.#retryMs = Math.min(this.#retryMs * 2, 10_000);
    });
    call.write({ open: this.#open });
  }

  #resume(call, resume) {
    this.#retryMs = 100;
    this.#acked(resume);
    for (const batch of this.#unacked.values()) call.write({ batch });
    call.resumed = true;
  }

  #acked({ last_sequence, revision }) {
    const last = Number(last_sequence);
    for (const sequence of this.#unacked.keys()) {
      if (sequence > last) break;
      this.#unacked.delete(sequence);
    }
    if (BigInt(revision) > BigInt(this.#revision)) this.#revision = revision;
    this.#waiting = this.#waiting.filter(({ sequence, resolve }) => {
      if (sequence > last) return true;
      resolve(this.#revision);
      return false;
    });
  }
}
