// The pages of one host, one container and one group of a fleet.
import type { Asked } from "../ask";
import { age, bytes, cores, count, moment } from "../format";
import { Old } from "../old";
import { Wide } from "../parts";
import { param, to } from "../route";
import { named, t } from "../words";
import type { ContainerPage, GroupPage, HostPage } from "./answers";
import { Logs } from "./logs";
import { address, ContainerTable, Fact, FigureList, State, used, useHosts } from "./parts";
import { standing } from "./view";
import { Terminal } from "../terminal/tab";

function Crumb() {
  return <p class="crumb"><a href={to("fleet")}>← {t("fleet")}</a></p>;
}

/** Why there is no page; the crumb leads back. */
function Without({ asked }: { asked: Asked<unknown> }) {
  return (
    <article class="story">
      <Crumb />
      {asked.error ? <p class="error" role="alert">{asked.error}</p> : <p class="soft">{t("loading")}</p>}
    </article>
  );
}

export function Host({ guid }: { guid: string }) {
  const asked = useHosts<HostPage>(`/api/hosts/host/${encodeURIComponent(guid)}`);
  const page = asked.value;
  if (!page) return <Without asked={asked} />;
  const isQuiet = page.state !== "ready";
  return (
    <article class="story fleet" aria-label={page.host}>
      <Crumb />
      <h1>{page.host || page.guid}</h1>
      <p class={`headline${isQuiet ? " waits" : ""}`} data-headline>{named("fleet.state", page.state)}{isQuiet && ` · ${t("fleet.silent", { for: age(page.silentS) })}`}{page.isDoubled && ` · ${t("fleet.doubled")}`}</p>
      <Old asked={asked} />
      <dl class="facts">
        <Fact name="guid">{page.guid}</Fact>
        <Fact name={t("fleet.region")}>{page.region || "–"}</Fact>
        <Fact name={t("fleet.tags")}>{page.tags.length ? page.tags.map((tag) => <a key={tag} class="nowrap" href={to("fleet", { tag })}>{tag} </a>) : "–"}</Fact>
        <Fact name={t("fleet.role")}>{page.role}, {page.platform}</Fact>
        <Fact name={t("fleet.version")}>{page.version}</Fact>
        <Fact name={t("cpu")}>{used(page.usedCpu, page.cpu, cores)}</Fact>
        <Fact name={t("memory")}>{used(page.usedMemory, page.memory, bytes)}</Fact>
        {page.startedS !== null && <Fact name={t("fleet.since")}>{moment(page.startedS)}</Fact>}
        {page.node && <Fact name={t("node")}><a href={to("node", { name: page.node })}>{page.node}</a></Fact>}
      </dl>
      <section>
        <h2>{t("fleet.figures")}</h2>
        {page.figures ? <FigureList figures={page.figures} /> : <p class="soft">{page.unmeasured || t("unmeasured")}</p>}
      </section>
      <section>
        <h2>{t("fleet.parts")}</h2>
        {page.refused.map((line) => <p class="error" key={line}>{t("fleet.refused", { why: line })}</p>)}
        <Wide>
          <table>
            <thead><tr><th scope="col">{t("fleet.part")}</th><th scope="col">{t("state")}</th></tr></thead>
            <tbody>{page.functions.map((part) => <tr key={part.name}><th scope="row">{part.name}</th><td class={part.fault ? "burning" : ""}>{part.fault || t(part.isOn ? "fleet.on" : "fleet.off")}</td></tr>)}</tbody>
          </table>
        </Wide>
      </section>
      <section>
        <h2>{t("fleet.containers")} <span class="soft">{count(page.count)}</span></h2>
        {page.count ? <ContainerTable rows={page.containers} /> : <p class="soft">{t("fleet.no-containers")}</p>}
        {page.count > page.containers.length && <p class="soft">{t("pods.shown", { n: count(page.containers.length), all: count(page.count) })}</p>}
      </section>
    </article>
  );
}

