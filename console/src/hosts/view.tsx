// The view "Fleet": hosts by region and tag, groups, and what a search finds. Sums come from the console, so that a thousand hosts are a page like ten.
import { bytes, cores, count } from "../format";
import { Old } from "../old";
import { Empty, Wide } from "../parts";
import { param, set, to } from "../route";
import { named, t } from "../words";
import type { HostRow, HostsPage, Region } from "./answers";
import { Container, Group, Host } from "./detail";
import { address, ContainerTable, State, States, used, useHosts } from "./parts";

const PAGE = 50;
const SHOWN_TAGS = 24;

export function FleetView() {
  if (param("host")) return <Host guid={param("host")} key={param("host")} />;
  if (param("container")) return <Container guid={param("container")} key={param("container")} />;
  if (param("group")) return <Group name={param("group")} key={param("group")} />;
  return <Overview />;
}

function Overview() {
  const region = param("region"); // "-": hosts that name none
  const query = new URLSearchParams({ q: param("q"), tag: param("tag"), state: param("state"), start: param("start") || "0", limit: String(PAGE) });
  if (region) query.set("region", region === "-" ? "" : region);
  const asked = useHosts<HostsPage>(`/api/hosts?${query}`);
  const page = asked.value;
  if (asked.error && !page) return <Empty text={t("fleet.none")} why={asked.error} />;
  if (!page) return <p class="empty">{t("loading")}</p>;
  const start = Number(param("start")) || 0;
  const choose = (values: Record<string, string>): void => set({ start: "", ...values });
  return (
    <div class="services fleet">
      <div class="controls">
        <input type="search" class="search" value={param("q")} placeholder={t("search.fleet")} aria-label={t("search.fleet")} onInput={(event) => choose({ q: event.currentTarget.value })} />
        {(["ready", "suspect", "away"] as const).map((state) => (
          <button type="button" key={state} aria-pressed={param("state") === state} onClick={() => choose({ state: param("state") === state ? "" : state })}>{count(page.states[state])} {page.states[state] ? <State state={state} /> : named("fleet.state", state)}</button>
        ))}
        {region && <button type="button" onClick={() => choose({ region: "" })}>{region === "-" ? t("fleet.no-region") : region} ×</button>}
        {param("tag") && <button type="button" onClick={() => choose({ tag: "" })}>{param("tag")} ×</button>}
      </div>
      <Old asked={asked} />
      <p class="soft">{t("fleet.sum", { hosts: count(page.hosts), containers: count(page.containers) })}</p>
      {page.hosts === 0 && <Empty text={t("fleet.no-hosts")} />}
      {page.regions.length > 1 && <Regions regions={page.regions} chosen={region} choose={choose} />}
      {page.tags.length > 0 && <p class="chips">{page.tags.slice(0, SHOWN_TAGS).map(([tag, n]) => <button type="button" key={tag} aria-pressed={param("tag") === tag} onClick={() => choose({ tag: param("tag") === tag ? "" : tag })}>{tag} <span class="soft">{count(n)}</span></button>)}</p>}
      {page.groups.length > 0 && <Groups page={page} />}
      {page.found.length > 0 && (
        <section>
          <h2>{t("fleet.containers")} <span class="soft">{count(page.containersFound)}</span></h2>
          <ContainerTable rows={page.found} hasHost />
        </section>
      )}
      {page.hosts > 0 && (
        <section>
          <h2>{t("fleet.hosts")} <span class="soft">{count(page.count)}</span></h2>
          <HostTable rows={page.rows} />
          {page.count > PAGE && (
            <p class="controls">
              <button type="button" disabled={start === 0} onClick={() => set({ start: start > PAGE ? String(start - PAGE) : "" })}>‹</button>
              <span>{t("fleet.range", { from: count(Math.min(start + 1, page.count)), to: count(Math.min(start + PAGE, page.count)), all: count(page.count) })}</span>
              <button type="button" disabled={start + PAGE >= page.count} onClick={() => set({ start: String(start + PAGE) })}>›</button>
            </p>
          )}
        </section>
      )}
    </div>
  );
}

