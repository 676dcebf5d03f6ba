// The present state: the snapshot, then server-sent events. Reconnects by itself, and knows when what it has is old.
import { signal } from "@preact/signals";
import { type Change, Fleet } from "./fleet";

export interface SourceState {
  ok: boolean;
  since: number;
  why: string;
}

/** The machine map. The object stays the same over changes; `version` counts them. */
export const fleet = signal<Fleet | null>(null);
export const version = signal(0);
export const sources = signal<Record<string, SourceState>>({});
/** Unix seconds since which the console has not answered; 0 while it does. */
export const lostSince = signal(0);
export const title = signal("");

const SILENCE_MS = 16_000; // three beats
const RECONNECT_MS = 4000; // that a browser may take to connect again before it is said
let stream: EventSource | null = null;
let heardMs = Date.now();
let again: number | undefined;
let tag = "";

async function load(): Promise<void> {
  const answer = await fetch("/api/machines", { headers: tag ? { "If-None-Match": tag } : {}, cache: "no-store" });
  if (answer.status === 401) {
    location.assign("/login");
    return;
  }
  if (answer.status === 304) return;
  if (!answer.ok) throw new Error(String(answer.status));
  fleet.value = Fleet.read(await answer.arrayBuffer());
  tag = answer.headers.get("ETag") ?? "";
  version.value++;
}

function heard(): void {
  heardMs = Date.now();
  lostSince.value = 0;
}

function lost(): void {
  if (!lostSince.value) lostSince.value = heardMs / 1000;
}

function later(): void {
  clearTimeout(again);
  again = setTimeout(() => void start(), 2000 + Math.random() * 2000);
}

/** Load, then follow; called again after each failure. */
export async function start(): Promise<void> {
  stream?.close();
  stream = null;
  try {
    await load();
  } catch {
    lost();
    later();
    return;
  }
  const at = fleet.value;
  const events = new EventSource(`/api/events${at ? `?since=${at.epoch}-${at.seq}` : ""}`);
  stream = events;
  heard();
  events.addEventListener("change", (event) => {
    heard();
    const now = fleet.value;
    if (now && now.apply(JSON.parse((event as MessageEvent<string>).data) as Change)) version.value++;
    else void start();
  });
  events.addEventListener("reload", () => void start());
  events.addEventListener("sources", (event) => {
    heard();
    sources.value = JSON.parse((event as MessageEvent<string>).data) as Record<string, SourceState>;
  });
  events.addEventListener("beat", heard);
  events.addEventListener("open", heard);
  events.addEventListener("error", () => {
    if (stream !== events) return;
    if (events.readyState === EventSource.CLOSED) {
      lost();
      later();
      return;
    }
    setTimeout(() => {
      if (stream === events && events.readyState !== EventSource.OPEN) lost();
    }, RECONNECT_MS);
  });
}

setInterval(() => {
  if (Date.now() - heardMs > SILENCE_MS) {
    lost();
    if (stream) later();
    stream?.close();
    stream = null;
  }
}, 2000);
