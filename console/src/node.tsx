// The view "Node": what it has, what is allocated and used, what it lends and from which terms, its CPUs and devices as hardware, its pods.
import { type Asked, useAsked } from "./ask";
import type { CpuTopology, DeviceSummary, FreeCpus, LentPage, NodePage, SchedulerNode } from "./answers";
import { colours, css } from "./colours";
import { Column, CORDONED, NOT_READY, UNKNOWN } from "./fleet";
import { Reservations } from "./gang";
import { amount, bytes, cores, count, percent, quantity, shownQuantity } from "./format";
import { fleet as liveFleet } from "./live";
import { NodeAgent } from "./knobs";
import { Meter } from "./machines/view";
import { Wide } from "./parts";
import { Old } from "./old";
import { PodTable } from "./pods";
import { param, to } from "./route";
import { t } from "./words";

export function NodeView() {
  const name = param("name");
  const path = encodeURIComponent(name);
  const page = useAsked<NodePage>(name ? `/api/nodes/${path}` : "", 3);
  const lent = useAsked<LentPage>(name ? `/api/nodes/${path}/lent` : "", 10);
  const seen = useAsked<SchedulerNode>(name ? `/api/scheduler/node/${path}` : "", 10);
  const topology = useAsked<CpuTopology>(name ? `/api/scheduler/cpus/${path}` : "");
  const free = useAsked<FreeCpus>(name ? `/api/scheduler/free-cpus/${path}` : "", 10);
  const devices = useAsked<DeviceSummary>(name ? `/api/scheduler/devices/${path}` : "", 10);
  const host = useAsked<{ guid: string }>(name ? `/api/hosts/node/${path}` : "").value?.guid;
  const names = liveFleet.value?.nodes ?? [];
  const at = names.indexOf(name);
  const next = at < 0 ? undefined : names[(at + 1) % names.length];
  const before = at < 0 ? undefined : names[(at + names.length - 1) % names.length];
  const found = page.value;
  if (!name) return <p class="empty">{t("node.choose")}</p>;
  const state = found?.columns[Column.State] ?? 0;
  return (
    <article class="story node" aria-label={name}>
      <p class="crumb"><a href={to("machines", { machine: name })}>← {t("machines")}</a> {next && before && next !== name && <> · <a href={to("node", { name: before })}>‹ {before}</a> · <a href={to("node", { name: next })}>{next} ›</a></>}</p>
      <h1>{name}</h1>
      {host && <p><a href={to("fleet", { host })}>{t("fleet.host")}</a></p>}
      {page.error && <p class="error" role="alert">{page.error}</p>}
      {found && (
        <>
          <p class="headline">
            {state & NOT_READY ? t("notready") : t("ready")}
            {state & CORDONED ? ` · ${t("cordoned")}` : ""} · {t("pods.count", { n: count(found.pods.length) })}
            {(state & 0xffff) > 0 && <span class="burning"> · {t("burning.share", { n: percent(state & 0xffff, 1000) })}</span>}
          </p>
          <div class="halves">
          <div>
          <section>
            <h2>{t("amounts")}</h2>
            <Meter name={t("cpu")} whole={found.columns[Column.Cpu]!} asked={found.columns[Column.CpuRequested]!} lent={found.columns[Column.LentRequested]!} used={found.columns[Column.CpuUsed]!} text={cores} />
            <Meter name={t("memory")} whole={found.columns[Column.Memory]!} asked={found.columns[Column.MemoryRequested]!} lent={0} used={found.columns[Column.MemoryUsed] ?? UNKNOWN} text={(mib) => bytes(mib * 1048576)} />
            {!seen.value && seen.error && <Missing asked={seen} text="" />}
            <Old asked={seen} />
            {seen.value && (
              <Wide>
                <table>
                  <thead><tr><th scope="col">{t("resource")}</th><th scope="col" class="number">{t("allocatable")}</th><th scope="col" class="number">{t("requested")}</th><th scope="col" class="number">{t("legend.free")}</th></tr></thead>
                  <tbody>{seen.value.amounts.map((each) => <tr key={each.resource}><th scope="row">{each.resource}</th><td class="number">{shownQuantity(each.resource, each.allocatable)}</td><td class="number">{shownQuantity(each.resource, each.requested)}</td><td class="number">{shownQuantity(each.resource, each.free)}</td></tr>)}</tbody>
                </table>
              </Wide>
            )}
          </section>
          <Lent page={lent.value} error={lent.error} />
          <Reservations node={name} key={`r${name}`} />
          <section>
            <h2>{t("labels")}</h2>
            <ul class="labels">{found.labels.map(([key, value]) => <li key={key}><a href={to("machines", { q: `${key}=${value}` })}>{key}={value}</a></li>)}</ul>
            {found.taints.length > 0 && <p><b>{t("taints")}</b> {found.taints.join(", ")}</p>}
          </section>
          </div>
          <div>
          <NodeAgent name={name} key={name} />
          <section>
            <h2>{t("hardware")}</h2>
            {topology.value ? <Cpus topology={topology.value} free={free.value} /> : <Missing asked={topology} text={t("cpus.none")} />}
            {devices.value ? <Devices summary={devices.value} /> : <Missing asked={devices} text={t("devices.none")} />}
            <Old asked={free} />
          </section>
          <section>
            <h2>{t("node.pods")}</h2>
            {found.pods.length ? <PodTable pods={found.pods} /> : <p class="soft">{t("node.no-pods")}</p>}
          </section>
          </div>
          </div>
        </>
      )}
    </article>
  );
}

