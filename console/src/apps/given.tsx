// The form that installs a release, or upgrades one: YAML, or a chart with its values. It asks before it is sent.
import { useState } from "preact/hooks";
import { named, t } from "../words";
import { useChange } from "./change";

type Given = { namespace: string; name: string; chart: string; version: string; class_name: string; values: string; manifests: string };
const TEXTS: readonly (keyof Given)[] = ["values", "manifests"];

export function GivenForm({ release = "" }: { release?: string }) {
  const [ns = "", own = ""] = release.split("/");
  const [given, fill] = useState<Given>({ namespace: ns, name: own, chart: "", version: "", class_name: "", values: "", manifests: "" });
  const [isAsked, ask] = useState(false);
  const { send, told, isBusy } = useChange();
  const verb = release ? "upgrade" : "install";
  const { namespace, name, ...rest } = given;
  const press = (): void => {
    ask(false);
    void send(`/api/releases/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`, { verb, ...rest });
  };
  const fields: (keyof Given)[] = [...(release ? [] : (["namespace", "name"] as const)), "chart", "version", "class_name", ...TEXTS];
  return (
    <details class="given">
      <summary>{named("app.verb", verb)}</summary>
      <form onSubmit={(event) => { event.preventDefault(); ask(true); }}>
        {fields.map((field) => {
          const common = { value: given[field], onInput: (event: { currentTarget: { value: string } }) => { ask(false); fill({ ...given, [field]: event.currentTarget.value }); } };
          return <label key={field}>{named("app.given", field)} {TEXTS.includes(field) ? <textarea {...common} rows={6} spellcheck={false} /> : <input type="text" {...common} required={field === "namespace" || field === "name"} />}</label>;
        })}
        <p class="chips">
          <button type="submit" disabled={isBusy}>{named("app.verb", verb)}</button>
          {isAsked && <button type="button" class="burning" onClick={press}>{t("app.really", { verb: named("app.verb", verb), name: `${namespace}/${name}` })}</button>}
        </p>
      </form>
      {told}
    </details>
  );
}
