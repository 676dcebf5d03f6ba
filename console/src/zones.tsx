// The view "Zones": groups of applications with a scheduler of their own, and how each stands on its nodes. From ControlZones.
import { useAsked } from "./ask";
import type { Zone, ZoneOnNode } from "./answers";
import { count } from "./format";
import { moveFocus } from "./keys";
import { Later } from "./later";
import { Old } from "./old";
import { Empty, Rich, Wide } from "./parts";
import { param, set, to } from "./route";
import { named, t } from "./words";

const BAD: readonly string[] = ["failed", "gone", "refused", "unknown"];
const MAX_NODES = 200;
const loadMonitors = () => import("./monitors/view").then((found) => found.Monitors);

export function Zones() {
  const chosen = param("zone");
  const q = param("q").toLowerCase();
  const found = useAsked<Zone[]>("/api/zones", 3);
  const zones = found.value?.filter((zone) => [zone.name, ...zone.applications, ...zone.nodes.map((each) => each.node)].some((text) => text.toLowerCase().includes(q)));
  const zone = found.value?.find((each) => each.name === chosen) ?? (chosen ? undefined : zones?.[0]);
  if (found.value?.length === 0 && !chosen) return <Empty text={t("zones.empty")} />;
  return (
    <div class={`pods${chosen ? " has-choice" : ""}`}>
      <section class="list" aria-label={t("zones")}>
        <div class="controls">
          <input type="search" class="search" value={param("q")} placeholder={t("search.zones")} aria-label={t("search.zones")} onInput={(event) => set({ q: event.currentTarget.value })} />
        </div>
        <Old asked={found} />
        {found.error && !found.value && <p class="error" role="alert">{found.error}</p>}
        {!found.value && found.isLoading && <p class="soft">{t("loading")}</p>}
        
        {zones?.length === 0 && found.value !== null && found.value.length > 0 && <p class="empty">{t("zones.none")}</p>}
        <div class="rows" onKeyDown={moveFocus}>
          {zones?.map((each) => (
            <a key={each.name} class={`row${each.name === chosen ? " chosen" : ""}`} aria-current={each.name === chosen} href={to("zones", { q: param("q"), zone: each.name })}>
              <span class={`state s-${mark(each)}`} aria-hidden="true" />
              <span class="row-name">
                <b>{each.name}</b>
                <span class="soft">{each.backend || t("zone.wrong")}</span>
              </span>
              <span class="row-figures">
                <span>{standing(each)}</span>
                <span class="soft">{[...new Set(each.nodes.map((node) => node.setting).filter(Boolean))].sort().join(", ")}</span>
              </span>
            </a>
          ))}
        </div>
      </section>
      <section class="detail">
        {zone ? <Detail zone={zone} key={zone.name} /> : chosen && found.value ? <p class="empty">{t("zone.gone", { name: chosen })}</p> : found.value !== null && found.value.length > 0 && <p class="empty">{t("zones.choose")}</p>}
      </section>
    </div>
  );
}

function standing(zone: Zone): string {
  return zone.nodes.length ? t("zone.active", { n: count(zone.active), all: count(zone.nodes.length) }) : t("zone.not-reported");
}

function mark(zone: Zone): string {
  if (zone.wrong || zone.nodes.some((each) => BAD.includes(each.state))) return "late";
  return zone.nodes.length > 0 && zone.active === zone.nodes.length ? "ok" : "wait";
}