/** Why there is nothing: it is on its way, its source does not answer, or there is none. */
function Missing({ asked, text }: { asked: Asked<unknown>; text: string }) {
  if (asked.error) return <p class="error">{asked.error}</p>;
  return <p class="soft">{asked.isLoading ? t("loading") : text}</p>;
}

function Lent({ page, error }: { page: LentPage | null; error: string }) {
  const shown = page?.amounts.filter((each) => each.onNode !== null && (each.onNode > 0 || each.terms.some((term) => term.amount))) ?? [];
  return (
    <section>
      <h2>{t("lent.title")}</h2>
      {error && <p class="error">{error}</p>}
      {!page && !error && <p class="soft">{t("loading")}</p>}
      {page && shown.length === 0 && <p class="soft">{t("lent.none")} {page.reason}</p>}
      {page?.configError && <p class={shown.length ? "error" : "soft"}>{page.configError}</p>}
      {shown.map((each) => (
        <Waterfall key={each.resource} resource={each.resource} policy={each.policy} terms={each.terms} sum={each.written ?? each.onNode ?? 0} />
      ))}
    </section>
  );
}

/** Terms as a waterfall: each bar starts where the sum of those before it ends. */
function Waterfall({ resource, policy, terms, sum }: { resource: string; policy: string; terms: { name: string; amount: number }[]; sum: number }) {
  let running = 0;
  const bars = terms.map((term) => {
    const from = running;
    running += term.amount;
    return { ...term, low: Math.min(from, running), high: Math.max(from, running) };
  });
  const most = Math.max(1, sum, ...bars.map((bar) => bar.high));
  const place = (low: number, high: number): { marginLeft: string; width: string } => ({
    marginLeft: `${(100 * Math.max(0, low)) / most}%`,
    width: `${Math.max(0.4, (100 * (high - Math.max(0, low))) / most)}%`,
  });
  return (
    <div class="waterfall">
      <h3>{resource} <b>{amount(resource, sum)}</b> <span class="soft">{policy && t("lent.policy", { policy })}</span></h3>
      <ul>
        {bars.filter((bar) => bar.amount !== 0).map((bar) => (
          <li key={bar.name}>
            <span class="bar-text">{bar.name}</span>
            <span class="bar-number">{bar.amount < 0 ? "−" : "+"}{amount(resource, Math.abs(bar.amount))}</span>
            <span class="track"><i class={bar.amount < 0 ? "minus" : "plus"} style={place(bar.low, bar.high)} /></span>
          </li>
        ))}
        <li class="sum">
          <span class="bar-text">{t("lent.sum")}</span>
          <span class="bar-number">{amount(resource, sum)}</span>
          <span class="track"><i class="sum" style={place(0, sum)} /></span>
        </li>
      </ul>
    </div>
  );
}

