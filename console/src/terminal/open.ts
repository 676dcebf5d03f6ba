// A terminal in the page: keys to the console, output from it, the screen as rows of text. Plain DOM and no imports of the page's, so that it is a file of its own which is loaded when a terminal is opened. Text nodes only.
import { BOLD, DIM, ITALIC, STRIKE, UNDERLINE, INVERSE, Screen, type Cell, type Look } from "./screen";

/** Texts of the page's language. */
export interface Words {
  keys: string;
  screen: string;
  again: string;
  ended: (why: string, code: number | null) => string;
}

const ARROWS: Record<string, string> = { ArrowUp: "A", ArrowDown: "B", ArrowRight: "C", ArrowLeft: "D", Home: "H", End: "F" };
const OTHERS: Record<string, string> = { Enter: "\r", Backspace: "\x7f", Tab: "\t", Escape: "\x1b", Delete: "\x1b[3~", Insert: "\x1b[2~", PageUp: "\x1b[5~", PageDown: "\x1b[6~", F1: "\x1bOP", F2: "\x1bOQ", F3: "\x1bOR", F4: "\x1bOS", F5: "\x1b[15~", F6: "\x1b[17~", F7: "\x1b[18~", F8: "\x1b[19~", F9: "\x1b[20~", F10: "\x1b[21~", F11: "\x1b[23~", F12: "\x1b[24~" };
const MAX_SIDE = 1000, MAX_TEXT = 8000;

/** What a key sends; null: it is the browser's, or comes as input. */
export function sent(event: KeyboardEvent, hasApplicationKeys: boolean): string | null {
  if (event.isComposing || event.metaKey) return null;
  const arrow = ARROWS[event.key];
  if (arrow) {
    const held = 1 + (event.shiftKey ? 1 : 0) + (event.altKey ? 2 : 0) + (event.ctrlKey ? 4 : 0);
    if (held > 1) return `\x1b[1;${held}${arrow}`;
    return `\x1b${hasApplicationKeys ? "O" : "["}${arrow}`;
  }
  if (event.key === "Tab" && event.shiftKey) return null; // the way out
  const other = OTHERS[event.key];
  if (other) return event.altKey ? `\x1b${other}` : other;
  if (event.key.length !== 1) return null;
  if (event.ctrlKey && !event.altKey) {
    if (event.shiftKey && /^[CV]$/i.test(event.key)) return null; // copy, paste
    const code = event.key.toUpperCase().charCodeAt(0);
    if (event.key === " ") return "\0";
    return code >= 0x40 && code <= 0x5f ? String.fromCharCode(code - 0x40) : null;
  }
  return event.altKey && !event.ctrlKey ? `\x1b${event.key}` : null;
}

