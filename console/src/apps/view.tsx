// The view "Applications": releases and virtual machines; a release with its pods by guid, objectives, quotas and cost.
import { useAsked } from "../ask";
import { bytes, cores, count } from "../format";
import { Fact } from "../hosts/parts";
import { Old } from "../old";
import { Empty, Wide } from "../parts";
import { param, set, to } from "../route";
import { named, t } from "../words";
import type { ListedRelease, Machine, MachineList, Release, ReleaseList, ReleasePage } from "./answers";
import { GivenForm } from "./given";
import { SizeForm } from "./size";
import { Verbs } from "./verbs";

const EVERY_S = 5;
const MIB = 1 << 20;
const BAD: readonly string[] = ["failed", "unknown", "pending"];
const VM_VERBS: Record<string, readonly string[]> = { stopped: ["start"], failed: ["start", "stop"], running: ["stop", "restart", "pause", "migrate"], paused: ["unpause", "stop"] };

export function Applications() {
  const [release, vm] = [param("release"), param("vm")];
  if (release) return <ReleaseDetail name={release} key={release} />;
  if (vm) return <MachineDetail name={vm} key={vm} />;
  return <Overview />;
}

function Overview() {
  const q = param("q").toLowerCase();
  const releases = useAsked<ReleaseList>("/api/releases", EVERY_S);
  const vms = useAsked<MachineList>("/api/vms", EVERY_S);
  const has = (...texts: string[]): boolean => texts.some((text) => text.toLowerCase().includes(q));
  const shown = releases.value?.releases.filter((row) => has(row.namespace, row.name, row.source, row.state));
  const machines = vms.value?.machines.filter((row) => has(row.namespace, row.name, row.node, row.state));
  return (
    <div class="services fleet">
      <div class="controls"><input type="search" class="search" value={param("q")} placeholder={t("search.apps")} aria-label={t("search.apps")} onInput={(event) => set({ q: event.currentTarget.value })} /></div>
      <section>
        <h2>{t("app.releases")} {shown && <span class="soft">{count(shown.length)}</span>}</h2>
        <Old asked={releases} />
        {!releases.value && (releases.error ? <p class="error" role="alert">{releases.error}</p> : <p class="soft">{t("loading")}</p>)}
        {shown?.length === 0 && <Empty text={t(q ? "app.no-match" : "app.no-releases")} />}
        {shown !== undefined && shown.length > 0 && <Releases rows={shown} />}
        {releases.value?.mayChange && <GivenForm />}
      </section>
      <section>
        <h2>{t("app.vms")} {machines && <span class="soft">{count(machines.length)}</span>}</h2>
        <Old asked={vms} />
        {!vms.value && (vms.error ? <p class="error" role="alert">{vms.error}</p> : <p class="soft">{t("loading")}</p>)}
        {machines?.length === 0 && <p class="soft">{vms.value?.lacks || t(q ? "app.no-match" : "app.no-vms")}</p>}
        {machines !== undefined && machines.length > 0 && <Machines rows={machines} />}
      </section>
    </div>
  );
}