function parseCpus(text: string): number[] {
  return text.split(",").filter(Boolean).flatMap((part) => {
    const [from, end] = part.split("-").map(Number) as [number, number | undefined];
    return Array.from({ length: (end ?? from) - from + 1 }, (_, k) => from + k);
  });
}

function Cpus({ topology, free }: { topology: CpuTopology; free: FreeCpus | null }) {
  const cpus = Object.values(topology.cpuTopology.cpuDetails);
  const holder = new Map<number, { pod: string; index: number }>();
  free?.allocated.forEach((each, index) => parseCpus(each.cpus).forEach((cpu) => holder.set(cpu, { pod: each.pod, index })));
  const reserved = new Map<number, string>();
  for (const [owner, text] of Object.entries(topology.reserved)) parseCpus(text).forEach((cpu) => reserved.set(cpu, owner));
  const nodes = [...new Set(cpus.map((cpu) => cpu.nodeID))].sort((a, b) => a - b);
  const palette = colours.value;
  const available = free ? parseCpus(free.availableCPUs).length : cpus.length;
  return (
    <>
      <p class="soft">{t("cpus.free", { n: available, all: cpus.length })}</p>
      <div class="numa">
        {nodes.map((numa) => {
          const cores = [...new Set(cpus.filter((cpu) => cpu.nodeID === numa).map((cpu) => cpu.coreID))].sort((a, b) => a - b);
          return (
            <div class="numa-node" key={numa}>
              <h3>{t("cpus.of", { n: numa })}</h3>
              <div class="cores">
                {cores.map((core) => (
                  <div class="core" key={core}>
                    {cpus.filter((cpu) => cpu.coreID === core && cpu.nodeID === numa).map((cpu) => {
                      const held = holder.get(cpu.cpuID);
                      const by = held?.pod ?? reserved.get(cpu.cpuID) ?? "";
                      return held ? (
                        <a key={cpu.cpuID} class="cpu held" title={by} style={{ backgroundColor: css(palette.full(held.index)) }} href={to("pods", { pod: held.pod })}>{cpu.cpuID}</a>
                      ) : (
                        <span key={cpu.cpuID} class={`cpu${by ? " reserved" : ""}`} title={by}>{cpu.cpuID}</span>
                      );
                    })}
                  </div>
                ))}
              </div>
            </div>
          );
        })}
      </div>
    </>
  );
}

/** Devices as boxes that fill with what is allocated of them. */
function Devices({ summary }: { summary: DeviceSummary }) {
  if (!summary.devices.length) return <p class="soft">{t("devices.none")}</p>;
  return (
    <div class="devices">
      {summary.devices.map((each) => {
        const share = Math.max(0, ...Object.entries(each.total).map(([name, whole]) => (quantity(each.used[name] ?? "0") || 0) / (quantity(whole) || Infinity)));
        const holders = each.holders.map((holder) => holder.pod);
        return (
          <div class={`device${each.isHealthy ? "" : " broken"}`} key={`${each.type}${each.minor}`}>
            <span>{each.type} {each.minor}{each.numa !== null && <span class="soft"> NUMA {each.numa}</span>}</span>
            <div class="device-box"><i style={{ height: `${Math.min(100, 100 * share)}%` }} /><b>{percent(share, 1)}</b></div>
            {holders.map((pod) => <a key={pod} class="soft" href={to("pods", { pod })}>{pod}</a>)}
          </div>
        );
      })}
      {summary.wrong.map((line) => <p class="error" key={line}>{line}</p>)}
    </div>
  );
}
