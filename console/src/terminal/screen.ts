// The screen of a terminal: what a command writes (ECMA-48 as xterm speaks it, the part that shells, editors and pagers use) becomes rows of cells. No DOM, no clock. Left out: character sets, insert mode, tabs that are set, mouse.

export const BOLD = 1, DIM = 2, ITALIC = 4, UNDERLINE = 8, INVERSE = 16, STRIKE = 32;

/** How a cell looks. Colours: 0 to 255 of the palette, -1 the usual one, above 255 0x1000000 + RGB. */
export interface Look {
  fore: number;
  back: number;
  flags: number;
}

export interface Cell {
  /** Empty: the right half of a wide character. */
  text: string;
  look: Look;
}

const PLAIN: Look = { fore: -1, back: -1, flags: 0 };
const KEPT = 1000;
const MAX_PARAMETERS = 32;
const MAX_COMMAND = 256; // of a string that is skipped
const WIDE = [[0x1100, 0x115f], [0x2e80, 0xa4cf], [0xac00, 0xd7a3], [0xf900, 0xfaff], [0xfe30, 0xfe6f], [0xff00, 0xff60], [0xffe0, 0xffe6], [0x1f300, 0x1f64f], [0x1f900, 0x1f9ff], [0x20000, 0x3fffd]] as const;

type Row = Cell[];

export class Screen {
  rows: Row[];
  /** Rows that went out at the top, oldest first. */
  past: Row[] = [];
  x = 0;
  y = 0;
  isCursorShown = true;
  /** Arrow keys send SS3 instead of CSI. */
  hasApplicationKeys = false;
  /** What is pasted is put between marks. */
  marksPaste = false;
  /** Rows that were drawn otherwise before. */
  changed = new Set<number>();
  /** Whether `past` has changed. */
  moved = true;
  private look: Look = PLAIN;
  private top = 0;
  private bottom: number;
  private wraps = true;
  private isAtMargin = false; // the next character goes to the next row
  private saved = { x: 0, y: 0, look: PLAIN };
  private main: Row[] | null = null; // while the other screen is shown
  private rest = ""; // of a sequence that is not complete

  constructor(public columns: number, public height: number, private readonly answer: (text: string) => void) {
    this.rows = Array.from({ length: height }, () => this.blank());
    this.bottom = height - 1;
    this.touch(0, height - 1);
  }

  resize(columns: number, height: number): void {
    const fit = (rows: Row[]): Row[] => {
      for (const row of rows) {
        while (row.length < columns) row.push({ text: " ", look: PLAIN });
        row.length = columns;
      }
      while (rows.length > height && rows === this.rows && this.y >= height) {
        this.keep(rows.shift()!);
        this.y--;
      }
      rows.length = Math.min(rows.length, height);
      while (rows.length < height) rows.push(this.blank(columns));
      return rows;
    };
    this.rows = fit(this.rows);
    if (this.main) this.main = fit(this.main);
    [this.columns, this.height, this.top, this.bottom] = [columns, height, 0, height - 1];
    this.at(this.x, this.y);
    this.touch(0, height - 1);
  }

  write(given: string): void {
    const text = this.rest + given;
    this.rest = "";
    let k = 0;
    while (k < text.length) {
      const code = text.charCodeAt(k);
      if (code === 0x1b) {
        const length = this.sequence(text, k);
        if (!length) {
          this.rest = text.slice(k);
          return;
        }
        k += length;
      } else if (code < 0x20 || code === 0x7f) {
        this.control(code);
        k++;
      } else {
        const point = text.codePointAt(k)!;
        const one = String.fromCodePoint(point);
        if (point > 0x7f && k + one.length === text.length && code >= 0xd800 && code < 0xdc00 && one.length === 1) {
          this.rest = one; // half of a pair
          return;
        }
        this.put(one, point);
        k += one.length;
      }
    }
  }

  private put(text: string, point: number): void {
    if (point >= 0x300 && /^\p{M}|\u200d|[\ufe00-\ufe0f]$/u.test(text)) {
      const before = this.rows[this.y]![Math.max(0, this.isAtMargin ? this.x : this.x - 1)]!;
      if (before.text.length < 16) before.text += text;
      this.touch(this.y);
      return;
    }
    const isWide = point >= 0x1100 && this.columns > 1 && WIDE.some(([low, high]) => point >= low && point <= high);
    if (this.isAtMargin || (isWide && this.x === this.columns - 1 && this.wraps)) {
      this.x = 0;
      this.feed();
    }
    const row = this.rows[this.y]!;
    const x = Math.min(this.x, this.columns - (isWide ? 2 : 1));
    if (row[x]!.text === "" && x > 0) row[x - 1] = { text: " ", look: row[x - 1]!.look };
    row[x] = { text, look: this.look };
    if (isWide) row[x + 1] = { text: "", look: this.look };
    const next = x + (isWide ? 2 : 1);
    if (row[next]?.text === "") row[next] = { text: " ", look: row[next]!.look };
    this.touch(this.y);
    this.isAtMargin = next >= this.columns && this.wraps;
    this.x = Math.min(next, this.columns - 1);
  }

