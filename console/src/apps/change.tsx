// A change of a release or a machine: sent once, then followed line by line while it runs.
import { useState } from "preact/hooks";
import { useAsked } from "../ask";
import { post } from "../network";
import { t } from "../words";
import type { Change } from "./answers";

export function useChange() {
  const [id, begin] = useState("");
  const [refusal, refuse] = useState("");
  const [isOver, end] = useState(false);
  const asked = useAsked<Change>(id ? `/api/changes/${id}` : "", isOver ? 0 : 1);
  const change = asked.value;
  if (change?.is_done && !isOver) end(true);
  const send = async (path: string, body: object): Promise<void> => {
    begin("");
    refuse("");
    end(false);
    try {
      begin((await post<{ id: string }>(path, body)).id);
    } catch (error) {
      refuse(String((error as Error).message));
    }
  };
  const told = (
    <>
      {(refusal || asked.error) && <p class="error" role="alert">{refusal || asked.error}</p>}
      {change && (
        <div role="status" aria-live="polite">
          <ul>{change.lines.map((line, k) => <li key={k}>{line}</li>)}</ul>
          <p class={change.failure ? "error" : "soft"}>{change.failure ? t("app.failed", { what: change.what, why: change.failure }) : t(change.is_done ? "app.done" : "app.going", { what: change.what })}</p>
        </div>
      )}
    </>
  );
  return { send, told, isBusy: id !== "" && !isOver && !asked.error };
}
