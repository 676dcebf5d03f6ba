// Buttons that change a release or a machine: the first press asks, the second does it.
import { useState } from "preact/hooks";
import { named, t } from "../words";
import { useChange } from "./change";

export function Verbs({ path, name, verbs }: { path: string; name: string; verbs: readonly string[] }) {
  const [armed, arm] = useState("");
  const { send, told, isBusy } = useChange();
  const press = (): void => {
    arm("");
    void send(path, { verb: armed });
  };
  return (
    <section>
      <p class="chips">
        {verbs.map((verb) => <button type="button" key={verb} disabled={isBusy} aria-pressed={armed === verb} onClick={() => arm(armed === verb ? "" : verb)}>{named("app.verb", verb)}</button>)}
        {armed && <button type="button" class="burning" onClick={press}>{t("app.really", { verb: named("app.verb", armed), name })}</button>}
      </p>
      {told}
    </section>
  );
}