/** Open one in `box`, into the container of this guid or into a pod's (NAMESPACE/NAME); what is returned ends it. */
export function open(box: HTMLElement, guid: string, words: Words): () => void {
  const base = `/api/terminal/${encodeURIComponent(guid.replaceAll("/", "~"))}`;
  const rows = make("div", "screen");
  const keys = make("textarea", "typed");
  const note = make("p", "soft");
  for (const [name, value] of Object.entries({ "aria-label": words.keys, autocapitalize: "off", autocomplete: "off", autocorrect: "off", spellcheck: "false", rows: "1" })) keys.setAttribute(name, value);
  rows.setAttribute("role", "log");
  rows.setAttribute("aria-label", words.screen);
  rows.setAttribute("aria-live", "off");
  rows.tabIndex = 0;
  note.setAttribute("role", "status");
  const again = make("button", "");
  again.type = "button";
  again.textContent = words.again;
  again.hidden = true;
  box.replaceChildren(rows, keys, note, again);
  keys.focus();

  let screen = new Screen(80, 24, (text) => type(text));
  let lines: HTMLElement[] = [], pastShown = 0, session = "", waiting = "", isSending = false, isOver = false, isEnded = false, frame = 0;
  let stream: EventSource | null = null;
  let resized: { columns: number; rows: number } | null = null;
  let decoder = new TextDecoder();

  function type(text: string): void {
    if (isOver) return;
    waiting += text;
    void send();
  }

  async function send(): Promise<void> {
    if (isSending || !session) return;
    isSending = true;
    while ((waiting || resized) && !isOver) {
      let cut = Math.min(waiting.length, MAX_TEXT);
      if (cut < waiting.length && /[\ud800-\udbff]/.test(waiting[cut - 1]!)) cut--; // no half of a pair
      const text = waiting.slice(0, cut), size = resized;
      waiting = waiting.slice(cut);
      resized = null;
      try {
        await post(`${base}/${session}`, { text, ...size });
      } catch (error) {
        over(String((error as Error).message), null);
      }
    }
    isSending = false;
  }

  async function begin(): Promise<void> {
    await styled();
    if (isEnded) return;
    isOver = false;
    [waiting, session, resized, decoder, again.hidden, note.textContent] = ["", "", null, new TextDecoder(), true, ""];
    const size = (before = measured());
    screen = new Screen(size.columns, size.rows, (text) => type(text));
    [lines, pastShown] = [[], 0];
    rows.replaceChildren();
    draw();
    try {
      session = ((await post(base, size)) as { session: string }).session;
    } catch (error) {
      over(String((error as Error).message), null);
      return;
    }
    if (isEnded) return hangUp();
    stream = new EventSource(`${base}/${session}`);
    stream.addEventListener("page", (event) => {
      screen.write(decoder.decode(Uint8Array.from(atob((event as MessageEvent<string>).data), (c) => c.charCodeAt(0)), { stream: true }));
      draw();
    });
    stream.addEventListener("end", (event) => {
      const said = JSON.parse((event as MessageEvent<string>).data) as { why: string; exitCode: number | null };
      over(said.why, said.exitCode);
    });
    void send();
  }

  function over(why: string, code: number | null): void {
    if (isOver || isEnded) return;
    isOver = true;
    stream?.close();
    note.textContent = words.ended(why, code);
    again.hidden = false;
    draw();
  }

  function hangUp(): void {
    stream?.close();
    if (session && !isOver) void fetch(`${base}/${session}`, { method: "POST", keepalive: true, headers: { "content-type": "application/json" }, body: '{"ends":true}' }).catch(() => undefined);
    isOver = true;
  }

  function measured(): { columns: number; rows: number } {
    const probe = make("span", "probe");
    probe.textContent = "M".repeat(10);
    rows.append(probe);
    const one = probe.getBoundingClientRect();
    probe.remove();
    const fit = (whole: number, part: number, usual: number): number => (whole && part ? Math.min(MAX_SIDE, Math.max(2, Math.floor(whole / part))) : usual);
    return { columns: fit(rows.clientWidth - 12, one.width / 10, 80), rows: fit(rows.clientHeight - 8, one.height, 24) };
  }

  function draw(): void {
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      const isAtEnd = rows.scrollHeight - rows.scrollTop - rows.clientHeight < 24;
      if (screen.moved || lines.length !== pastShown + screen.height) {
        screen.moved = false;
        lines = [...screen.past, ...screen.rows].map(() => make("div", ""));
        pastShown = screen.past.length;
        rows.replaceChildren(...lines);
        screen.past.forEach((row, k) => fill(lines[k]!, row, -1));
        screen.rows.forEach((_, y) => screen.changed.add(y));
      }
      for (const y of screen.changed) {
        const row = screen.rows[y], line = lines[pastShown + y];
        if (row && line) fill(line, row, screen.isCursorShown && !isOver && y === screen.y ? screen.x : -1);
      }
      screen.changed.clear();
      if (isAtEnd) rows.scrollTop = rows.scrollHeight;
    });
  }

  keys.addEventListener("keydown", (event) => {
    event.stopPropagation(); // the page's own keys
    const text = sent(event, screen.hasApplicationKeys);
    if (text === null) return;
    event.preventDefault();
    rows.scrollTop = rows.scrollHeight;
    type(text);
  });
  const take = (): void => {
    type(keys.value.replace(/\n/g, "\r"));
    keys.value = "";
  };
  keys.addEventListener("input", (event) => (event as InputEvent).isComposing || take());
  keys.addEventListener("compositionend", take);
  keys.addEventListener("paste", (event) => {
    event.preventDefault();
    const text = (event.clipboardData?.getData("text") ?? "").replace(/\r?\n/g, "\r").replace(/\x1b/g, "");
    type(screen.marksPaste ? `\x1b[200~${text}\x1b[201~` : text);
  });
  rows.addEventListener("mouseup", () => getSelection()?.isCollapsed !== false && keys.focus());
  again.addEventListener("click", () => {
    keys.focus();
    void begin();
  });
  let before = { columns: 80, rows: 24 };
  const seen = new ResizeObserver(() => {
    if (!session || isOver) return;
    const now = measured();
    if (now.columns === before.columns && now.rows === before.rows) return;
    before = resized = now;
    screen.resize(now.columns, now.rows);
    draw();
    void send();
  });
  seen.observe(box);
  void begin();
  return () => {
    isEnded = true;
    seen.disconnect();
    cancelAnimationFrame(frame);
    hangUp();
  };
}

