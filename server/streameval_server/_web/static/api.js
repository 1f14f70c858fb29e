// The server's JSON over HTTP, and its server-sent events, with the token of this tab.

const TOKEN = "streameval.token";
const SILENCE_MS = 25_000; // heartbeats come every 10 s
const DRAW_GAP_MS = 200;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 5_000;

export const token = {
  get: () => sessionStorage.getItem(TOKEN),
  set: (value) => sessionStorage.setItem(TOKEN, value),
  forget: () => sessionStorage.removeItem(TOKEN),
};

/** What a call ended with; status 0 is a server that did not answer. */
export class ApiError extends Error {
  constructor(status, message, reason = "") {
    super(message);
    this.status = status;
    this.reason = reason;
  }

  get isAway() {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }

  get isDenied() {
    return this.status === 401 || this.status === 403;
  }
}

/** The path of a stream's method; names hold only characters that paths may. */
export const streamPath = (name, method = "") => `v1/streams/${name}${method ? `:${method}` : ""}`;

/** Return the answer to a question. Raises ApiError. */
export async function get(path, parameters = {}, signal = undefined) {
  const response = await opened(path, parameters, signal, "application/json");
  try {
    return await response.json();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, "the answer broke off");
  }
}

async function opened(path, parameters, signal, accept) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    for (const each of [value].flat()) {
      if (each !== undefined && each !== null) query.append(name, each);
    }
  }
  const headers = { accept };
  if (token.get()) headers.authorization = `Bearer ${token.get()}`;
  const asked = query.toString();
  let response;
  try {
    response = await fetch(asked ? `${path}?${asked}` : path, { headers, signal, cache: "no-store" });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, "the server does not answer");
  }
  if (!response.ok) throw await refusal(response);
  return response;
}

async function refusal(response) {
  try {
    return refused(response.status, await response.json());
  } catch {
    return new ApiError(response.status, `the server answered ${response.status}`);
  }
}

function refused(status, body) {
  const details = body.details ?? [];
  const info = details.find((detail) => detail["@type"]?.endsWith("google.rpc.ErrorInfo"));
  return new ApiError(status, body.message, info?.reason);
}

/**
 * Listen for the newest answers until `signal` aborts; connect again whenever the connection ends.
 *
 * `heard` gets each answer; `state` gets "live", or "lost" with an ApiError. An answer that refuses
 * (a token, a name) ends it with "refused".
 */
export async function watch(path, parameters, { heard, state, signal }) {
  let pause = FIRST_PAUSE_MS;
  while (!signal.aborted) {
    try {
      const response = await opened(path, parameters, signal, "text/event-stream");
      for await (const event of events(response, signal)) {
        pause = FIRST_PAUSE_MS;
        if (event.kind === "error") throw ended(JSON.parse(event.data));
        heard(JSON.parse(event.data));
        state("live");
      }
      throw new ApiError(0, "the connection ended");
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      if (!error.isAway) {
        state("refused", error);
        return;
      }
      state("lost", error);
    }
    await waited(pause * (0.75 + Math.random() / 2), signal);
    pause = Math.min(2 * pause, LONGEST_PAUSE_MS);
  }
}

const STATUS = { 5: 404, 7: 403, 14: 503, 16: 401 };

function ended(status) {
  return refused(STATUS[status.code] ?? 400, status);
}

/** Yield the events of a response; a silent connection is dead. */
async function* events(response, signal) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    while (true) {
      const { done, value } = await spoken(reader, signal);
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

async function spoken(reader, signal) {
  let timer;
  const silence = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new ApiError(0, "the server fell silent")), SILENCE_MS);
  });
  try {
    return await Promise.race([reader.read(), silence]);
  } catch (error) {
    if (error instanceof ApiError || signal.aborted) throw error;
    throw new ApiError(0, "the connection broke");
  } finally {
    clearTimeout(timer);
  }
}

function waited(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}

/** Return what calls `draw` with the newest of what it is given, at most five times a second. */
export function paced(draw, signal) {
  let newest;
  let timer = null;
  let drawnMs = -Infinity;
  signal.addEventListener("abort", () => clearTimeout(timer), { once: true });
  return (value) => {
    newest = value; // events that came together while the page was busy are one
    timer ??= setTimeout(() => {
      timer = null;
      drawnMs = performance.now();
      draw(newest);
    }, Math.max(0, drawnMs + DRAW_GAP_MS - performance.now()));
  };
}

/**
 * Load something again and again: at most once per `gap`, never twice at a time, the latest only.
 * `failed` gets an ApiError. Call `ask` whenever what was loaded may be old.
 */
export class Refresher {
  constructor(load, gapMs, signal, failed) {
    Object.assign(this, { load, gapMs, signal, failed, running: false, wanted: false });
  }

  ask() {
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
      }
      await waited(this.gapMs, this.signal);
    }
    this.running = false;
  }
}

/** A metric of a snapshot by its name. */
export const metric = (snapshot, name) => snapshot.metrics.find((each) => each.name === name);