function Detail({ zone }: { zone: Zone }) {
  return (
    <article class="story" aria-label={zone.name}>
      <p class="crumb"><a href={to("zones", { q: param("q") })}>← {t("zones")}</a></p>
      <h1>{zone.name}</h1>
      <p class={`headline${mark(zone) === "ok" ? "" : " waits"}`} data-headline>{standing(zone)}</p>
      {zone.wrong && <p class="error">{zone.wrong}</p>}
      <dl class="facts">
        <div><dt>{t("zone.backend")}</dt><dd>{zone.backend || "–"}</dd></div>
        {zone.start && <div><dt>{t("zone.start")}</dt><dd>{zone.start}</dd></div>}
        {zone.start && <div><dt>{t("zone.modes")}</dt><dd>{zone.modes.join(", ")}</dd></div>}
        <div><dt>{t("zone.only-on")}</dt><dd>{zone.only_on.join(", ") || t("zone.everywhere")}</dd></div>
        {zone.applications.length > 0 && <div><dt>{t("zone.applications")}</dt><dd>{zone.applications.join("; ")}</dd></div>}
      </dl>
      {zone.rules.length > 0 && (
        <section>
          <h2>{t("zone.rules")}</h2>
          <Wide>
            <table>
              <thead><tr><th scope="col">{t("zone.of")}</th><th scope="col">{t("zone.kind")}</th><th scope="col" class="number">{t("zone.weight")}</th><th scope="col" class="number">{t("zone.slice")}</th><th scope="col" class="number">{t("zone.late")}</th></tr></thead>
              <tbody>
                {zone.rules.map((rule, at) => (
                  <tr key={at}>
                    <td>{rule.applies_to || t("zone.all-others")}</td>
                    <td>{t(rule.kind === "service" ? "zone.service" : "zone.batch")}</td>
                    <td class="number">{rule.weight || "–"}</td>
                    <td class="number">{rule.slice_us ? `${rule.slice_us} µs` : "–"}</td>
                    <td class="number">{rule.late_ms ? `${rule.late_ms} ms` : "–"}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Wide>
        </section>
      )}
      <section>
        <h2>{t("zone.nodes")}</h2>
        {zone.nodes.length === 0 && <p class="soft"><Rich text={t("zone.no-nodes")} /></p>}
        {zone.nodes.length > 0 && (
          <Wide>
            <table>
              <thead><tr><th scope="col">{t("node")}</th><th scope="col">{t("state")}</th><th scope="col">{t("zone.setting")}</th><th scope="col" class="number">{t("zone.groups")}</th><th scope="col">{t("zone.last")}</th></tr></thead>
              <tbody>{zone.nodes.slice(0, MAX_NODES).map((each) => <Row each={each} key={each.node} />)}</tbody>
            </table>
          </Wide>
        )}
        {zone.nodes.length > MAX_NODES && <p class="soft">{t("pods.shown", { n: MAX_NODES, all: count(zone.nodes.length) })}</p>}
      </section>
      <Machines zone={zone} />
      {zone.nodes.length > 0 && <Later load={loadMonitors} of={zone.name} />}
    </article>
  );
}

/** The pods of the zone's virtual machines, a row a pod and node. */
function Machines({ zone }: { zone: Zone }) {
  const nodes = zone.nodes.filter((each) => each.pods.length > 0);
  const rows = nodes.flatMap((each) => each.pods.map((pod) => ({ node: each.node, pod })));
  if (rows.length === 0) return null;
  return (
    <section>
      <h2>{t("zone.pods")}</h2>
      <p class="soft">{[...new Set(nodes.map((each) => each.machine).filter(Boolean))].join("; ")}</p>
      <Wide>
        <table>
          <thead><tr><th scope="col">{t("zone.pod")}</th><th scope="col">{t("node")}</th><th scope="col">{t("zone.kind")}</th><th scope="col">{t("state")}</th><th scope="col">{t("zone.ports")}</th><th scope="col" class="number">{t("zone.restarts")}</th></tr></thead>
          <tbody>
            {rows.slice(0, MAX_NODES).map(({ node, pod }) => (
              <tr key={`${node}/${pod.name}`} data-zone-pod={pod.name}>
                <td>{pod.name}</td>
                <td><a href={to("node", { name: node })}>{node}</a></td>
                <td>{t(pod.kind === "batch" ? "zone.batch" : "zone.service")}</td>
                <td class={pod.ready || pod.exit === 0 ? "" : "burning"}>{podState(pod)}{pod.message && <span class="soft"> {pod.message}</span>}</td>
                <td>{pod.ports.join(", ") || "–"}</td>
                <td class="number">{count(pod.restarts)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Wide>
      {rows.length > MAX_NODES && <p class="soft">{t("pods.shown", { n: MAX_NODES, all: count(rows.length) })}</p>}
    </section>
  );
}

function podState(pod: ZoneOnNode["pods"][number]): string {
  if (pod.running) return t(pod.ready ? "zone.pod-ready" : "zone.pod-waits");
  return pod.exit === null ? t("zone.pod-none") : t("zone.pod-ended", { n: pod.exit });
}

function Row({ each }: { each: ZoneOnNode }) {
  return (
    <tr>
      <td><a href={to("node", { name: each.node })}>{each.node}</a></td>
      <td class={BAD.includes(each.state) ? "burning" : ""}>{named("zone.state", each.state)}{each.outdated && <span class="soft"> {t("zone.outdated")}</span>}</td>
      <td>{each.setting || "–"}</td>
      <td class="number">{each.groups}</td>
      <td>{each.message || waits(each) || each.last_change || "–"}</td>
    </tr>
  );
}

/** The condition that keeps a zone from being ready, in its own words. */
function waits(each: ZoneOnNode): string {
  const ready = each.conditions.find((one) => one.type === "Ready");
  return ready?.status === "False" ? ready.message : "";
}
