// Answers from what the file itself carries, in the form of the console's. A run that is not in it is said to be missing.
import { Failure, type Source } from "../ask";
import type { RunsData } from "./data";

async function inflated(text: string): Promise<unknown> {
  const bytes = Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
}

export function embedded(runs: RunsData): Source {
  return async (path) => {
    const [place = "", query = ""] = path.split("?");
    const asked = new URLSearchParams(query);
    const policy = asked.get("policy") ?? "";
    const kind = place === "/api/lab/curves" ? "curves" : place === "/api/lab/machines" ? "machines" : null;
    const found = kind ? new Map(Object.entries(runs[kind])).get(policy) : undefined;
    if (kind === null || found === undefined || Number(asked.get("load")) !== runs.load || Number(asked.get("seed")) !== runs.seed)
      throw new Failure(`This file has no run of ${policy} at load ${asked.get("load")}: it carries those at load ${runs.load} with seed ${runs.seed} of ${Object.keys(runs.curves).join(", ")}. All are in the folder of the experiment, which cotenant console --results shows.`, 404);
    if (found === null) throw new Failure("This run has no machines over time: its workload records none.", 404);
    return inflated(found);
  };
}