  private control(code: number): void {
    if (code === 8) this.at(this.x - 1, this.y);
    else if (code === 9) this.at((this.x & ~7) + 8, this.y);
    else if (code >= 10 && code <= 12) this.feed();
    else if (code === 13) this.at(0, this.y);
  }

  /** Characters of the sequence at `k`; 0: it is not complete. */
  private sequence(text: string, k: number): number {
    const kind = text[k + 1];
    if (kind === undefined) return 0;
    if (kind < " ") return 1; // a key that was echoed; the control after it counts
    if (kind === "[") {
      let end = k + 2;
      while (end < text.length && text.charCodeAt(end) >= 0x20 && text.charCodeAt(end) < 0x40) end++;
      if (end >= text.length) return end - k > MAX_COMMAND ? end - k : 0;
      this.command(text.slice(k + 2, end), text[end]!);
      return end + 1 - k;
    }
    if ("]PX^_".includes(kind)) {
      const found = /\x07|\x1b\\/.exec(text.slice(k + 2));
      if (found) return 2 + found.index + found[0].length;
      return text.length - k > MAX_COMMAND ? text.length - k : 0;
    }
    if ("()*+#%".includes(kind)) return text.length > k + 2 ? 3 : 0;
    if (kind === "7") this.save();
    else if (kind === "8") this.restore();
    else if (kind === "D") this.feed();
    else if (kind === "E") {
      this.at(0, this.y);
      this.feed();
    } else if (kind === "M") this.back();
    else if (kind === "c") this.reset();
    return 2;
  }

  private command(inside: string, final: string): void {
    const mark = /^[<-?]/.exec(inside)?.[0] ?? "";
    const given = inside.slice(mark.length).replace(/[ -/]+$/, "").split(/[;:]/, MAX_PARAMETERS).map((part) => Number(part) || 0);
    const first = given[0] ?? 0;
    const n = Math.min(Math.max(1, first), 10_000);
    if (mark === "?") {
      if (final === "h" || final === "l") for (const mode of given) this.mode(mode, final === "h");
      return;
    }
    if (mark || inside !== inside.replace(/[ -/]+$/, "")) return;
    const { x, y } = this;
    switch (final) {
      case "A": this.at(x, Math.max(y - n, y >= this.top ? this.top : 0)); break;
      case "B": case "e": this.at(x, Math.min(y + n, y <= this.bottom ? this.bottom : this.height - 1)); break;
      case "C": case "a": this.at(x + n, y); break;
      case "D": this.at(x - n, y); break;
      case "E": this.at(0, y + n); break;
      case "F": this.at(0, y - n); break;
      case "G": case "`": this.at(n - 1, y); break;
      case "d": this.at(x, n - 1); break;
      case "H": case "f": this.at(Math.max(1, given[1] ?? 1) - 1, n - 1); break;
      case "J":
        if (first === 0) this.erase(y, x, this.columns), this.clear(y + 1, this.height);
        else if (first === 1) this.clear(0, y), this.erase(y, 0, x + 1);
        else if (first === 2) this.clear(0, this.height);
        else if (first === 3) (this.past = []), (this.moved = true);
        break;
      case "K": this.erase(y, first ? 0 : x, first === 1 ? x + 1 : this.columns); break;
      case "X": this.erase(y, x, x + n); break;
      case "P": this.shift(x, n, 0); break;
      case "@": this.shift(x, 0, n); break;
      case "L": if (y >= this.top && y <= this.bottom) this.scroll(y, this.bottom, -n); break;
      case "M": if (y >= this.top && y <= this.bottom) this.scroll(y, this.bottom, n); break;
      case "S": this.scroll(this.top, this.bottom, n); break;
      case "T": this.scroll(this.top, this.bottom, -n); break;
      case "r": {
        const low = n - 1, high = Math.min(given[1] || this.height, this.height) - 1;
        if (low < high) [this.top, this.bottom] = [low, high];
        this.at(0, 0);
        break;
      }
      case "s": this.save(); break;
      case "u": this.restore(); break;
      case "m": this.paint(given); break;
      case "n":
        if (first === 5) this.answer("\x1b[0n");
        else if (first === 6) this.answer(`\x1b[${y + 1};${x + 1}R`);
        break;
      case "c": if (!first) this.answer("\x1b[?1;2c"); break;
    }
  }

  private mode(mode: number, on: boolean): void {
    if (mode === 1) this.hasApplicationKeys = on;
    else if (mode === 7) this.wraps = on;
    else if (mode === 25) {
      this.isCursorShown = on;
      this.touch(this.y);
    } else if (mode === 2004) this.marksPaste = on;
    else if (mode === 47 || mode === 1047 || mode === 1049) {
      if (on === !!this.main) return;
      if (on) {
        if (mode === 1049) this.save();
        this.main = this.rows;
        this.rows = Array.from({ length: this.height }, () => this.blank());
      } else {
        this.rows = this.main!;
        this.main = null;
        if (mode === 1049) this.restore();
      }
      [this.top, this.bottom] = [0, this.height - 1];
      this.touch(0, this.height - 1);
    }
  }

