// How the texts (src/words.json) come into a script: by column, which packs better than pairs; for the static pages only those that their sources name, in English.
import { readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import type { Plugin } from "vite";

type Table = Record<string, [en: string, zh: string]>;

/** The text of a source and of all sources that it imports. */
function reached(file: string, seen = new Map<string, string>()): Map<string, string> {
  const path = [file, `${file}.ts`, `${file}.tsx`].find((each) => /\.tsx?$/.test(each) && exists(each));
  if (!path || seen.has(path)) return seen;
  const text = readFileSync(path, "utf8");
  seen.set(path, text);
  for (const [, from] of text.matchAll(/(?:from|import) "(\.[^"]+)"/g)) reached(resolve(dirname(path), from!), seen);
  return seen;
}

function exists(path: string): boolean {
  try {
    readFileSync(path);
    return true;
  } catch {
    return false;
  }
}

function used(table: Table, entry: string): Table {
  const text = [...reached(join(import.meta.dirname, entry)).values()].join("\n");
  const prefixes = [...text.matchAll(/`([\w.-]+\.)\$\{/g)].map(([, each]) => each!);
  return Object.fromEntries(Object.entries(table).filter(([key]) => text.includes(`"${key}"`) || prefixes.some((each) => key.startsWith(each))));
}

/** `entry`: of a script that is in English only and takes no texts that its sources do not name. */
export function words(entry = ""): Plugin {
  return {
    name: "words",
    enforce: "pre",
    load(id) {
      if (!id.endsWith("/words.json")) return null;
      const all = JSON.parse(readFileSync(id, "utf8")) as Table;
      const table = entry ? used(all, entry) : all;
      const column = (k: 0 | 1): string => JSON.stringify(Object.values(table).map((each) => each[k]));
      const pair = entry ? "[en[k]]" : "[en[k], zh[k]]";
      return {
        code: `const en = ${column(0)};${entry ? "" : `const zh = ${column(1)};`}export default Object.fromEntries(${JSON.stringify(Object.keys(table))}.map((key, k) => [key, ${pair}]))`,
        moduleType: "js",
      };
    },
  };
}
