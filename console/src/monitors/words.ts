// The texts of this view, which come with it.
import { teller } from "../words";
import table from "./words.json";

export const told = teller(table);
