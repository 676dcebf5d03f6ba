// What a static page carries: its figures (packages/cotenant/src/cotenant/model/pages/figures.py), the colours of its names, and the runs that its view of the lab shows (runs.py).
import type { Axis } from "../chart/axis";

export interface LineData {
  name: string;
  x: number[];
  y: (number | null)[];
  colour: string; // a name of colours.ts
  dash: string;
  width: number;
  opacity: number;
  half: number[]; // of the 95 % interval of each point; empty = none
  notes: string[];
  mark: string;
  size: number;
  is_filled: boolean;
  is_points: boolean;
  is_listed: boolean;
}

export interface ChartData {
  kind: "chart";
  x: Axis;
  y: Axis;
  lines: LineData[];
  spans: { low: number; high: number; words: string }[]; // of x, shaded
  limits: number[]; // of y
  height: number;
  is_united: boolean;
}

export interface IntervalsData {
  kind: "intervals";
  axis: Axis;
  rows: { name: string; is_ours: boolean; readings: { value: number; low: number | null; high: number | null; shown: string; colour: string }[] }[];
  limit: number | null;
  series: [name: string, colour: string][];
}

/** Machines of one moment, the fullest first. `shares`: thousandths of the machine's CPU, by machine and kind: services of each tenant, then batch of each. */
export interface TenantMapData {
  kind: "machines";
  tenants: string[];
  maps: { policy: string; machine: number[]; shares: number[] }[];
}

export type Drawing = ChartData | IntervalsData | TenantMapData;

/** What the console answers, as JSON, deflated, in base64. */
export interface RunsData {
  page: string;
  load: number;
  seed: number;
  /** By policy; null = the run has none. The cells of machines are by column, machine and frame. */
  curves: Record<string, string>;
  machines: Record<string, string | null>;
}

export interface PageData {
  figures: Record<string, Drawing>;
  colours: Record<string, string>;
  runs: RunsData | null;
}
