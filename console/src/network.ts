// Questions to the console's server.
import { Failure } from "./ask";
import { named } from "./words";

/** Send JSON, which only this page can. */
export function post<T>(path: string, body: unknown): Promise<T> {
  return asked(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) }) as Promise<T>;
}

export function overNetwork(path: string, signal?: AbortSignal): Promise<unknown> {
  return asked(path, { signal: signal ?? null });
}

async function asked(path: string, request: RequestInit): Promise<unknown> {
  const answer = await fetch(path, request);
  if (answer.status === 401) location.assign(`/login${location.hash}`);
  const text = await answer.text();
  if (answer.ok) return JSON.parse(text) as unknown;
  let why = text;
  try {
    const said = JSON.parse(text) as { error: string; source?: string };
    why = said.error;
    if (answer.status >= 502 && said.source && said.source !== "console") why = `${named("process", said.source)}: ${why}`;
  } catch {
    // a proxy's page
  }
  throw new Failure(why.slice(0, 600) || String(answer.status), answer.status);
}
