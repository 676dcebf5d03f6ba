// The console's event stream, for one page or for all of a browser's (worker.ts). A browser opens six connections to a host, so six pages with a stream each would leave none for questions.
/** What is said to a page: an event of the server with its data, or `lost` (the browser tries again), `closed` (it does not). `from`: the position that a change starts at. */
export type Said = [kind: "change" | "reload" | "sources" | "hosts" | "beat" | "open" | "lost" | "closed", data: string, from: string];
export type Say = (said: Said) => void;

const SILENCE_MS = 16_000; // three beats
const PASSED_ON = ["change", "reload", "sources", "hosts", "beat", "open"] as const;

export class Stream {
  private events: EventSource | null = null;
  private at = ""; // EPOCH-SEQ of the last change, or where the stream began
  private sources = "";
  private hosts = "";
  private heardMs = 0;

  /** `say`: to every page that has joined. */
  constructor(private readonly say: Say) {}

  /** A page with a snapshot of `since` wants what comes from now on; `answer` is heard by it alone. */
  join(since: string, answer: Say): void {
    const isFollowing = this.events && this.events.readyState !== EventSource.CLOSED && Date.now() - this.heardMs < SILENCE_MS;
    if (!isFollowing) this.open(since);
    else {
      // A page whose snapshot is older than this stream has to load another; an empty change says where the stream is.
      answer(["change", "", this.at]);
      if (this.sources) answer(["sources", this.sources, ""]);
      if (this.hosts) answer(["hosts", this.hosts, ""]);
    }
  }

  close(): void {
    this.events?.close();
    this.events = null;
  }

  private open(since: string): void {
    this.close();
    this.at = since;
    this.sources = this.hosts = "";
    this.heardMs = Date.now();
    const events = (this.events = new EventSource(`/api/events?since=${since}`));
    for (const kind of PASSED_ON)
      events.addEventListener(kind, (event) => {
        if (this.events !== events) return;
        this.heardMs = Date.now();
        const { data = "", lastEventId } = event as MessageEvent<string>;
        if (kind === "sources") this.sources = data;
        if (kind === "hosts") this.hosts = data;
        this.say([kind, data, this.at]);
        if (kind === "change") this.at = lastEventId;
        if (kind === "reload") this.at = ""; // whatever is loaded after this is new enough
      });
    events.addEventListener("error", () => {
      if (this.events === events) this.say([events.readyState === EventSource.CLOSED ? "closed" : "lost", "", ""]);
    });
  }
}
