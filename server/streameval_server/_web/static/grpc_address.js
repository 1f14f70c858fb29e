// The server's address for clients and commands: what the texts to copy name.

import { ApiError, get } from "./api.js";

const DEFAULT_PORT = 50051;
let port = null;

/** host:port of the server's gRPC; with the default port where the token does not cover the server's status. */
export async function grpcAddress() {
  port ??= await readPort();
  return `${location.hostname}:${port ?? DEFAULT_PORT}`;
}

async function readPort() {
  try {
    return portOf((await get("v1/server")).grpcAddress);
  } catch (error) {
    if (error instanceof ApiError) return null;
    throw error;
  }
}

/** The port of a listening address; null for none. */
function portOf(address) {
  return address?.match(/:(\d+)$/)?.[1] ?? null;
}
