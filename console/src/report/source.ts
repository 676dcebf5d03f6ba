// Answers from what the file itself carries, in the form of the console's. A run that is not in it is said to be missing.
import type { RunMachines } from "../answers";
import { Failure, type Source } from "../ask";
import type { RunsData } from "./data";

function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
}

export async function inflated<T>(text: string): Promise<T> {
  return (await new Response(new Blob([bytesOf(text)]).stream().pipeThrough(new DecompressionStream("deflate"))).json()) as T;
}

/** Cells by frame, machine and column, as the console has them. */
function byFrame(packed: RunMachines): RunMachines {
  const [frames, machines, columns] = [packed.hours.length, packed.machine.length, packed.columns.length];
  const from = bytesOf(packed.cells);
  let text = "";
  for (let f = 0; f < frames; f++) for (let m = 0; m < machines; m++) for (let c = 0; c < columns; c++) text += String.fromCharCode(from[(c * machines + m) * frames + f]!);
  return { ...packed, cells: btoa(text) };
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
    return kind === "machines" ? byFrame(await inflated<RunMachines>(found)) : inflated(found);
  };
}
