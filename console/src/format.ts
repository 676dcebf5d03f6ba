// Numbers and times as people write them.
import { language } from "./words";

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
  if (resource.includes("memory") || resource.includes("storage") || resource.startsWith("hugepages")) return bytes(value);
  return count(value);
}

function trim(text: string): string {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}