function Releases({ rows }: { rows: ListedRelease[] }) {
  return (
    <Wide>
      <table>
        <thead><tr><th scope="col">{t("app.release")}</th><th scope="col">{t("app.namespace")}</th><th scope="col">{t("state")}</th><th scope="col" class="number">{t("app.revision")}</th><th scope="col">{t("app.source")}</th></tr></thead>
        <tbody>
          {rows.map((row) => (
            <tr key={`${row.namespace}/${row.name}`}>
              <th scope="row"><a href={to("apps", { release: `${row.namespace}/${row.name}` })}>{row.name}</a></th>
              <td>{row.namespace}</td>
              <td><Standing state={row.state} /></td>
              <td class="number">{row.revision}</td>
              <td>{row.source}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Wide>
  );
}

function Machines({ rows }: { rows: Machine[] }) {
  return (
    <Wide>
      <table>
        <thead><tr><th scope="col">{t("app.vm")}</th><th scope="col">{t("app.namespace")}</th><th scope="col">{t("state")}</th><th scope="col">{t("node")}</th><th scope="col">{t("app.size")}</th><th scope="col">{t("app.class")}</th></tr></thead>
        <tbody>
          {rows.map((row) => (
            <tr key={`${row.namespace}/${row.name}`}>
              <th scope="row"><a href={to("apps", { vm: `${row.namespace}/${row.name}` })}>{row.name}</a></th>
              <td>{row.namespace}</td>
              <td><Standing state={row.state} /> {row.why && <span class="soft">{row.why}</span>}</td>
              <td><Node name={row.node} /></td>
              <td>{size(row)}</td>
              <td>{row.class_name || "–"}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Wide>
  );
}

function ReleaseDetail({ name }: { name: string }) {
  const path = `/api/releases/${name.split("/").map(encodeURIComponent).join("/")}`;
  const asked = useAsked<ReleasePage>(path, EVERY_S);
  const page = asked.value?.release;
  return (
    <article class="story fleet" aria-label={name}>
      <Crumb />
      <h1>{name}</h1>
      <Old asked={asked} />
      {!page && (asked.error ? <p class="error" role="alert">{asked.error}</p> : <p class="soft">{t("loading")}</p>)}
      {page && (
        <>
          <p class={`headline${BAD.includes(page.state) ? " waits" : ""}`} data-headline><Standing state={page.state} /></p>
          {page.message && <p class="error">{page.message}</p>}
          <dl class="facts">
            <Fact name={t("app.source")}>{page.source}</Fact>
            <Fact name={t("app.revision")}>{page.revision}</Fact>
            <Fact name={t("app.class")}>{page.class_name || "–"}{page.without_class.length > 0 && <span class="burning"> {t("app.without-class", { n: count(page.without_class.length) })}</span>}</Fact>
            <Fact name={t("requests")}>{cores(page.cost.cpu_m)} {t("cpu")}, {bytes(page.cost.memory_mib * MIB)}</Fact>
            {page.cost.per_hour !== null && <Fact name={t("app.cost")}>{t("app.per-hour", { amount: `${page.cost.per_hour.toFixed(4)} ${page.cost.currency}`.trim() })}</Fact>}
          </dl>
          {asked.value?.mayChange && <Verbs path={path} name={name} verbs={page.state === "stopped" ? ["start", "uninstall"] : ["stop", "rollback", "uninstall"]} />}
          {asked.value?.mayChange && <GivenForm release={name} />}
          <Parts page={page} />
        </>
      )}
    </article>
  );
}

function Parts({ page }: { page: Release }) {
  return (
    <>
      <section>
        <h2>{t("pods")} <span class="soft">{count(page.pods.length)}</span></h2>
        <Wide>
          <table>
            <thead><tr><th scope="col">guid</th><th scope="col">Pod</th><th scope="col">{t("node")}</th><th scope="col">{t("state")}</th><th scope="col">{t("app.class")}</th></tr></thead>
            <tbody>{page.pods.map((pod) => <tr key={pod.name}><th scope="row">{pod.guid}</th><td><a href={to("pods", { pod: `${pod.namespace}/${pod.name}` })}>{pod.name}</a></td><td><Node name={pod.node} /></td><td class={pod.phase === "Failed" ? "burning" : ""}>{pod.phase}</td><td>{pod.qos || "–"}</td></tr>)}</tbody>
          </table>
        </Wide>
      </section>
      <section>
        <h2>{t("app.objects")} <span class="soft">{count(page.objects.length)}</span></h2>
        <Wide>
          <table>
            <thead><tr><th scope="col">{t("app.object")}</th><th scope="col" class="number">{t("app.ready")}</th><th scope="col">{t("fleet.reason")}</th></tr></thead>
            <tbody>{page.objects.map((each) => <tr key={`${each.kind} ${each.namespace}/${each.name}`}><th scope="row">{each.kind} {each.name}</th><td class={`number${each.ready < each.wanted ? " burning" : ""}`}>{each.wanted ? t("fleet.of", { used: each.ready, all: each.wanted }) : "–"}</td><td>{each.is_stopped ? named("app.state", "stopped") : each.why.join("; ") || "–"}</td></tr>)}</tbody>
          </table>
        </Wide>
      </section>
      {page.objectives.length > 0 && (
        <section>
          <h2>{t("app.objectives")}</h2>
          <Wide>
            <table>
              <thead><tr><th scope="col">{t("app.objective")}</th><th scope="col">{t("app.service")}</th><th scope="col" class="number">{t("app.target")}</th><th scope="col">{t("state")}</th></tr></thead>
              <tbody>{page.objectives.map((each) => <tr key={each.name}><th scope="row"><a href={to("services", { objective: `${page.namespace}/${each.name}` })}>{each.name}</a></th><td>{each.service}</td><td class="number">{each.target} %</td><td>{each.state}</td></tr>)}</tbody>
            </table>
          </Wide>
        </section>
      )}
      {page.quotas.length > 0 && (
        <section>
          <h2>{t("quotas")}</h2>
          <dl class="facts">{page.quotas.map((each) => <Fact key={each.name} name={`${each.kind} ${each.name}`}>{Object.entries(each.maximum).map(([key, most]) => `${key} ${t("fleet.of", { used: each.used[key] ?? "0", all: most })}`).join("; ")}</Fact>)}</dl>
        </section>
      )}
    </>
  );
}

function MachineDetail({ name }: { name: string }) {
  const asked = useAsked<MachineList>("/api/vms", EVERY_S);
  const machine = asked.value?.machines.find((each) => `${each.namespace}/${each.name}` === name);
  const path = `/api/vms/${name.split("/").map(encodeURIComponent).join("/")}`;
  return (
    <article class="story fleet" aria-label={name}>
      <Crumb />
      <h1>{name}</h1>
      <Old asked={asked} />
      {!machine && <p class={asked.error ? "error" : "soft"}>{asked.error || t(asked.value ? "app.gone" : "loading")}</p>}
      {machine && (
        <>
          <p class={`headline${BAD.includes(machine.state) ? " waits" : ""}`} data-headline><Standing state={machine.state} />{machine.why && `: ${machine.why}`}</p>
          {machine.pending && <p class="note">{machine.pending}</p>}
          <dl class="facts">
            <Fact name={t("app.size")}>{size(machine)}</Fact>
            <Fact name={t("app.class")}>{machine.class_name || "–"}</Fact>
            <Fact name={t("node")}><Node name={machine.node} /></Fact>
            {machine.pod && <Fact name="Pod"><a href={to("pods", { pod: `${machine.namespace}/${machine.pod}` })}>{machine.pod}</a></Fact>}
          </dl>
          {asked.value?.mayChange && <Verbs path={path} name={name} verbs={VM_VERBS[machine.state] ?? ["stop"]} />}
          {asked.value?.mayChange && <SizeForm path={path} name={name} />}
        </>
      )}
    </article>
  );
}

function Crumb() {
  return <p class="crumb"><a href={to("apps")}>← {t("apps")}</a></p>;
}

function Standing({ state }: { state: string }) {
  return <span class={BAD.includes(state) ? "burning" : state === "deployed" || state === "running" ? "good" : ""}>{named("app.state", state)}</span>;
}

function Node({ name }: { name: string }) {
  return name ? <a href={to("node", { name })}>{name}</a> : <>–</>;
}

function size({ size: { flavor, vcpus, memory_mib } }: Machine): string {
  return [flavor, vcpus && `${vcpus} vCPU`, memory_mib && bytes(memory_mib * MIB)].filter(Boolean).join(", ") || "–";
}
