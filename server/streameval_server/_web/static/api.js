// Calls the server's JSON API and reads its server-sent events, with this tab's token.

const TOKEN = "streameval.token";
const SILENCE_TIMEOUT_MS = 25_000; // the server sends a heartbeat every 10 s
const MIN_DRAW_INTERVAL_MS = 200;
const MIN_RETRY_MS = 500;
const MAX_RETRY_MS = 5_000;

export const token = {
  get: () => sessionStorage.getItem(TOKEN),
  set: (value) => sessionStorage.setItem(TOKEN, value),
  forget: () => sessionStorage.removeItem(TOKEN),
};

/**
 * The error of a call; status 0 means that the server did not answer. An answer of the server itself has a
 * `requestId`, under which its log names the call; a proxy's has none.
 */
export class ApiError extends Error {
  constructor(status, message, { reason = "", requestId = "" } = {}) {
    super(message);
    Object.assign(this, { status, reason, requestId });
  }

  /** Whether the same call may succeed later. */
  get isUnavailable() {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }

  get isDenied() {
    return this.status === 401 || this.status === 403;
  }
}

/** The path of a stream's method. Names need no escaping: they have only characters allowed in paths. */
export const streamPath = (name, method = "") => `v1/streams/${name}${method ? `:${method}` : ""}`;
export const pairPath = (name, method) => `v1/pairs/${name}:${method}`;

/** Return the answer to a GET request. Throws ApiError. */
export async function get(path, parameters = {}, signal = undefined) {
  return decoded(await request(path, parameters, signal, "application/json"), signal);
}

/** Return the answer to a POST request with a JSON body. Throws ApiError. */
export async function post(path, body, signal = undefined) {
  return decoded(await request(path, {}, signal, "application/json", { verb: "POST", body }), signal);
}

/** Return the answer to a PATCH request with a JSON body. Throws ApiError. */
export async function patch(path, body, signal = undefined) {
  return decoded(await request(path, {}, signal, "application/json", { verb: "PATCH", body }), signal);
}

/** Return the answer to a DELETE request. Throws ApiError. */
export async function remove(path, parameters, signal = undefined) {
  return decoded(await request(path, parameters, signal, "application/json", { verb: "DELETE" }), signal);
}

async function decoded(response, signal) {
  try {
    return await response.json();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, "the answer was cut off");
  }
}

/** Send a GET request, or a change with its verb and its body. */
async function request(path, parameters, signal, accept, change = undefined) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    for (const each of [value].flat()) {
      if (each !== undefined && each !== null) query.append(name, each);
    }
  }
  const headers = { accept };
  if (token.get()) headers.authorization = `Bearer ${token.get()}`;
  const sent = { headers, signal, cache: "no-store" };
  if (change) {
    headers["content-type"] = "application/json";
    Object.assign(sent, { method: change.verb, body: JSON.stringify(change.body) });
  }
  const search = query.toString();
  let response;
  try {
    response = await fetch(search ? `${path}?${search}` : path, sent);
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, "the server does not answer");
  }
  if (!response.ok) throw await responseError(response);
  return response;
}

async function responseError(response) {
  let body = null;
  try {
    body = await response.json();
  } catch {
    // A page of a proxy, or an answer that was cut off: the status says all that is known.
  }
  return statusError(response.status, body ?? {}, response.headers.get("x-request-id"));
}

function statusError(status, { message, details = [] }, requestId = null) {
  const of = (type) => details.find((detail) => detail["@type"]?.endsWith(type));
  return new ApiError(status, message ?? `the answer has the HTTP status ${status}`, {
    reason: of("google.rpc.ErrorInfo")?.reason, requestId: requestId ?? of("google.rpc.RequestInfo")?.requestId,
  });
}

/**
 * Receive the newest answers until `signal` aborts; reconnect whenever the connection ends.
 *
 * `onAnswer` gets each answer; `onState` gets "live", or "lost" with an ApiError. When the server
 * refuses the request (a token, a name), `onState` gets "refused" and the watch ends.
 */
