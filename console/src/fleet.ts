// The machine map's data: read from the binary snapshot without a copy, then changed row by row. The layout is in services/console/encoding.py.

export const UNKNOWN = 0xffffffff;
export const UNMEASURED = 0xffff;
export const COLUMNS = 9;
export const CELL = 6;
export const NOT_READY = 1 << 16;
export const CORDONED = 1 << 17;
export const enum Column {
  Cpu,
  CpuRequested,
  CpuUsed,
  Lent,
  LentRequested,
  Memory,
  MemoryRequested,
  MemoryUsed,
  State,
}

export interface Totals {
  nodes: number;
  pods: number;
  pending: number;
  cpu_m: number;
  requested_m: number;
  used_m: number | null;
  lent_m: number;
  lent_requested_m: number;
  memory_mib: number;
  memory_requested_mib: number;
  memory_used_mib: number | null;
  burning: number;
  unmeasured: number;
}

export interface Label {
  values: string[];
  of: number[];
}

interface Head {
  epoch: number;
  seq: number;
  at: number;
  nodes: string[];
  tenants: string[];
  labels: Record<string, Label>;
  totals: Totals;
}

export interface Change {
  epoch: number;
  seq: number;
  at: number;
  rows: number[][];
  totals: Totals;
  tenants?: [number, string[]];
}

export class Fleet {
  constructor(
    readonly epoch: number,
    public seq: number,
    public at: number,
    readonly nodes: string[],
    readonly tenants: string[],
    readonly labels: Record<string, Label>,
    public totals: Totals,
    readonly columns: Uint32Array,
    readonly cells: Uint16Array[],
  ) {}

  static read(buffer: ArrayBuffer): Fleet {
    const view = new DataView(buffer);
    if (view.getUint32(0, true) !== 0x314d5443) throw new Error("not a snapshot of this version");
    const length = view.getUint32(4, true);
    const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length))) as Head;
    const n = head.nodes.length;
    let at = 8 + length;
    const columns = new Uint32Array(buffer, at, n * COLUMNS);
    at += 4 * n * COLUMNS;
    const offsets = new Uint32Array(buffer, at, n + 1);
    at += 4 * (n + 1);
    const all = new Uint16Array(buffer, at, (offsets[n] ?? 0) * CELL);
    const cells = head.nodes.map((_, i) => all.subarray(offsets[i]! * CELL, offsets[i + 1]! * CELL));
    return new Fleet(head.epoch, head.seq, head.at, head.nodes, head.tenants, head.labels, head.totals, columns, cells);
  }

  /** Whether the change fits; where it does not, a snapshot must be loaded. */
  apply(change: Change): boolean {
    if (change.epoch !== this.epoch) return false;
    if (change.seq <= this.seq) return true;
    if (change.tenants) this.tenants.splice(change.tenants[0], this.tenants.length, ...change.tenants[1]);
    for (const row of change.rows) {
      const i = row[0]!;
      for (let c = 0; c < COLUMNS; c++) this.columns[i * COLUMNS + c] = row[1 + c]!;
      this.cells[i] = Uint16Array.from(row.slice(1 + COLUMNS));
    }
    this.seq = change.seq;
    this.at = change.at;
    this.totals = change.totals;
    return true;
  }

  get(i: number, column: Column): number {
    return this.columns[i * COLUMNS + column]!;
  }

  /** The share of the machine's services that miss their objective, 0 to 1. */
  burning(i: number): number {
    return (this.get(i, Column.State) & 0xffff) / 1000;
  }
}