/** The terminal's own style is there. */
function styled(): Promise<void> {
  const href = "/assets/terminal.css";
  if (document.querySelector(`link[href="${href}"]`)) return Promise.resolve();
  return new Promise((done) => {
    const link = Object.assign(document.createElement("link"), { rel: "stylesheet", href, onload: () => done(), onerror: () => done() });
    document.head.append(link);
  });
}

async function post(path: string, body: unknown): Promise<unknown> {
  const answer = await fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  if (answer.status === 204) return null;
  const found = (await answer.json().catch(() => ({}))) as { error?: string };
  if (!answer.ok) throw new Error(found.error ?? `${answer.status}`);
  return found;
}

function make<K extends keyof HTMLElementTagNameMap>(name: K, style: string): HTMLElementTagNameMap[K] {
  const element = document.createElement(name);
  if (style) element.className = style;
  return element;
}

/** A row as runs of cells that look alike. */
function fill(line: HTMLElement, row: Cell[], cursor: number): void {
  const parts: HTMLElement[] = [];
  let end = row.length;
  while (end > 0 && end - 1 > cursor && row[end - 1]!.text === " " && row[end - 1]!.look.back < 0 && !row[end - 1]!.look.flags) end--;
  for (let x = 0; x < end; ) {
    const { look } = row[x]!;
    let text = row[x]!.text, k = x + 1;
    if (x !== cursor) while (k < end && k !== cursor && same(row[k]!.look, look)) text += row[k++]!.text;
    parts.push(run(text, look, x === cursor));
    x = k;
  }
  line.replaceChildren(...parts);
}

function run(text: string, look: Look, isCursor: boolean): HTMLElement {
  const names = [[BOLD, "bold"], [DIM, "dim"], [ITALIC, "italic"], [UNDERLINE, "under"], [STRIKE, "strike"], [INVERSE, "inverse"]] as const;
  const element = make("span", [...names.filter(([flag]) => look.flags & flag).map(([, name]) => name), ...(isCursor ? ["cursor"] : [])].join(" "));
  if (look.fore >= 0) element.style.setProperty("--fore", colour(look.fore));
  if (look.back >= 0) element.style.setProperty("--back", colour(look.back));
  element.textContent = text;
  return element;
}

function same(a: Look, b: Look): boolean {
  return a === b || (a.fore === b.fore && a.back === b.back && a.flags === b.flags);
}

/** The palette's first sixteen are the page's (style.css); then a cube of 6 and 24 greys. */
function colour(code: number): string {
  if (code >= 0x1000000) return `#${(code - 0x1000000).toString(16).padStart(6, "0")}`;
  if (code < 16) return `var(--t${code})`;
  if (code >= 232) return `rgb(${Array(3).fill(8 + 10 * (code - 232)).join()})`;
  const step = (k: number): number => (k ? 55 + 40 * k : 0);
  const n = code - 16;
  return `rgb(${step(Math.floor(n / 36))},${step(Math.floor(n / 6) % 6)},${step(n % 6)})`;
}
