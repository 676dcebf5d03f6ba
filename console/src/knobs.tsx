// What the agent of a node does and sees: knobs with their leases, pressure of the machine, and which pods wait. From the node's agent.
import { useRef } from "preact/hooks";
import { useAsked } from "./ask";
import type { AgentPage, KnobRow, NoAgent } from "./answers";
import { bytes, clock, cores, milliseconds, when } from "./format";
import { Wide } from "./parts";
import { to } from "./route";
import { named, t, type Word } from "./words";

const PPM = 1_000_000;
const STALLS = ["cpu_stall_ppm", "memory_stall_ppm", "memory_full_stall_ppm", "io_stall_ppm", "steal_ppm"] as const;

export function NodeAgent({ name }: { name: string }) {
  const asked = useAsked<AgentPage | NoAgent>(`/api/agent/${encodeURIComponent(name)}`, 3);
  const last = useRef<{ page: AgentPage; at: number } | null>(null);
  if (asked.value && "knobs" in asked.value) last.current = { page: asked.value, at: asked.at };
  const page = last.current?.page ?? null;
  const problem = asked.value && "problem" in asked.value ? asked.value.problem : asked.error;
  return (
    <>
      <section>
        <h2>{t("knobs")} {page && <span class="soft">{t("knobs.mode", { mode: page.mode })}</span>}</h2>
        {problem && (last.current ? <p class="note stale" role="status">{t("stale.since", { at: clock(last.current.at), why: problem })}</p> : <p class="soft">{t("agent.none")} {problem}</p>)}
        {page?.keeper_up === false && <p class="error" role="alert">{t("knobs.no-keeper")} {page.keeper_said}</p>}
        {page?.leases_error && <p class="error" role="alert">{t("knobs.no-leases")} {page.leases_error}</p>}
        {page && page.knobs.length === 0 && <p class="soft">{t("knobs.none")}</p>}
        {page && page.knobs.length > 0 && <Knobs rows={page.knobs} />}
      </section>
      {page && (
        <section>
          <h2>{t("pressure")}</h2>
          <p class="soft">{t("pressure.help")}</p>
          <div class="stalls">
            {STALLS.map((each) => <Share key={each} name={t(`pressure.${each}` as Word)} ppm={page.host[each]} />)}
          </div>
          {page.best_effort && (
            <p>
              <b>{t("best-effort")}</b> {[page.best_effort.cpu_m !== null && `${cores(page.best_effort.cpu_m)} ${t("cpu")}`, page.best_effort.memory_bytes !== null && bytes(page.best_effort.memory_bytes), page.best_effort.run_delay_ppm !== null && `${t("run-delay")} ${share(page.best_effort.run_delay_ppm)}`, page.best_effort.throttled_ppm !== null && `${t("throttled")} ${share(page.best_effort.throttled_ppm)}`].filter(Boolean).join(" · ")}
            </p>
          )}
          {page.idle_gpus.allocated > 0 && (
            <p>{[t("gpus.idle", { idle: page.idle_gpus.idle, held: page.idle_gpus.allocated }), page.idle_gpus.idle > 0 && bytes(page.idle_gpus.idle_memory_bytes), ...page.idle_gpus.idle_holders].filter(Boolean).join(" · ")}</p>
          )}
          <h3>{t("waiting")}</h3>
          <Wide>
            <table>
              <thead><tr><th scope="col">Pod</th><th scope="col">{t("class")}</th><th scope="col" class="number">{t("cpu")}</th><th scope="col">{t("run-delay")}</th><th scope="col" class="number">{t("stalled")}</th><th scope="col" class="number">{t("throttled")}</th><th scope="col" class="number">{t("memory")}</th><th scope="col" class="number">{t("latency")}</th></tr></thead>
              <tbody>
                {page.pods.slice(0, 100).map((pod) => (
                  <tr key={pod.pod}>
                    <th scope="row"><a href={to("pods", { pod: pod.pod })}>{pod.pod}</a></th>
                    <td>{pod.qos}</td>
                    <td class="number">{pod.use.cpu_m === null ? "–" : cores(pod.use.cpu_m)}</td>
                    <td><span class="delay"><i style={{ width: `${Math.min(100, (100 * (pod.use.run_delay_ppm ?? 0)) / PPM)}%` }} /></span> {share(pod.use.run_delay_ppm)}</td>
                    <td class="number">{share(pod.use.cpu_stall_ppm)}</td>
                    <td class="number">{share(pod.use.throttled_ppm)}</td>
                    <td class="number">{pod.use.memory_bytes === null ? "–" : bytes(pod.use.memory_bytes)}</td>
                    <td class={`number${pod.latency_ms !== null && pod.objective_ms !== null && pod.latency_ms > pod.objective_ms ? " burning" : ""}`}>{pod.latency_ms === null ? "–" : `${milliseconds(pod.latency_ms)}${pod.objective_ms === null ? "" : ` / ${milliseconds(pod.objective_ms)}`}`}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Wide>
          {page.gaps.length > 0 && <p class="soft">{t("gaps")} {page.gaps.join("; ")}</p>}
        </section>
      )}
    </>
  );
}

function share(ppm: number | null): string {
  return ppm === null ? "–" : `${((100 * ppm) / PPM).toFixed(ppm < 100_000 ? 1 : 0)} %`;
}

function Share({ name, ppm }: { name: string; ppm: number | null }) {
  if (ppm === null) return null;
  return (
    <div class="meter">
      <div class="meter-head"><span>{name}</span><span>{share(ppm)}</span></div>
      <div class="bar"><i class="used" style={{ width: `${Math.min(100, (100 * ppm) / PPM)}%` }} /></div>
    </div>
  );
}

/** One row a knob: what stands and stood, who set it and why, until when. */
function Knobs({ rows }: { rows: KnobRow[] }) {
  return (
    <Wide>
      <table>
        <thead><tr><th scope="col">{t("knob")}</th><th scope="col">{t("knob.value")}</th><th scope="col">{t("knob.who")}</th><th scope="col">{t("knob.why")}</th><th scope="col">{t("knob.until")}</th></tr></thead>
        <tbody>
          {rows.map((row) => (
            <tr key={`${row.group} ${row.knob}`}>
              <th scope="row">{row.knob}<div class="soft path">{row.pod ? <a href={to("pods", { pod: row.pod })}>{row.pod}</a> : `/${row.group}`}</div></th>
              <td><b>{row.value}</b>{row.before && <div class="soft">{t("knob.before", { value: row.before })}</div>}{row.stands !== null && row.stands !== row.value && <div class="burning">{t("knob.stands", { value: row.stands })}</div>}</td>
              <td>{row.policy || row.rule}<div class={row.state === "held" ? "soft" : "burning"}>{named("lease", row.state)}</div></td>
              <td>{row.why}{row.detail && <div class="burning">{row.detail}</div>}{row.lost.map(([policy, value]) => <div class="soft" key={policy}>{t("knob.lost", { policy, value })}</div>)}{row.lifts && <div class="soft">{t("knob.lifts", { when: row.lifts })}</div>}</td>
              <td>{row.until === null ? <span class="soft">{t("knob.no-lease")}</span> : <>{clock(row.until)}{row.taken !== null && <div class="soft">{t("knob.since", { at: when(row.taken) })}</div>}</>}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Wide>
  );
}