  private paint(given: number[]): void {
    const look = { ...this.look };
    for (let k = 0; k < given.length; k++) {
      const code = given[k]!;
      if (code === 0) Object.assign(look, PLAIN);
      else if (code === 1) look.flags |= BOLD;
      else if (code === 2) look.flags |= DIM;
      else if (code === 3) look.flags |= ITALIC;
      else if (code === 4) look.flags |= UNDERLINE;
      else if (code === 7) look.flags |= INVERSE;
      else if (code === 9) look.flags |= STRIKE;
      else if (code === 22) look.flags &= ~(BOLD | DIM);
      else if (code === 23) look.flags &= ~ITALIC;
      else if (code === 24) look.flags &= ~UNDERLINE;
      else if (code === 27) look.flags &= ~INVERSE;
      else if (code === 29) look.flags &= ~STRIKE;
      else if (code >= 30 && code <= 37) look.fore = code - 30;
      else if (code >= 40 && code <= 47) look.back = code - 40;
      else if (code >= 90 && code <= 97) look.fore = code - 82;
      else if (code >= 100 && code <= 107) look.back = code - 92;
      else if (code === 39) look.fore = -1;
      else if (code === 49) look.back = -1;
      else if (code === 38 || code === 48) {
        const rgb = given[k + 1] === 2;
        const [r = 0, g = 0, b = 0] = given.slice(k + 2, k + 5).map((part) => part & 255);
        const colour = rgb ? 0x1000000 + (r << 16) + (g << 8) + b : (given[k + 2] ?? 0) & 255;
        if (code === 38) look.fore = colour;
        else look.back = colour;
        k += rgb ? 4 : 2;
      }
    }
    this.look = look;
  }

  private at(x: number, y: number): void {
    this.touch(this.y);
    this.x = Math.min(Math.max(0, x), this.columns - 1);
    this.y = Math.min(Math.max(0, y), this.height - 1);
    this.isAtMargin = false;
    this.touch(this.y);
  }

  private feed(): void {
    if (this.y === this.bottom) this.scroll(this.top, this.bottom, 1);
    else this.at(this.x, this.y + 1);
    this.isAtMargin = false;
  }

  private back(): void {
    if (this.y === this.top) this.scroll(this.top, this.bottom, -1);
    else this.at(this.x, this.y - 1);
  }

  /** Rows go up by `n`, or down. */
  private scroll(from: number, till: number, n: number): void {
    for (let k = Math.min(Math.abs(n), till - from + 1); k > 0; k--) {
      if (n > 0) {
        const [gone] = this.rows.splice(from, 1);
        this.rows.splice(till, 0, this.blank());
        if (from === 0 && !this.main) this.keep(gone!);
      } else {
        this.rows.splice(till, 1);
        this.rows.splice(from, 0, this.blank());
      }
    }
    this.touch(from, till);
  }

  private keep(row: Row): void {
    this.past.push(row);
    if (this.past.length > KEPT) this.past.shift();
    this.moved = true;
  }

  private erase(y: number, from: number, till: number): void {
    const row = this.rows[y];
    if (!row) return;
    for (let x = from; x < Math.min(till, this.columns); x++) row[x] = { text: " ", look: { ...PLAIN, back: this.look.back } };
    this.isAtMargin = false;
    this.touch(y);
  }

  private clear(from: number, till: number): void {
    for (let y = from; y < till; y++) this.erase(y, 0, this.columns);
  }

  /** Take out cells at `x`, or put in blank ones. */
  private shift(x: number, out: number, into: number): void {
    const row = this.rows[this.y]!;
    row.splice(x, Math.min(out, this.columns), ...this.blank(Math.min(into, this.columns)));
    while (row.length < this.columns) row.push({ text: " ", look: PLAIN });
    row.length = this.columns;
    this.touch(this.y);
  }

  private save(): void {
    this.saved = { x: this.x, y: this.y, look: this.look };
  }

  private restore(): void {
    this.look = this.saved.look;
    this.at(this.saved.x, this.saved.y);
  }

  private reset(): void {
    this.look = PLAIN;
    [this.top, this.bottom, this.wraps, this.isCursorShown, this.hasApplicationKeys, this.marksPaste] = [0, this.height - 1, true, true, false, false];
    if (this.main) (this.rows = this.main), (this.main = null);
    this.clear(0, this.height);
    this.at(0, 0);
  }

  private blank(columns = this.columns): Row {
    return Array.from({ length: columns }, () => ({ text: " ", look: PLAIN }));
  }

  private touch(from: number, till = from): void {
    for (let y = from; y <= till; y++) this.changed.add(y);
  }
}
