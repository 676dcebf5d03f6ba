// Monitors of a zone, in the view "Zones": what its services feel on each node, the guest's and the node's side of its machines, and what those may have. From /api/zone/NAME. Its file is loaded when a zone is opened.
import type { ComponentChildren } from "preact";
import { useAsked } from "../ask";
import { bytes, cores, count, milliseconds } from "../format";
import { Old } from "../old";
import { Wide } from "../parts";
import { to } from "../route";
import { t } from "../words";
import type { Figures, MonitorsPage, NodeMonitors } from "./answers";
import { told } from "./words";

const MIB = 2 ** 20;
const LATE_PER_S = 2;
const STALL = 0.1;
type Word = Parameters<typeof told>[0];
type Column = [Word, (each: Figures) => ComponentChildren, isBad?: (each: Figures) => boolean];

/** Marked where a zone with the usual limits (`policy`) takes its services for pressed. */
const FELT: Column[] = [
  ["late", (each) => number(each.late_per_s), (each) => (each.late_per_s ?? 0) > LATE_PER_S],
  ["burn", (each) => number(each.burn), (each) => (each.burn ?? 0) > 1],
  ["stall", (each) => share(each.stall), (each) => (each.stall ?? 0) > STALL],
  ["batch", (each) => number(each.batch_cpus)],
];
const FRONT: Column[] = [
  ["runnable", (each) => number(each.front?.runnable)],
  ["wait", (each) => milliseconds(each.front?.wait_ms)],
  ["softirq", (each) => number(each.front?.softirq_cpus)],
  ["steal", (each) => number(each.front?.steal_cpus)],
  ["cpu", (each) => share(each.front?.cpu_pressure)],
  ["memory", (each) => share(each.front?.memory_pressure)],
  ["io", (each) => share(each.front?.io_pressure)],
];
const BACK: Column[] = [
  ["vcpus", (each) => number(each.back?.vcpu_cpus)],
  ["stolen", (each) => share(each.back?.stolen)],
  ["devices", (each) => number(each.back?.device_cpus)],
  ["share", (each) => number(each.back?.share_cpus)],
  ["vhost", (each) => number(each.back?.vhost_cpus)],
  ["exits", (each) => number(each.back?.exits_per_s)],
  ["kicks", (each) => number(each.back?.kicks_per_s)],
  ["notifications", (each) => number(each.back?.notifications_per_s)],
  ["ratio", (each) => number(each.back?.kicks_per_notification)],
];

export function Monitors({ of }: { of: string }) {
  const asked = useAsked<MonitorsPage>(`/api/zone/${encodeURIComponent(of)}`, 3);
  const page = asked.value;
  if (asked.error && !page) return <p class="error" role="alert">{asked.error}</p>;
  if (!page) return <p class="soft">{t("loading")}</p>;
  const running = page.nodes.filter((each) => each.figures);
  const machines = running.filter((each) => each.figures!.machine);
  return (
    <div data-monitors>
      <Old asked={asked} />
      {running.length === 0 && <p class="soft">{told("none")}</p>}
      <Side title="felt" columns={FELT} nodes={running} />
      <Side title="front" columns={FRONT} nodes={running.filter((each) => each.figures!.front)} />
      <Side title="back" columns={BACK} nodes={running.filter((each) => each.figures!.back)} />
      {machines.length > 0 && <Limits nodes={machines} />}
      {page.nodes.filter((each) => each.problem).map((each) => <p class="soft" key={each.node} data-no-monitors={each.node}>{each.node}: {each.problem}</p>)}
      {page.left_out > 0 && <p class="soft">{told("left-out", { n: count(page.left_out) })}</p>}
    </div>
  );
}

function Side({ title, columns, nodes }: { title: Word; columns: Column[]; nodes: NodeMonitors[] }) {
  if (nodes.length === 0) return null;
  return (
    <section data-side={title}>
      <h2>{told(title)}</h2>
      <Wide>
        <table>
          <thead><tr><th scope="col">{t("node")}</th>{columns.map(([word]) => <th scope="col" class="number" key={word}>{told(word)}</th>)}</tr></thead>
          <tbody>
            {nodes.map((each) => (
              <tr key={each.node}>
                <Node name={each.node} />
                {columns.map(([word, shown, isBad]) => <td class={`number${isBad?.(each.figures!) ? " burning" : ""}`} key={word}>{shown(each.figures!)}</td>)}
              </tr>
            ))}
          </tbody>
        </table>
      </Wide>
    </section>
  );
}

function Limits({ nodes }: { nodes: NodeMonitors[] }) {
  return (
    <section data-side="limits">
      <h2>{told("limits")}</h2>
      <Wide>
        <table>
          <thead><tr><th scope="col">{t("node")}</th><th scope="col" class="number">{told("of-memory")}</th><th scope="col" class="number">{told("vcpus")}</th><th scope="col" class="number">{told("of-cpu")}</th><th scope="col" class="number">{told("of-disk")}</th><th scope="col">{told("together")}</th></tr></thead>
          <tbody>
            {nodes.map(({ node, figures, machines }) => {
              const own = figures!.machine!;
              return (
                <tr key={node}>
                  <Node name={node} />
                  <td class="number">{bytes(own.memory_mib * MIB)}</td>
                  <td class="number">{own.vcpus}</td>
                  <td class="number">{own.cpu_milli ? told("cpus", { n: cores(own.cpu_milli) }) : told("no-limit")}</td>
                  <td class="number">{own.disk_mib ? told("of", { n: count(Math.ceil(own.disk_bytes / MIB)), all: count(own.disk_mib) }) : "–"}</td>
                  <td>{machines ? `${told("of", { n: count(machines.memory_mib), all: count(machines.max_memory_mib) })}, ${told("of-vcpus", { n: machines.vcpus, all: machines.max_vcpus })}` : "–"}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </Wide>
    </section>
  );
}

function Node({ name }: { name: string }) {
  return <td><a href={to("node", { name })}>{name}</a></td>;
}

function number(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  return value >= 100 ? count(Math.round(value)) : String(Number(value.toFixed(2)));
}

function share(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : `${(100 * value).toFixed(1)} %`;
}
