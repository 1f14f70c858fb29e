// What a user of the description writes: types tell which parameters the server demands.
import createClient from "openapi-fetch";
import type { paths } from "./api.js";

const client = createClient<paths>({ baseUrl: process.argv[2] });
const path = { name: process.argv[3] };

async function main() {
  const curve = await client.GET("/v1/streams/{name}:curve", {
    params: { path, query: { kind: "CURVE_KIND_HULL" } },
  });
  const decision = await client.GET("/v1/streams/{name}:decision", { params: { path, query: { threshold: 0.5 } } });
  const made = await client.POST("/v1/streams/{name}:marks", { params: { path }, body: { text: "from TypeScript" } });
  const marks = await client.GET("/v1/streams/{name}:marks", { params: { path } });
  const gone = await client.DELETE("/v1/streams/{name}:marks", {
    params: { path, query: { number: made.data!.mark!.number! } },
  });
  const none = await client.GET("/v1/streams/{name}", { params: { path: { name: "none" } } });
  console.log(JSON.stringify({
    positives: curve.data?.numPositiveRef,
    thresholds: curve.data?.curve?.thresholds?.length,
    metrics: decision.data?.metrics?.map(({ name }) => name),
    marks: marks.data?.marks?.map(({ text }) => text),
    gone: gone.response.status,
    none: [none.response.status, none.error?.message],
  }));
}

export async function refused() {
  // @ts-expect-error: the server demands `kind`
  await client.GET("/v1/streams/{name}:curve", { params: { path } });
  // @ts-expect-error: the server demands `step` and the span
  await client.GET("/v1/streams/{name}:windows", { params: { path, query: { step: "60s" } } });
  // @ts-expect-error: the server demands the pair's name
  await client.GET("/v1/pairs/{name}", { params: {} });
  // @ts-expect-error: the server demands `text`
  await client.POST("/v1/streams/{name}:marks", { params: { path }, body: {} });
}

main();
