// The view "Pods": a list that finds, and beside it the story of one pod.
import { useAsked } from "./ask";
import type { PodList, PodRow } from "./answers";
import { clock, count, cores } from "./format";
import { moveFocus } from "./keys";
import { param, set, to } from "./route";
import { Story } from "./story";
import { t, type Word } from "./words";

const STATES = ["", "pending", "running", "burning"] as const;

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
        {found.error && <p class="error" role="alert">{found.error}</p>}
        {found.value && (
          <p class="soft">
            {t("pods.count", { n: count(found.value.count) })}
            {found.value.count > found.value.pods.length && ` · ${t("pods.shown", { n: found.value.pods.length, all: count(found.value.count) })}`}
          </p>
        )}
        {found.value?.count === 0 && <p class="empty">{t("pods.none")}</p>}
        <PodTable pods={found.value?.pods ?? []} chosen={chosen} inPlace />
      </section>
      <section class="detail">
        {chosen ? <Story pod={chosen} key={chosen} /> : <p class="empty">{t("pods.choose")}</p>}
      </section>
    </div>
  );
}

/** Pods as rows; arrow keys move between them. `inPlace`: a choice changes the present view only. */
export function PodTable({ pods, chosen = "", inPlace = false }: { pods: PodRow[]; chosen?: string; inPlace?: boolean }) {
  const address = (pod: string): string => {
    if (!inPlace) return to("pods", { pod });
    return to("pods", { q: param("q"), state: param("state"), pod });
  };
  return (
    <div class="rows" onKeyDown={moveFocus}>
      {pods.map((row) => (
        <a key={row.pod} href={address(row.pod)} class={`row${row.pod === chosen ? " chosen" : ""}`} aria-current={row.pod === chosen}>
          <span class={`state s-${row.node ? (isLate(row) ? "late" : "ok") : "wait"}`} aria-hidden="true" />
          <span class="row-name">
            <b>{row.pod}</b>
            <span class="soft">{row.node || t("pending")} · {row.tenant} · {t(`kind.${row.kind}` as Word)}</span>
          </span>
          <span class="row-figures">
            <span>{cores(row.cpu + row.lentCpu)} {t("cpu")}</span>
            <span class="soft">{row.usedCpu === null ? (row.node ? t("unmeasured") : clock(row.created)) : `${t("used")} ${cores(row.usedCpu)}`}</span>
          </span>
        </a>
      ))}
    </div>
  );
}

export function isLate(row: PodRow): boolean {
  return row.latencyMs !== null && row.objectiveMs !== null && row.latencyMs > row.objectiveMs;
}
