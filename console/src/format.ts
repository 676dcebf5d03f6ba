// Numbers and times as people write them.
import { language, t } from "./words";

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** Milli-CPU as cores. */
export function cores(milli: number): string {
  const value = milli / 1000;
  return value >= 100 ? value.toFixed(0) : value >= 10 ? trim(value.toFixed(1)) : trim(value.toFixed(2));
}

export function bytes(amount: number): string {
  let value = amount;
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${trim(value.toFixed(value >= 100 || unit === 0 ? 0 : 1))} ${UNITS[unit]}`;
}

export function percent(part: number, whole: number): string {
  return whole > 0 ? `${Math.round((100 * part) / whole)} %` : "–";
}

export function clock(unixS: number): string {
  return new Date(unixS * 1000).toLocaleTimeString(language.value === "zh" ? "zh-CN" : "en-GB");
}

export function moment(unixS: number): string {
  return new Date(unixS * 1000).toLocaleString(language.value === "zh" ? "zh-CN" : "en-GB");
}

/** The time of day; with the date where it was more than 20 hours ago or ahead. */
export function when(unixS: number): string {
  return Math.abs(Date.now() / 1000 - unixS) > 20 * 3600 ? moment(unixS) : clock(unixS);
}

export function milliseconds(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (value >= 1000) return `${trim((value / 1000).toFixed(2))} s`;
  return value >= 10 ? `${value.toFixed(0)} ms` : `${trim(value.toFixed(2))} ms`;
}

export function count(value: number): string {
  return value.toLocaleString(language.value === "zh" ? "zh-CN" : "en-US");
}

/** An amount of a resource by its name: cores, bytes, or as it is. */
export function amount(resource: string, value: number): string {
  if (resource === "cpu" || resource.endsWith("-cpu")) return cores(value);
  if ((resource.includes("memory") && !resource.includes("ratio")) || resource.includes("storage") || resource.startsWith("hugepages")) return bytes(value);
  return count(value);
}

const FACTORS: Record<string, number> = { n: 1e-9, u: 1e-6, m: 1e-3, "": 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60 };

/** A quantity as Kubernetes writes it, as a number; NaN where it is none. */
export function quantity(text: string): number {
  const found = /^(-?[\d.]+(?:[eE][+-]?\d+)?)([a-zA-Z]{0,2})$/.exec(text);
  return found ? Number(found[1]) * (FACTORS[found[2]!] ?? NaN) : NaN;
}

const NO_BOUND = 2 ** 52; // a sum of a device's own rule, which has no bound

/** A resource's quantity as people read it. Lent CPU is in thousandths already. */
export function shownQuantity(resource: string, text: string): string {
  const value = quantity(text);
  if (Number.isNaN(value)) return text;
  if (value >= NO_BOUND) return "–";
  return amount(resource, resource === "cpu" ? 1000 * value : value);
}

/** How long ago, in one unit. */
export function age(seconds: number): string {
  const s = Math.max(0, seconds);
  if (s < 100) return t("age.s", { n: Math.round(s) });
  if (s < 5400) return t("age.min", { n: Math.round(s / 60) });
  return s < 129_600 ? t("age.h", { n: Math.round(s / 3600) }) : t("age.d", { n: Math.round(s / 86_400) });
}

function trim(text: string): string {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}
