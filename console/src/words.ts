// Every text of the page, English and Chinese, from words.json. Reasons and names come from the cluster and stay as they are.
import { signal } from "@preact/signals";
import { kept } from "./kept";
import table from "./words.json";

export type Word = keyof typeof table;
export type Language = "en" | "zh";

function preferred(): Language {
  const before = kept("language");
  if (before === "en" || before === "zh") return before;
  return navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
}

export const language = signal<Language>(preferred());

export function setLanguage(to: Language): void {
  language.value = to;
  localStorage.setItem("language", to);
  document.documentElement.lang = to;
}

/** A name that another process gives (a state, a stage), in words where the table has it. */
export function named(prefix: string, name: string): string {
  const word = `${prefix}.${name}`;
  return word in table ? t(word as Word) : name;
}

/** A function that gives the texts of a table: with the values in place of `{name}`, and the first of `{name|one|more}` where the value is 1. */
export function teller<K extends string>(texts: Record<K, string[]>): (word: K, values?: Record<string, string | number>) => string {
  return (word, values = {}) => {
    const text = texts[word][language.value === "zh" ? 1 : 0] ?? word;
    return text.replace(/\{(\w+)(?:\|([^|}]*)\|([^}]*))?\}/g, (_, name: string, one?: string, more?: string) => (more === undefined ? String(values[name] ?? "") : String(values[name]) === "1" ? one! : more));
  };
}

export const t = teller<Word>(table);
