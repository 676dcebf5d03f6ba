// The present state: the snapshot, then server-sent events. Reconnects by itself, and knows when what it has is old.
// The events come through a worker that all pages of the browser share. Where there is none, a page that cannot be seen gives its stream up.
import { signal } from "@preact/signals";
import { type Change, Fleet } from "./fleet";
import { type Said, Stream } from "./stream";

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
/** Counts what the console has learnt of the fleet's hosts; pages that show them ask again when it changes. */
export const hostsVersion = signal("");
export const title = signal("");

const SILENCE_MS = 16_000; // three beats
const RECONNECT_MS = 4000; // that a browser may take to connect again before it is said
let heardMs = Date.now();
let again: number | undefined;
let tag = "";
let isJoined = false; // else what the stream says is about a state that is not loaded yet
let shared: MessagePort | null = null;
let own: Stream | null = null;

async function load(): Promise<void> {
  const answer = await fetch("/api/machines", { headers: tag ? { "If-None-Match": tag } : {}, cache: "no-store" });
  if (answer.status === 401) {
    location.assign(`/login${location.hash}`);
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

function leave(): void {
  isJoined = false;
  shared?.postMessage(null);
  own?.close();
}

/** Load, then follow; called again after each failure. */
async function start(): Promise<void> {
  isJoined = false;
  clearTimeout(again);
  try {
    await load();
  } catch {
    lost();
    later();
    return;
  }
  const at = fleet.value;
  if (!at) return; // on the way to the log-in
  heard();
  isJoined = true;
  const since = `${at.epoch}-${at.seq}`;
  if (shared) shared.postMessage(since);
  else own?.join(since, take);
}

function take([kind, data, from]: Said): void {
  if (!isJoined) return;
  if (kind === "closed") {
    lost();
    later();
  } else if (kind === "lost") {
    const saidMs = Date.now();
    setTimeout(() => {
      if (heardMs < saidMs) lost();
    }, RECONNECT_MS);
  } else if (kind === "reload") void start();
  else {
    heard();
    if (kind === "sources") sources.value = JSON.parse(data) as Record<string, SourceState>;
    if (kind === "hosts") hostsVersion.value = data;
    if (kind === "change") changed(data, from);
  }
}

/** A change says what is different since `from`, so it fits every state that is not older. */
function changed(data: string, from: string): void {
  const now = fleet.value;
  const [epoch, seq] = from.split("-").map(Number);
  const isOlder = !now || (from !== "" && (epoch !== now.epoch || seq! > now.seq));
  if (isOlder || (data && !now.apply(JSON.parse(data) as Change))) void start();
  else if (data) version.value++;
}

function share(): void {
  try {
    const worker = new SharedWorker(new URL("./worker.ts", import.meta.url), { type: "module" });
    worker.onerror = () => {
      if (own) return;
      shared = null;
      follow();
    };
    worker.port.onmessage = ({ data }: MessageEvent<Said>) => take(data);
    shared = worker.port;
  } catch {
    // a browser without it, or one that does not allow it
  }
}

/** A stream of this page's own, while the page can be seen. */
function follow(): void {
  own = new Stream(take);
  document.addEventListener("visibilitychange", () => (document.hidden ? leave() : void start()));
  if (!document.hidden) void start();
}

/** Once, when the page has been drawn. */
export function begin(): void {
  share();
  if (shared) void start();
  else follow();
  addEventListener("pagehide", leave);
  addEventListener("pageshow", (event) => event.persisted && void start());
  setInterval(() => {
    if (!isJoined || Date.now() - heardMs <= SILENCE_MS) return;
    lost();
    leave();
    later();
  }, 2000);
}
