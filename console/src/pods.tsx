// The view "Pods": a list that finds, and beside it the story of one pod; without a choice, what waits and what burns.
import { useEffect, useRef } from "preact/hooks";
import { useAsked } from "./ask";
import type { PodList, PodRow } from "./answers";
import { age, cores, count, milliseconds } from "./format";
import { moveFocus } from "./keys";
import { Old } from "./old";
import { PodName, Wide } from "./parts";
import { param, set, to } from "./route";
import { Story } from "./story";
import { t, type Word } from "./words";

const STATES = ["", "pending", "running", "burning"] as const;
const MAX_OWNERS = 30;

export function Pods() {
  const chosen = param("pod");
  const query = new URLSearchParams({ q: param("q"), state: param("state"), limit: "200" });
  const found = useAsked<PodList>(`/api/pods?${query}`, 3, 150);
  return (
    <div class={`pods${chosen ? " has-choice" : ""}`}>
      <section class="list" aria-label={t("pods")}>
        <div class="controls">
          <input type="search" class="search" value={param("q")} placeholder={t("search.pods")} aria-label={t("search.pods")} onInput={(event) => set({ q: event.currentTarget.value })} />
          <div class="chips" role="group" aria-label={t("state")}>
            {STATES.map((state) => (
              <button type="button" key={state} aria-pressed={param("state") === state} onClick={() => set({ state })}>
                {t((state || "all") as Word)}
              </button>
            ))}
          </div>
        </div>
        <Old asked={found} />
        {found.error && found.value === null && <p class="error" role="alert">{found.error}</p>}
        {found.value && (
          <p class="soft">
            {t("pods.count", { n: count(found.value.count) })}
            {found.value.count > found.value.pods.length && ` · ${t("pods.shown", { n: found.value.pods.length, all: count(found.value.count) })}`}
          </p>
        )}
        {found.value?.count === 0 && <p class="empty">{t(param("q") || param("state") ? "pods.none" : "pods.empty")}</p>}
        <PodTable pods={found.value?.pods ?? []} chosen={chosen} inPlace />
      </section>
      <section class="detail">{chosen ? <Story pod={chosen} key={chosen} /> : <Overview />}</section>
    </div>
  );
}

interface Owner {
  name: string;
  tenant: string;
  search: string;
  pods: number;
  cpu: number;
  since: number;
  gang: string;
}

/** Pods that wait, by what made them; the longest waiting first. */
function owners(pods: PodRow[]): Owner[] {
  const found = new Map<string, Owner>();
  for (const row of pods) {
    const namespace = row.pod.slice(0, row.pod.indexOf("/"));
    const name = row.owner ? `${namespace} ${row.owner}` : row.pod;
    const known = found.get(name);
    if (known) {
      known.pods++;
      known.cpu += row.cpu + row.lentCpu;
      known.since = Math.min(known.since, row.created);
    } else found.set(name, { name, tenant: row.tenant, search: row.owner ? row.owner.slice(row.owner.indexOf("/") + 1) : row.pod, pods: 1, cpu: row.cpu + row.lentCpu, since: row.created, gang: row.gang });
  }
  return [...found.values()].sort((a, b) => a.since - b.since);
}

