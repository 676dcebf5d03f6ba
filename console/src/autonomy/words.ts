// The texts of this view, which come with it.
import { teller } from "../words";
import table from "./words.json";

export const say = teller(table);

/** A name that another process gives, in words where the table has it. */
export function called(prefix: string, name: string): string {
  const word = `${prefix}.${name}`;
  return word in table ? say(word as keyof typeof table) : name;
}
