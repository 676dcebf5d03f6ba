// The form that gives a machine another size: an instance type, or numbers. It asks before it is sent.
import { useState } from "preact/hooks";
import { named, t } from "../words";
import { useChange } from "./change";

const NUMBERS = ["vcpus", "memory_mib"] as const;

export function SizeForm({ path, name }: { path: string; name: string }) {
  const [size, fill] = useState({ flavor: "", vcpus: 0, memory_mib: 0 });
  const [isAsked, ask] = useState(false);
  const { send, told, isBusy } = useChange();
  const given = (part: object): void => {
    ask(false);
    fill({ ...size, ...part });
  };
  const press = (): void => {
    ask(false);
    void send(path, { verb: "resize", ...size });
  };
  return (
    <details class="given">
      <summary>{named("app.verb", "resize")}</summary>
      <form onSubmit={(event) => { event.preventDefault(); ask(true); }}>
        <label>{t("app.size.flavor")} <input type="text" value={size.flavor} onInput={(event) => given({ flavor: event.currentTarget.value })} /></label>
        {NUMBERS.map((field) => <label key={field}>{named("app.size", field)} <input type="number" min={1} step={1} value={size[field] || ""} onInput={(event) => given({ [field]: event.currentTarget.valueAsNumber || 0 })} /></label>)}
        <p class="chips">
          <button type="submit" disabled={isBusy}>{named("app.verb", "resize")}</button>
          {isAsked && <button type="button" class="burning" onClick={press}>{t("app.really", { verb: named("app.verb", "resize"), name })}</button>}
        </p>
      </form>
      {told}
    </details>
  );
}
