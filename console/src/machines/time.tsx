// Time travel over the last hour: the snapshot of a moment, the slider, and the curves of the cluster's sums.
import { useEffect, useState } from "preact/hooks";
import { Fleet, type Totals } from "../fleet";
import { percent, when } from "../format";
import { param, set } from "../route";
import { t } from "../words";

export interface HistoryAnswer {
  snapshots: number[];
  curves: Record<"at" | "requested" | "used" | "lent" | "pending" | "burning", (number | null)[]>;
}

export interface Past {
  fleet: Fleet | null;
  error: string;
}

/** The cluster as it was at a moment; `error` where there is no such snapshot. */
export function usePast(at: string): Past {
  const [found, put] = useState<Past & { at: string }>({ at: "", fleet: null, error: "" });
  useEffect(() => {
    if (!at) return undefined;
    const ending = new AbortController();
    fetch(`/api/machines/at/${encodeURIComponent(at)}`, { signal: ending.signal })
      .then(async (answer) => {
        if (answer.status === 401) location.assign("/login");
        if (!answer.ok) throw new Error(((await answer.json()) as { error: string }).error);
        put({ at, fleet: Fleet.read(await answer.arrayBuffer()), error: "" });
      })
      .catch((error: Error) => {
        if (!ending.signal.aborted) put((before) => ({ ...before, at, error: error.message }));
      });
    return () => ending.abort();
  }, [at]);
  return found;
}

let times: number[] = [];

/** One kept snapshot back or ahead; ahead of the newest is live. */
export function travel(step: 1 | -1): void {
  const at = Number(param("at"));
  const now = param("at") ? times.findIndex((each) => each >= at - 0.001) : times.length;
  const next = (now < 0 ? times.length : now) + step;
  if (next < 0 || (step > 0 && !param("at"))) return;
  set({ at: times[next] === undefined ? "" : String(times[next]) });
}

const CURVES = [["requested", "asked", "requested"], ["lent", "lent", "lent.of"], ["used", "used", "used"]] as const;

/** `totals`: of this moment, which is the last point of the curves; null while another moment is shown. */
export function Curves({ history, totals, shownAt }: { history: HistoryAnswer; totals: Totals | null; shownAt: number | null }) {
  const curves = { ...history.curves };
  if (totals && totals.cpu_m > 0) {
    const last = { at: Date.now() / 1000, requested: (totals.requested_m + totals.lent_requested_m) / totals.cpu_m, lent: totals.lent_requested_m / totals.cpu_m, used: totals.used_m === null ? null : totals.used_m / totals.cpu_m };
    for (const name of ["at", "requested", "lent", "used"] as const) curves[name] = [...curves[name], last[name]];
  }
  const begin = curves.at[0] as number;
  const span = Math.max(1, (curves.at[curves.at.length - 1] as number) - begin);
  const most = Math.max(1, ...CURVES.flatMap(([name]) => curves[name].map((each) => each ?? 0)));
  const x = (at: number): number => (300 * (at - begin)) / span;
  const line = (name: (typeof CURVES)[number][0]): string => {
    let isOpen = false;
    return curves.at
      .map((at, k) => {
        const value = curves[name][k];
        if (value === null || value === undefined) {
          isOpen = false;
          return "";
        }
        const word = `${isOpen ? "L" : "M"}${x(at as number).toFixed(1)} ${(80 - (76 * value) / most).toFixed(1)}`;
        isOpen = true;
        return word;
      })
      .join("");
  };
  const shown = (name: (typeof CURVES)[number][0]): number | null => {
    const until = shownAt === null ? Infinity : shownAt + 1;
    const after = curves.at.findIndex((each) => each !== null && each > until);
    return curves[name][after < 0 ? curves.at.length - 1 : Math.max(0, after - 1)] ?? null;
  };
  return (
    <section class="card">
      <h2>{t("hour")}</h2>
      <svg class="curves" viewBox="0 0 300 84" preserveAspectRatio="none" role="img" aria-label={t("hour")}>
        <line x1="0" x2="300" y1={80 - 76 / most} y2={80 - 76 / most} class="whole" />
        {CURVES.map(([name, style]) => (
          <path key={name} d={line(name)} class={`curve ${style}`} vector-effect="non-scaling-stroke" />
        ))}
        {shownAt !== null && <line class="at" x1={x(shownAt)} x2={x(shownAt)} y1="0" y2="84" vector-effect="non-scaling-stroke" />}
      </svg>
      <div class="curve-key">
        {CURVES.map(([name, style, word]) => {
          const value = shown(name);
          return <span key={name}><i class={`key ${style}`} />{t(word)} {value === null ? "–" : percent(value, 1)}</span>;
        })}
      </div>
      <div class="soft between"><span>{when(begin)}</span><span>{when(begin + span)}</span></div>
    </section>
  );
}

export function TimeLine({ history, at, past }: { history: HistoryAnswer | null; at: string; past: Past }) {
  times = history?.snapshots ?? [];
  if (times.length < 2 && !at) return null;
  const found = times.findIndex((each) => each >= Number(at) - 0.001);
  const position = at && found >= 0 ? found : times.length;
  const shown = past.fleet ? when(past.fleet.at) : "…";
  return (
    <div class="timeline">
      <label>
        <span>{t("time")}</span>
        <input
          type="range"
          min={0}
          max={times.length}
          value={position}
          title={t("time.help")}
          aria-valuetext={at ? shown : t("live")}
          onInput={(event) => {
            const chosen = times[Number(event.currentTarget.value)];
            set({ at: chosen === undefined ? "" : String(chosen) });
          }}
        />
      </label>
      {at ? (
        <span class="past">{past.error || t("past", { at: shown })} <button type="button" onClick={() => set({ at: "" })}>{t("back.live")}</button></span>
      ) : (
        <span class="live"><i class="dot" />{t("live")}</span>
      )}
    </div>
  );
}