function Regions({ regions, chosen, choose }: { regions: Region[]; chosen: string; choose: (values: Record<string, string>) => void }) {
  return (
    <Wide>
      <table>
        <thead><tr><th scope="col">{t("fleet.region")}</th>{(["hosts", "ready", "suspect", "away", "containers"] as const).map((name) => <th scope="col" class="number" key={name}>{t(name === "hosts" || name === "containers" ? `fleet.${name}` : `fleet.state.${name}`)}</th>)}</tr></thead>
        <tbody>
          {regions.map((row) => {
            const key = row.name || "-";
            return (
              <tr key={row.others ? "others" : key} class={!row.others && key === chosen ? "chosen" : ""}>
                <th scope="row">{row.others ? t("fleet.others", { n: count(row.others) }) : <button type="button" class="plain link" aria-pressed={key === chosen} onClick={() => choose({ region: key === chosen ? "" : key })}>{row.name || t("fleet.no-region")}</button>}</th>
                <td class="number">{count(row.hosts)}</td>
                <td class="number">{count(row.ready)}</td>
                <td class={`number${row.suspect ? " burning" : ""}`}>{count(row.suspect)}</td>
                <td class={`number${row.away ? " burning" : ""}`}>{count(row.away)}</td>
                <td class="number">{count(row.containers)}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </Wide>
  );
}

function Groups({ page }: { page: HostsPage }) {
  return (
    <section>
      <h2>{t("fleet.groups")} <span class="soft">{count(page.groupsFound)}</span></h2>
      <Wide>
        <table>
          <thead><tr><th scope="col">{t("fleet.group")}</th><th scope="col">{t("state")}</th><th scope="col">{t("fleet.containers")}</th><th scope="col">{t("fleet.reason")}</th></tr></thead>
          <tbody>
            {page.groups.map((group) => (
              <tr key={group.name}>
                <th scope="row"><a href={address("group", group.name)}>{group.name}</a></th>
                <td class={group.goal === "gone" ? "burning" : ""}>{standing(group.goal, group.isDone)}</td>
                <td><States states={group.states} /></td>
                <td>{group.reason || "–"}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Wide>
    </section>
  );
}

/** Where a group is on its way. */
export function standing(goal: string, isDone: boolean): string {
  if (goal === "gone") return t(isDone ? "fleet.undone" : "fleet.undoing");
  return t(isDone ? "fleet.up" : goal === "again" ? "fleet.restarting" : "fleet.going-up");
}

function HostTable({ rows }: { rows: HostRow[] }) {
  if (!rows.length) return <p class="soft">{t("fleet.no-match")}</p>;
  return (
    <Wide>
      <table>
        <thead><tr><th scope="col">{t("fleet.host")}</th><th scope="col">{t("state")}</th><th scope="col">{t("fleet.region")}</th><th scope="col">{t("fleet.tags")}</th><th scope="col">{t("fleet.containers")}</th><th scope="col" class="number">{t("cpu")}</th><th scope="col" class="number">{t("memory")}</th><th scope="col" class="number">{t("fleet.load")}</th><th scope="col">{t("fleet.version")}</th></tr></thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.guid}>
              <th scope="row"><a href={address("host", row.guid)}>{row.host || row.guid}</a> {row.node && <a class="soft" href={to("node", { name: row.node })}>{t("node")}</a>}</th>
              <td><State state={row.state} />{(row.faults > 0 || row.isDoubled) && <span class="burning"> {t("fleet.faults", { n: count(row.faults + Number(row.isDoubled)) })}</span>}</td>
              <td>{row.region || "–"}</td>
              <td>{row.tags.join(", ") || "–"}</td>
              <td><States states={row.states} /></td>
              <td class="number nowrap">{used(row.usedCpu, row.cpu, cores)}</td>
              <td class="number nowrap">{used(row.usedMemory, row.memory, bytes)}</td>
              <td class="number">{row.load === null ? "–" : row.load.toFixed(2)}</td>
              <td>{row.version}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Wide>
  );
}