export function Container({ guid }: { guid: string }) {
  const asked = useHosts<ContainerPage>(`/api/hosts/container/${encodeURIComponent(guid)}`);
  const page = asked.value;
  const tab = param("tab");
  if (!page) return <Without asked={asked} />;
  return (
    <article class="story fleet" aria-label={guid}>
      <Crumb />
      <h1>{page.appkey || page.guid}</h1>
      <p class={`headline${page.state === "Ready" ? "" : " waits"}`} data-headline>{named("fleet.state", page.state)}{page.detail && `: ${page.detail}`}</p>
      <Old asked={asked} />
      <p class="chips" role="tablist">
        {(["", "logs", ...(page.hasTerminal ? ["terminal"] : [])]).map((name) => <a key={name} role="tab" aria-selected={tab === name} href={to("fleet", { container: guid, tab: name })}>{t(name === "terminal" ? "terminal" : name ? "logs" : "fleet.figures")}</a>)}
      </p>
      {tab === "logs" ? <Logs name={guid} /> : tab === "terminal" && page.hasTerminal ? <Terminal guid={guid} /> : (
        <>
          <dl class="facts">
            <Fact name="guid">{page.guid}</Fact>
            <Fact name={t("fleet.image")}>{page.image}</Fact>
            <Fact name={t("fleet.host")}><a href={address("host", page.agent)}>{page.host}</a> <State state={page.hostState} /></Fact>
            {page.node && <Fact name={t("node")}><a href={to("node", { name: page.node })}>{page.node}</a></Fact>}
            {page.group && <Fact name={t("fleet.group")}><a href={address("group", page.group)}>{page.group}</a></Fact>}
            <Fact name={t("fleet.ports")}>{page.ports.join(", ") || "–"}</Fact>
            <Fact name={t("requests")}>{page.cpuRequest || page.memoryRequest ? `${cores(page.cpuRequest)} ${t("cpu")}, ${bytes(page.memoryRequest)}` : "–"}</Fact>
            <Fact name={t("fleet.limits")}>{page.limits.join(", ") || "–"}</Fact>
          </dl>
          {page.figures ? <FigureList figures={page.figures} /> : <p class="soft">{page.unmeasured || t("unmeasured")}</p>}
        </>
      )}
    </article>
  );
}

const WAY = ["Pending", "Ready", "Stopping", "Terminated"];

export function Group({ name }: { name: string }) {
  const asked = useHosts<GroupPage>(`/api/hosts/group/${encodeURIComponent(name)}`);
  const page = asked.value;
  if (!page) return <Without asked={asked} />;
  return (
    <article class="story fleet" aria-label={name}>
      <Crumb />
      <h1>{page.name}</h1>
      <p class={`headline${page.goal === "up" && page.isDone ? "" : " waits"}`} data-headline>{standing(page.goal, page.isDone)}</p>
      <Old asked={asked} />
      {page.reason && <p class={page.goal === "gone" ? "error" : "soft"}>{page.reason}</p>}
      <section>
        <h2>{t("fleet.machine")}</h2>
        <p class="chips machine">
          {WAY.map((state, k) => <span key={state}>{k > 0 && <span class="soft">→ </span>}<b class={page.states[state] ? "here" : "soft"} title={t("fleet.changes", { to: (page.changes[state] ?? []).map((after) => named("fleet.state", after)).join(", ") || "–" })}>{named("fleet.state", state)} {count(page.states[state] ?? 0)}</b></span>)}
          {["Failed", "Unknown"].map((state) => <b key={state} class={page.states[state] ? "here burning" : "soft"}>{named("fleet.state", state)} {count(page.states[state] ?? 0)}</b>)}
        </p>
      </section>
      <section>
        <h2>{t("fleet.members")} <span class="soft">{count(page.members.length)}</span></h2>
        {page.members.length ? <ContainerTable rows={page.members} isOfGroup /> : <p class="soft">{t("fleet.no-containers")}</p>}
      </section>
    </article>
  );
}
