// What happened to a service, as one timeline: victim, culprit, action, recovery and moves, under the latency of its replicas. For an objective or for one pod.
import { useAsked } from "./ask";
import type { Incident, TimelinePage } from "./answers";
import { clock, milliseconds, percent, when } from "./format";
import { Old } from "./old";
import { to } from "./route";
import { named, t, type Word } from "./words";

const HOUR_S = 3600;

export function Timeline({ path, isQuiet = false }: { path: string; isQuiet?: boolean }) {
  const asked = useAsked<TimelinePage>(`/api/timeline/${path}`, 5);
  const page = asked.value;
  if (asked.error && !page) return <section><h2>{t("timeline")}</h2><p class="error" role="alert">{asked.error}</p></section>;
  if (!page) return isQuiet ? null : <p class="soft">{t("loading")}</p>;
  if (isQuiet && !page.events.length && !page.latency.length) return null;
  return (
    <section class="timeline-of">
      <h2>{t("timeline")}</h2>
      <Old asked={asked} />
      {page.latency.length > 0 ? <Sketch page={page} /> : <p class="soft">{t("timeline.no-latency")}</p>}
      {page.incidents.slice(0, 6).map((each) => <Chain key={`${each.node}${each.number}`} incident={each} />)}
      {page.events.length > 0 ? (
        <ol class="steps">
          {[...page.events].reverse().map((each, k) => (
            <li key={k} class={`k-${each.kind}`}>
              <time>{when(each.at)}</time>
              <span><b>{t(`event.${each.kind}` as Word)}</b> {each.node && <a href={to("node", { name: each.node })}>{each.node}</a>} {each.move ? <a href={to("moves", { move: each.move })}>{each.victim}</a> : <a href={to("pods", { pod: each.victim })}>{each.victim}</a>} {each.culprit && <>← <a href={to("pods", { pod: each.culprit })}>{each.workload || each.culprit}</a></>} <span class="soft">{each.text}</span></span>
            </li>
          ))}
        </ol>
      ) : (
        <p class="soft">{t("timeline.empty")}</p>
      )}
      {page.problems.map((each) => <p class="soft" key={each}>{t("timeline.problem", { why: each })}</p>)}
    </section>
  );
}

/** p99 of the replicas over the last hour, the objective, and a mark for each event; times from the left to now. */
function Sketch({ page }: { page: TimelinePage }) {
  const first = Math.max(page.at - HOUR_S, Math.min(page.at - 60, ...page.latency.map((each) => each.points[0]![0])));
  const limit = page.latency.find((each) => each.objective_ms !== null)?.objective_ms ?? null;
  const most = 1.08 * Math.max(limit ?? 0, ...page.latency.flatMap((each) => each.points.map(([, value]) => value)));
  const x = (at: number): number => (100 * (at - first)) / (page.at - first || 1);
  const y = (value: number): number => 100 - (100 * value) / (most || 1);
  const marks = page.events.filter((each) => each.at >= first);
  return (
    <>
      <p class="soft">{t("timeline.help")}</p>
      <div class="marks" aria-hidden="true">{marks.map((each, k) => <i key={k} class={`k-${each.kind}`} style={{ left: `${Math.min(100, x(each.at))}%` }} title={`${clock(each.at)} ${each.text}`} />)}</div>
      <svg class="sketch tall" viewBox="0 0 100 100" preserveAspectRatio="none" role="img" aria-label={`${t("timeline.latency")}: ${page.latency.map((each) => each.pod).join(", ")}`}>
        {limit !== null && <line class="limit" x1="0" x2="100" y1={y(limit)} y2={y(limit)} />}
        {marks.map((each, k) => <line key={k} class={`mark k-${each.kind}`} x1={x(each.at)} x2={x(each.at)} y1="0" y2="100" />)}
        {page.latency.map((each, k) => <path key={each.pod} class={`line line-${k % 4}`} d={each.points.map(([at, value], i) => `${i ? "L" : "M"}${x(at).toFixed(2)} ${y(value).toFixed(2)}`).join("") + (each.points.length === 1 ? "h.4" : "")} />)}
      </svg>
      <p class="between soft"><span>{clock(first)}</span><span>{limit !== null && `${t("objective")} ${milliseconds(limit)} · `}{t("timeline.most", { ms: milliseconds(most / 1.08) })}</span><span>{clock(page.at)}</span></p>
      <p class="curve-key">{page.latency.map((each, k) => <span key={each.pod}><i class={`key line-${k % 4}`} />{each.pod} {milliseconds(each.points[each.points.length - 1]![1])}</span>)}</p>
    </>
  );
}

const NOTABLE = 0.005; // a candidate below it reads as 0 %

/** One incident: who suffers, who causes it, what was done, and when it was over. */
function Chain({ incident }: { incident: Incident }) {
  const last = incident.proofs[incident.proofs.length - 1];
  return (
    <div class="chain" role="group" aria-label={t("incident", { n: incident.number, node: incident.node })}>
      <div>
        <b>{t("event.victim")}</b> <span class="soft">{when(incident.opened)}</span>
        <p><a href={to("pods", { pod: incident.victim })}>{incident.victim}</a></p>
        <p class="soft">{incident.objective_ms !== null && `${t("objective")} ${milliseconds(incident.objective_ms)}. `}{incident.signal} {incident.level.toFixed(2)} / {incident.threshold.toFixed(2)}{incident.burn !== null && `, ${t("burn", { window: "" })} ${incident.burn.toFixed(1)}`}</p>
      </div>
      <div>
        <b>{t("event.culprit")}</b>
        <p>{incident.culprit ? <><a href={to("pods", { pod: incident.culprit })}>{incident.workload || incident.culprit}</a> {percent(incident.confidence, 1)}</> : t("incident.no-culprit")}</p>
        {incident.culprit && (incident.workload || incident.owner) && <p class="soft">{incident.workload ? incident.culprit : incident.owner}</p>}
        <p class="soft">{incident.cause}{incident.candidates.filter(([name, share]) => share >= NOTABLE && name !== (incident.workload || incident.culprit)).map(([name, share]) => ` · ${name} ${percent(share, 1)}`)}</p>
      </div>
      <div>
        <b>{t("event.action")}</b> {last && <span class="soft">{clock(last.at)}</span>}
        {incident.proofs.length === 0 && <p>{t("incident.no-action")}</p>}
        {incident.proofs.map((each) => <p key={`${each.at}${each.rung}`}>{named("rung", each.rung)} {each.workload || each.culprit} <span class={each.helped === false ? "burning" : "soft"}>{t(each.helped === null ? "proof.running" : each.helped ? "move.helped" : "move.not-helped")} ({[each.before, each.during, each.after].filter((value) => value !== null).map((value) => value!.toFixed(2)).join(" → ")})</span></p>)}
      </div>
      <div>
        <b>{t("event.recovery")}</b> {incident.recovered !== null && <span class="soft">{clock(incident.recovered)}</span>}
        <p>{incident.recovered === null ? <span class="burning">{t("incident.open")}</span> : t("incident.after", { s: (incident.recovered - incident.opened).toFixed(1) })}</p>
        <p class="soft">{named("stage", incident.stage)} · <a href={to("node", { name: incident.node })}>{incident.node}</a></p>
      </div>
    </div>
  );
}