/** What needs a look: which work waits and since when, and which services miss their objective. */
function Overview() {
  const waiting = useAsked<PodList>("/api/pods?state=pending&limit=500", 5);
  const late = useAsked<PodList>("/api/pods?state=burning&limit=200", 5);
  const groups = owners(waiting.value?.pods ?? []);
  const now = Date.now() / 1000;
  if (!waiting.value || !late.value) return <p class="soft">{waiting.error || t("loading")}</p>;
  return (
    <div class="story">
      <p class="soft">{t("pods.choose")}</p>
      <section>
        <h2>{t("overview.waiting")} <span class="soft">{t("pods.count", { n: count(waiting.value.count) })}</span></h2>
        {groups.length === 0 && <p class="good">{t("overview.none-waits")}</p>}
        {groups.length > 0 && (
          <Wide>
            <table>
              <thead><tr><th scope="col">{t("owner")}</th><th scope="col">{t("tenant")}</th><th scope="col" class="number">{t("pods")}</th><th scope="col" class="number">{t("cpu")}</th><th scope="col" class="number">{t("overview.since")}</th></tr></thead>
              <tbody>
                {groups.slice(0, MAX_OWNERS).map((each) => (
                  <tr key={each.name}>
                    <th scope="row"><a href={to("pods", each.pods === 1 && each.search.includes("/") ? { state: "pending", pod: each.search } : { state: "pending", q: each.search })}>{each.name}</a>{each.gang && <span class="soft"> {t("gang")} {each.gang}</span>}</th>
                    <td>{each.tenant}</td>
                    <td class="number">{count(each.pods)}</td>
                    <td class="number">{cores(each.cpu)}</td>
                    <td class="number">{age(now - each.since)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Wide>
        )}
        {groups.length > MAX_OWNERS && <p class="soft">{t("legend.others", { n: count(groups.length - MAX_OWNERS) })}</p>}
        {waiting.value.count > waiting.value.pods.length && <p class="soft">{t("pods.shown", { n: count(waiting.value.pods.length), all: count(waiting.value.count) })}</p>}
      </section>
      <section>
        <h2>{t("overview.late")} <span class="soft">{t("pods.count", { n: count(late.value.count) })}</span></h2>
        {late.value.unnamed > 0 && <p>{t("overview.unnamed", { n: count(late.value.unnamed) })}</p>}
        {late.value.count === 0 && late.value.unnamed === 0 && <p class="good">{t("overview.none-late")}</p>}
        {late.value.count > 0 && (
          <Wide>
            <table>
              <thead><tr><th scope="col">Pod</th><th scope="col">{t("node")}</th><th scope="col" class="number">{t("latency")}</th><th scope="col" class="number">{t("objective")}</th></tr></thead>
              <tbody>
                {late.value.pods.map((row) => (
                  <tr key={row.pod}>
                    <th scope="row"><a href={to("pods", { state: "burning", pod: row.pod })}>{row.pod}</a></th>
                    <td><a href={to("node", { name: row.node })}>{row.node}</a></td>
                    <td class="number burning">{milliseconds(row.latencyMs)}</td>
                    <td class="number">{milliseconds(row.objectiveMs)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Wide>
        )}
      </section>
    </div>
  );
}

/** Pods as rows; arrow keys move between them. `inPlace`: a choice changes the present view only. */
export function PodTable({ pods, chosen = "", inPlace = false }: { pods: PodRow[]; chosen?: string; inPlace?: boolean }) {
  const rows = useRef<HTMLDivElement>(null);
  const isShown = pods.some((row) => row.pod === chosen);
  useEffect(() => {
    if (isShown) rows.current?.querySelector(".chosen")?.scrollIntoView({ block: "nearest" });
  }, [chosen, isShown]);
  const address = (pod: string): string => {
    if (!inPlace) return to("pods", { pod });
    return to("pods", { q: param("q"), state: param("state"), pod });
  };
  const now = Date.now() / 1000;
  return (
    <div class="rows" onKeyDown={moveFocus} ref={rows}>
      {pods.map((row) => (
        <a key={row.pod} href={address(row.pod)} class={`row${row.pod === chosen ? " chosen" : ""}`} aria-current={row.pod === chosen}>
          <span class={`state s-${row.node ? (row.late ? "late" : "ok") : "wait"}`} aria-hidden="true" />
          <span class="row-name">
            <PodName pod={row.pod} />
            <span class="soft">{row.pod.slice(0, row.pod.indexOf("/"))} · {inPlace && `${row.node || t("pending")} · `}{row.tenant} · {t(`kind.${row.kind}` as Word)}</span>
          </span>
          <span class="row-figures">
            <span>{cores(row.cpu + row.lentCpu)} {t("cpu")}</span>
            <span class="soft">{row.usedCpu === null ? (row.node ? t("unmeasured") : t("waits.for", { age: age(now - row.created) })) : `${t("used")} ${cores(row.usedCpu)}`}</span>
          </span>
        </a>
      ))}
    </div>
  );
}