export async function watch(path, parameters, { onAnswer, onState, signal }) {
  let retryMs = MIN_RETRY_MS;
  while (!signal.aborted) {
    try {
      const response = await request(path, parameters, signal, "text/event-stream");
      for await (const event of events(response, signal)) {
        retryMs = MIN_RETRY_MS;
        if (event.kind === "error") throw eventError(JSON.parse(event.data));
        onAnswer(JSON.parse(event.data));
        onState("live");
      }
      throw new ApiError(0, "the connection ended");
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      if (!error.isUnavailable) {
        onState("refused", error);
        return;
      }
      onState("lost", error);
    }
    await sleep(retryMs * (0.75 + Math.random() / 2), signal);
    retryMs = Math.min(2 * retryMs, MAX_RETRY_MS);
  }
}

const STATUS_OF_CODE = { 4: 504, 5: 404, 7: 403, 8: 429, 12: 501, 13: 500, 14: 503, 16: 401 };

function eventError(status) {
  return statusError(STATUS_OF_CODE[status.code] ?? 400, status);
}

/** Yield the events of a response; without a heartbeat the connection counts as dead. */
async function* events(response, signal) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    while (true) {
      const { done, value } = await readChunk(reader, signal);
      if (done) return;
      const blocks = (rest + value).split(/\r?\n\r?\n/);
      rest = blocks.pop();
      for (const block of blocks) {
        const event = { kind: "message", data: "" };
        for (const line of block.split(/\r?\n/)) {
          if (line.startsWith("event:")) event.kind = line.slice(6).trim();
          else if (line.startsWith("data:")) event.data += line.slice(5).trim();
        }
        if (event.data) yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {}); // the connection may have ended already
  }
}

async function readChunk(reader, signal) {
  let timer;
  const silence = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new ApiError(0, "the server sent no heartbeat")), SILENCE_TIMEOUT_MS);
  });
  try {
    return await Promise.race([reader.read(), silence]);
  } catch (error) {
    if (error instanceof ApiError || signal.aborted) throw error;
    throw new ApiError(0, "the connection was interrupted");
  } finally {
    clearTimeout(timer);
  }
}

function sleep(ms, signal) {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end); // a signal lives as long as its view, a sleep for a second
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener("abort", end);
  });
}

/** Return a function that calls `draw` with its newest argument, at most five times a second. */
export function throttle(draw, signal) {
  let newest;
  let timer = null;
  let drawnMs = -Infinity;
  signal.addEventListener("abort", () => clearTimeout(timer), { once: true });
  return (value) => {
    newest = value; // events that arrive together while the page is busy are drawn once
    timer ??= setTimeout(() => {
      timer = null;
      drawnMs = performance.now();
      draw(newest);
    }, Math.max(0, drawnMs + MIN_DRAW_INTERVAL_MS - performance.now()));
  };
}

/**
 * Runs `load` on request: at most once per `gapMs`, never twice at the same time. Requests made
 * while it runs are merged into one further run. `failed` gets an ApiError; where the same call may
 * succeed later, it runs again.
 */
export class Refresher {
  constructor(load, gapMs, signal, failed) {
    Object.assign(this, { load, gapMs, signal, failed, running: false, wanted: false });
  }

  /** Request a run: call it whenever the loaded data may be out of date. */
  request() {
    this.wanted = true;
    if (!this.running) this.run();
  }

  async run() {
    this.running = true;
    while (this.wanted && !this.signal.aborted) {
      this.wanted = false;
      try {
        await this.load();
      } catch (error) {
        if (this.signal.aborted) break;
        if (!(error instanceof ApiError)) throw error;
        this.failed(error);
        this.wanted ||= error.isUnavailable;
        if (error.isUnavailable) await sleep(MAX_RETRY_MS, this.signal);
      }
      await sleep(this.gapMs, this.signal);
    }
    this.running = false;
  }
}

/** Return a metric of a snapshot by its name. */
export const metric = (snapshot, name) => snapshot.metrics.find((each) => each.name === name);
