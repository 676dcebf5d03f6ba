// Values with their intervals, a row each on one scale; each number stands beside its row. The console's lab and the static pages draw with it.
import type { ComponentChildren } from "preact";
import { type Axis, place, ticks } from "./axis";

export interface Reading {
  value: number | null;
  low: number | null; // of the interval; null = none is known
  high: number | null;
  shown: ComponentChildren;
  colour?: string; // CSS
}

export interface IntervalRow {
  name: string;
  isOurs: boolean;
  isPale?: boolean;
  readings: readonly Reading[];
}

export function Intervals({ rows, axis, limit, isTicked = false }: { rows: readonly IntervalRow[]; axis: Axis; limit?: number | null; isTicked?: boolean }) {
  const at = (value: number): number => 100 * Math.max(0, Math.min(1, place(axis, value)));
  return (
    <div class="intervals">
      {rows.map((row) => row.readings.map(({ value, low, high, shown, colour }, k) => (
        <div class={`interval-row${row.isOurs ? " ours" : ""}${row.isPale ? " pale" : ""}`} key={`${row.name} ${k}`} style={colour ? { "--series": colour } : undefined}>
          {k ? <span /> : <span class="shift-name">{row.name}</span>}
          <span class="shift-track" aria-hidden="true">
            {limit !== undefined && limit !== null && <i class="limit" style={{ left: `${at(limit)}%` }} />}
            {low !== null && high !== null && <i class="whisker" style={{ left: `${at(low)}%`, width: `${at(high) - at(low)}%`, borderWidth: `0 ${high > axis.high ? 0 : 2}px 0 ${low < axis.low ? 0 : 2}px` }} />}
            {value !== null && <b style={{ left: `${at(value)}%` }} />}
          </span>
          <span class="number">{shown}</span>
        </div>
      )))}
      {isTicked && <div class="interval-row soft" aria-hidden="true"><span>{axis.title}</span><span class="shift-track ticks">{ticks(axis, 300, 40).map(([value, text]) => <span key={text} style={{ left: `${at(value)}%` }}>{text}{axis.unit}</span>)}</span><span /></div>}
    </div>
  );
}
