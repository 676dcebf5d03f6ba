// Axes of charts: where a value lies, and the marks that fit. Pure.
export type Tick = readonly [at: number, label: string];

export interface Axis {
  title: string;
  low: number;
  high: number;
  /** "tail": of a share in percent, equal steps for 90, 99 and 99.9 %, up to 99.95 %. */
  scale?: "linear" | "log" | "tail";
  unit?: string;
  /** Empty: the chart makes them. */
  ticks?: readonly Tick[];
}

const LEAST = 1e-12;

/** A value as it is spaced along its axis. */
export function bent(axis: Axis, value: number): number {
  if (axis.scale === "log") return Math.log10(Math.max(value, LEAST));
  return axis.scale === "tail" ? -Math.log10(Math.max(1 - value / 100, 0.0005)) : value;
}

/** Where a value lies between the ends of its axis: 0 to 1. */
export function place(axis: Axis, value: number): number {
  const low = bent(axis, axis.low);
  return (bent(axis, value) - low) / (bent(axis, axis.high) - low || 1);
}

/** Three significant digits. */
export function short(value: number): string {
  return Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en-US") : Number(value.toPrecision(3)).toString();
}

function even(axis: Axis, most: number): Tick[] {
  const rough = (axis.high - axis.low) / Math.max(1, most) || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((each) => each * power >= rough * 0.999)!;
  const found: Tick[] = [];
  for (let k = Math.ceil(axis.low / step - 1e-9); k * step <= axis.high + step * 1e-9; k++) found.push([k * step, Number((k * step).toPrecision(6)).toLocaleString("en-US", { maximumSignificantDigits: 6 })]);
  return found;
}

function powers(axis: Axis): Tick[] {
  const found: Tick[] = [];
  const [from, to] = [Math.floor(Math.log10(Math.max(axis.low, LEAST))), Math.ceil(Math.log10(axis.high))];
  for (let power = from; power <= to; power++) for (const factor of to - from > 4 ? [1] : [1, 2, 5]) found.push([factor * 10 ** power, short(factor * 10 ** power)]);
  return found;
}

/** The marks of an axis of `length` pixels, each with `need` pixels for itself; a given mark that has no room is left out. */
export function ticks(axis: Axis, length: number, need: number): Tick[] {
  const inside = (all: readonly Tick[]): Tick[] => all.filter(([at]) => place(axis, at) > -1e-6 && place(axis, at) < 1 + 1e-6);
  let all = inside(axis.ticks?.length ? axis.ticks : axis.scale === "log" ? powers(axis) : []);
  if (all.length < 2) all = even(axis, Math.floor(length / need));
  let last = -Infinity;
  return all.filter(([at]) => {
    const x = place(axis, at) * length;
    if (x - last < need) return false;
    last = x;
    return true;
  });
}
