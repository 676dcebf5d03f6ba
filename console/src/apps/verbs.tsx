// Buttons that change a release or a machine: the first press asks, the second does it; then the lines of the change, while it runs.
import { useState } from "preact/hooks";
import { useAsked } from "../ask";
import { post } from "../network";
import { named, t } from "../words";
import type { Change } from "./answers";

export function Verbs({ path, name, verbs }: { path: string; name: string; verbs: readonly string[] }) {
  const [armed, arm] = useState("");
  const [id, begin] = useState("");
  const [refusal, refuse] = useState("");
  const [isOver, end] = useState(false);
  const asked = useAsked<Change>(id ? `/api/changes/${id}` : "", isOver ? 0 : 1);
  const change = asked.value;
  if (change?.is_done && !isOver) end(true);
  const send = async (): Promise<void> => {
    const verb = armed;
    [arm, begin, refuse].forEach((clear) => clear(""));
    end(false);
    try {
      begin((await post<{ id: string }>(path, { verb })).id);
    } catch (error) {
      refuse(String((error as Error).message));
    }
  };
  const isBusy = id !== "" && !isOver && !asked.error;
  return (
    <section>
      <p class="chips">
        {verbs.map((verb) => <button type="button" key={verb} disabled={isBusy} aria-pressed={armed === verb} onClick={() => arm(armed === verb ? "" : verb)}>{named("app.verb", verb)}</button>)}
        {armed && <button type="button" class="burning" onClick={() => void send()}>{t("app.really", { verb: named("app.verb", armed), name })}</button>}
      </p>
      {(refusal || asked.error) && <p class="error" role="alert">{refusal || asked.error}</p>}
      {change && (
        <div role="status" aria-live="polite">
          <ul>{change.lines.map((line, k) => <li key={k}>{line}</li>)}</ul>
          <p class={change.failure ? "error" : "soft"}>{change.failure ? t("app.failed", { what: change.what, why: change.failure }) : t(change.is_done ? "app.done" : "app.going", { what: change.what })}</p>
        </div>
      )}
    </section>
  );
}
