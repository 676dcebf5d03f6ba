// What each kind of acting may begin now, why not, and the switch that stops it.
import { useState } from "preact/hooks";
import { moment } from "../format";
import { Wide } from "../parts";
import type { AutonomyPage } from "./answers";
import type { Sender } from "./asking";
import { called, say } from "./words";

export function Now({ page, sender }: { page: AutonomyPage; sender: Sender | null }) {
  return (
    <section data-now>
      <h2>{say("now")}</h2>
      {page.objects.filter((each) => each.freeze).map((each) => (
        <p class="error" key={each.name} data-frozen>
          {say("frozen", { by: each.freeze!.by || say("nobody"), why: each.freeze!.why })} <span class="soft">{scope(each.namespaces, each.actions)}</span>
        </p>
      ))}
      {sender && (page.is_frozen ? <Thaw sender={sender} /> : <Freeze actions={page.allowed.map((each) => each.action)} sender={sender} />)}
      <Wide><table>
        <thead><tr><th scope="col">{say("action")}</th><th scope="col">{say("rung")}</th><th scope="col">{say("begins")}</th><th scope="col">{say("because")}</th></tr></thead>
        <tbody>
          {page.allowed.map((each) => (
            <tr key={each.action} data-action={each.action}>
              <th scope="row">{called("action", each.action)}</th>
              <td>{called("rung", each.rung)}</td>
              <td class={each.may_begin && !each.is_frozen ? "" : "burning"}>{say(each.is_frozen ? "begins.frozen" : each.may_begin ? "begins.yes" : "begins.no")}</td>
              <td>{each.why || "–"}</td>
            </tr>
          ))}
        </tbody>
      </table></Wide>
    </section>
  );
}

function Freeze({ actions, sender }: { actions: string[]; sender: Sender }) {
  const [why, setWhy] = useState("");
  const [action, choose] = useState("");
  const [namespaces, name] = useState("");
  const send = (event: Event): void => {
    event.preventDefault();
    const where = namespaces.split(",").map((each) => each.trim()).filter(Boolean);
    void sender.send({ verb: "freeze", why, actions: action ? [action] : [], namespaces: where }, say("freeze"));
  };
  return (
    <form class="controls" onSubmit={send}>
      <input type="text" class="search" required value={why} placeholder={say("freeze.why")} aria-label={say("freeze.why")} onInput={(event) => setWhy(event.currentTarget.value)} />
      <select value={action} aria-label={say("action")} onChange={(event) => choose(event.currentTarget.value)}>
        {["", ...actions].map((each) => <option key={each} value={each}>{called("action", each)}</option>)}
      </select>
      <input type="text" class="search" value={namespaces} placeholder={say("freeze.namespaces")} aria-label={say("freeze.namespaces")} onInput={(event) => name(event.currentTarget.value)} />
      <span class="chips"><button type="submit" class="burning" disabled={sender.isBusy}>{say("freeze")}</button></span>
      <span class="soft">{say("freeze.goes-on")}</span>
    </form>
  );
}

function Thaw({ sender }: { sender: Sender }) {
  const [isArmed, arm] = useState(false);
  return (
    <p class="chips">
      <button type="button" disabled={sender.isBusy} aria-pressed={isArmed} onClick={() => arm(!isArmed)}>{say("thaw")}</button>
      {isArmed && <button type="button" class="burning" onClick={() => { arm(false); void sender.send({ verb: "thaw" }, say("thaw")); }}>{say("really", { verb: say("thaw"), name: say("action.") })}</button>}
    </p>
  );
}

export function Rules({ page }: { page: AutonomyPage }) {
  const rules = page.objects.filter((each) => !each.freeze || each.windows.length > 0 || each.blackouts.length > 0 || each.wrong.length > 0);
  if (!rules.length) return null;
  return (
    <section>
      <h2>{say("rules")}</h2>
      <Wide><table>
        <thead><tr><th scope="col">{say("rules.name")}</th><th scope="col">{say("rules.of")}</th><th scope="col">{say("rung")}</th><th scope="col">{say("rules.windows")}</th><th scope="col">{say("rules.blackouts")}</th></tr></thead>
        <tbody>
          {rules.map((each) => (
            <tr key={each.name}>
              <th scope="row">{each.name}</th>
              <td>{scope(each.namespaces, each.actions)}{each.wrong.map((line) => <p class="error" key={line}>{line}</p>)}</td>
              <td>{called("rung", each.ceiling)}</td>
              <td>{each.windows.join("; ") || say("rules.any")}</td>
              <td>{each.blackouts.map(([from, until, why]) => `${moment(from)} – ${moment(until)} ${why}`).join("; ") || "–"}</td>
            </tr>
          ))}
        </tbody>
      </table></Wide>
    </section>
  );
}

function scope(namespaces: string[], actions: string[]): string {
  return `${actions.map((each) => called("action", each)).join(", ") || say("action.")} · ${namespaces.join(", ") || say("everywhere")}`;
}
