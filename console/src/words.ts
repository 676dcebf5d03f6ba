// Every text of the page, English and Chinese, from words.json. Reasons and names come from the cluster and stay as they are.
import { signal } from "@preact/signals";
import table from "./words.json";

export type Word = keyof typeof table;
export type Language = "en" | "zh";

function preferred(): Language {
  const kept = localStorage.getItem("language");
  if (kept === "en" || kept === "zh") return kept;
  return navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
}

export const language = signal<Language>(preferred());

export function setLanguage(to: Language): void {
  language.value = to;
  localStorage.setItem("language", to);
  document.documentElement.lang = to;
}

/** A text, with the values in place of `{name}`. */
export function t(word: Word, values: Record<string, string | number> = {}): string {
  const text = table[word][language.value === "zh" ? 1 : 0] ?? word;
  return text.replace(/\{(\w+)\}/g, (_, name: string) => String(values[name] ?? ""));
}
