// What the pages of a fleet have in common: states, figures, a table of containers.
import type { ComponentChildren } from "preact";
import { bytes, cores, count } from "../format";
import { hostsVersion } from "../live";
import { type Asked, useAsked } from "../ask";
import { Wide } from "../parts";
import { to } from "../route";
import { named, t } from "../words";
import type { ContainerRow, Figures } from "./answers";

const KEEP_S = 10; // the console asks the fleet while it is asked itself
const FAILED: readonly string[] = ["Failed", "Unknown", "away", "suspect"];

/** An answer about the fleet, asked again with each new version of what is known. */
export function useHosts<T>(path: string): Asked<T> {
  return useAsked<T>(path ? `${path}${path.includes("?") ? "&" : "?"}v=${hostsVersion.value}` : "", KEEP_S);
}

export function address(kind: "host" | "container" | "group", name: string): string {
  return to("fleet", { [kind]: name });
}

/** A state with its mark; red where somebody should look. */
export function State({ state }: { state: string }) {
  return <span class={`nowrap${FAILED.includes(state) ? " burning" : state === "Ready" || state === "ready" ? " good" : ""}`}>{named("fleet.state", state)}</span>;
}

/** How many containers are in each state. */
export function States({ states }: { states: Record<string, number> }) {
  const shown = Object.entries(states).sort();
  if (!shown.length) return <>–</>;
  return <>{shown.map(([state, n], k) => <span key={state}>{k > 0 && ", "}{count(n)} <State state={state} /></span>)}</>;
}

function rate(amount: number | null): string {
  return amount === null ? "–" : `${bytes(amount)}/s`;
}

function load(value: number | null): string {
  return value === null ? "–" : value.toFixed(2);
}

/** What is used, of so much. */
export function used(amount: number | null, whole: number, text: (value: number) => string): string {
  return amount === null ? "–" : whole ? t("fleet.of", { used: text(amount), all: text(whole) }) : text(amount);
}

export function FigureList({ figures }: { figures: Figures }) {
  const shown: [string, string | null][] = [
    [t("cpu"), figures.cpu === null ? null : cores(figures.cpu)],
    [t("fleet.system"), figures.system === null ? null : cores(figures.system)],
    [t("fleet.held"), figures.held === null ? null : `${figures.held / 10} %`],
    [t("memory"), figures.memory === null ? null : bytes(figures.memory)],
    [t("fleet.load"), figures.load1 === null ? null : [figures.load1, figures.load5, figures.load15].map(load).join(" ")],
    [t("fleet.network"), figures.received === null ? null : `${rate(figures.received)} / ${rate(figures.sent)}`],
    [t("fleet.disk"), figures.read === null ? null : `${rate(figures.read)} / ${rate(figures.written)}`],
    [t("fleet.tasks"), figures.tasks === null ? null : count(figures.tasks)],
    ["OOM", figures.oomKills === null ? null : count(figures.oomKills)],
    [t("fleet.restarts"), figures.restarts === null ? null : count(figures.restarts)],
  ];
  return <dl class="facts">{shown.filter(([, value]) => value !== null).map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>;
}

export function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return <div><dt>{name}</dt><dd>{children}</dd></div>;
}

/** `isOfGroup`: the group is the page's, so its column is the host's. */
export function ContainerTable({ rows, isOfGroup = false, hasHost = false }: { rows: ContainerRow[]; isOfGroup?: boolean; hasHost?: boolean }) {
  return (
    <Wide>
      <table>
        <thead><tr><th scope="col">{t("fleet.container")}</th><th scope="col">{t("state")}</th>{(isOfGroup || hasHost) && <th scope="col">{t("fleet.host")}</th>}{!isOfGroup && <th scope="col">{t("fleet.group")}</th>}<th scope="col">{t("fleet.ports")}</th><th scope="col" class="number">{t("cpu")}</th><th scope="col" class="number">{t("memory")}</th><th scope="col">{t("fleet.limits")}</th></tr></thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.guid}>
              <th scope="row" class="named"><a href={address("container", row.guid)}>{row.appkey || row.guid}</a> {row.appkey && <span class="soft">{row.guid}</span>}</th>
              <td><State state={row.state} /> {row.hasFailed && <span class="burning">{t("fleet.this-failed")}</span>} {row.detail && <span class="soft">{row.detail}</span>}</td>
              {(isOfGroup || hasHost) && <td><a href={address("host", row.agent)}>{row.host || row.agent}</a></td>}
              {!isOfGroup && <td>{row.group ? <a href={address("group", row.group)}>{row.group}</a> : "–"}</td>}
              <td>{row.ports.join(", ") || "–"}</td>
              <td class="number">{row.usedCpu === null ? "–" : cores(row.usedCpu)}</td>
              <td class="number">{row.usedMemory === null ? "–" : bytes(row.usedMemory)}</td>
              <td>{row.limits.join(", ") || "–"}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Wide>
  );
}
