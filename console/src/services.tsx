// The view "Services": rates, errors and latency of every operation, who calls whom, the slowest traces with their critical path. From `cotenant traces`.
import { Graph as Layers, layout } from "@dagrejs/dagre";
import { useMemo } from "preact/hooks";
import { useAsked } from "./ask";
import type { CriticalPage, EdgeRow, Objective, OperationRow, TracePage, TraceRow } from "./answers";
import { clock, count, milliseconds, percent } from "./format";
import { Old } from "./old";
import { Empty, Wide } from "./parts";
import { param, set, to } from "./route";
import { LatencySketch } from "./sketch";
import { Timeline } from "./timeline";
import { named, t } from "./words";

export function Services() {
  const asked = useAsked<{ operations: OperationRow[] }>("/api/traces/services", 5);
  const edges = useAsked<EdgeRow[]>(asked.value ? "/api/traces/graph" : "", 5).value ?? [];
  const objectives = useAsked<Objective[]>(asked.value ? "/api/traces/objectives" : "", 5).value ?? [];
  const service = param("service");
  const query = new URLSearchParams({ slowest: "1", limit: "15", ...(service ? { service } : {}) });
  const traces = useAsked<{ kept: number; traces: TraceRow[] }>(asked.value ? `/api/traces/traces?${query}` : "", 10).value;
  const text = param("q").toLowerCase();
  if (asked.error && !asked.value) return <Empty text={t("traces.none")} why={asked.error} />;
  if (!asked.value) return <p class="empty">{t("loading")}</p>;
  const rows = asked.value.operations.filter((row) => (!service || row.service === service) && `${row.service} ${row.operation}`.toLowerCase().includes(text));
  if (!asked.value.operations.length && !objectives.length) return <Empty text={t("traces.empty")} />;
  const known = asked.value.operations;
  const about = service || objectives.find((each) => each.objective === param("objective"))?.service || known[0]?.service || "";
  const limit = objectives.find((each) => each.belowMs !== null && each.service === about && (!param("objective") || each.objective === param("objective")))?.belowMs ?? null;
  return (
    <div class="services">
      <div class="controls">
        <input type="search" class="search" value={param("q")} placeholder={t("search")} aria-label={t("search")} onInput={(event) => set({ q: event.currentTarget.value })} />
        {service && <button type="button" onClick={() => set({ service: "", trace: "" })}>{service} ×</button>}
      </div>
      <Old asked={asked} />
      {objectives.length > 0 && <Objectives objectives={objectives} />}
      {edges.length > 0 && <Graph edges={edges} chosen={service} operations={asked.value.operations} />}
      <Wide>
        <table>
          <thead>
            <tr><th scope="col">{t("service")}</th><th scope="col">{t("operation")}</th><th scope="col" class="number">{t("rate")}</th><th scope="col" class="number">{t("errors")}</th><th scope="col" class="number">p50</th><th scope="col" class="number">p95</th><th scope="col" class="number">p99</th></tr>
          </thead>
          <tbody>
            {rows.slice(0, 200).map((row) => (
              <tr key={`${row.service} ${row.operation} ${row.kind}`}>
                <th scope="row"><button type="button" class="plain link" onClick={() => set({ service: row.service, trace: "" })}>{row.service}</button></th>
                <td>{row.operation}</td>
                <td class="number">{row.perSecond.toFixed(row.perSecond < 10 ? 2 : 0)}</td>
                <td class={`number${row.errors ? " burning" : ""}`}>{percent(row.errors, row.requests)}</td>
                <td class="number">{milliseconds(row.p50Ms)}</td>
                <td class="number">{milliseconds(row.p95Ms)}</td>
                <td class="number">{milliseconds(row.p99Ms)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Wide>
      {rows.length === 0 && <p class="soft">{t(service && !known.some((row) => row.service === service) ? "service.gone" : "operations.none", { name: service })}</p>}
      {about && <LatencySketch service={about} limitMs={limit} key={about} />}
      {service && <Critical service={service} />}
      {traces && traces.traces.length > 0 && (
        <section>
          <h2>{t("slowest")}</h2>
          <div class="rows">
            {traces.traces.map((row) => (
              <button type="button" key={row.traceId} class={`row plain${param("trace") === row.traceId ? " chosen" : ""}`} onClick={() => set({ trace: param("trace") === row.traceId ? "" : row.traceId })}>
                <span class={`state s-${row.failed ? "late" : "ok"}`} aria-hidden="true" />
                <span class="row-name"><b>{row.operation}</b><span class="soft">{row.service} · {clock(row.startNs / 1e9)} · {t("spans.n", { n: count(row.spans) })}{row.failed && ` · ${t("failed")}`}</span></span>
                <span class="row-figures"><span>{milliseconds(row.durationMs)}</span></span>
              </button>
            ))}
          </div>
        </section>
      )}
      {param("trace") && <Trace id={param("trace")} key={param("trace")} />}
    </div>
  );
}

function ratio(value: number | null): string {
  return value === null ? "–" : `${(100 * value).toFixed(value > 0.999 ? 3 : 2)} %`;
}

function burn(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : value.toFixed(value < 10 ? 2 : 0);
}

/** Objectives with what is left of their budget, and the rates at which it burns. */
function Objectives({ objectives }: { objectives: Objective[] }) {
  const chosen = param("objective");
  const windows = [...new Set(objectives.flatMap((each) => Object.keys(each.burn)))];
  const [namespace, name] = chosen.split("/");
  const one = useAsked<Objective>(namespace && name ? `/api/traces/objectives/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}` : "", 3).value;
  return (
    <section>
      <h2>{t("objectives")}</h2>
      <p class="soft">{t("objectives.help")}</p>
      <Wide>
        <table>
          <thead>
            <tr>
              <th scope="col">{t("objective.name")}</th><th scope="col">{t("state")}</th><th scope="col" class="number">{t("target")}</th><th scope="col" class="number">{t("met")}</th><th scope="col" class="number">{t("budget")}</th>
              {windows.map((each) => <th scope="col" class="number" key={each}>{t("burn", { window: each })}</th>)}
            </tr>
          </thead>
          <tbody>
            {objectives.map((each) => (
              <tr key={each.objective} class={each.objective === chosen ? "chosen" : ""}>
                <th scope="row"><button type="button" class="plain link" onClick={() => set({ objective: each.objective === chosen ? "" : each.objective })}>{each.objective}</button><div class="soft">{each.service} {each.operation}{each.belowMs !== null && ` < ${milliseconds(each.belowMs)}`}</div></th>
                <td class={each.alerts.some((alert) => alert.firing) ? "burning" : ""}>{named("objective.state", each.state)}{[...new Set(each.alerts.filter((alert) => alert.firing).map((alert) => named("severity", alert.label || alert.severity)))].map((each) => ` · ${each}`)}</td>
                <td class="number">{each.targetPercent} %</td>
                <td class="number">{ratio(each.ratio)}</td>
                <td class="number">{ratio(each.budgetLeft)}</td>
                {windows.map((window) => <td class={`number${(each.burn[window] ?? 0) > 1 ? " burning" : ""}`} key={window}>{burn(each.burn[window])}</td>)}
              </tr>
            ))}
          </tbody>
        </table>
      </Wide>
      {chosen && !objectives.some((each) => each.objective === chosen) && <p class="note stale" role="status">{t("objective.gone", { name: chosen })}</p>}
      {one && one.objective === chosen && (
        <div class="card">
          {one.lastAction && <p><b>{t("last.action")}</b> {one.lastAction.time} <a href={to("node", { name: one.lastAction.node })}>{one.lastAction.node}</a> {one.lastAction.pod} {one.lastAction.action} {one.lastAction.text}</p>}
          {one.conditions.filter((each) => each.message).map((each) => <p class="soft" key={each.type}>{each.type} {each.status}: {each.message}</p>)}
          <h3>{t("replicas")}</h3>
          <Wide>
            <table>
              <thead><tr><th scope="col">Pod</th><th scope="col">{t("node")}</th><th scope="col" class="number">{t("requests")}</th><th scope="col" class="number">p99</th><th scope="col" class="number">{t("burn", { window: "9s" })}</th></tr></thead>
              <tbody>{one.replicas.map((each) => <tr key={each.pod}><th scope="row"><a href={to("pods", { pod: each.pod })}>{each.pod}</a></th><td><a href={to("node", { name: each.node })}>{each.node}</a></td><td class="number">{count(each.requests)}</td><td class="number">{milliseconds(each.p99Ms)}</td><td class={`number${(each.burn ?? 0) > 1 ? " burning" : ""}`}>{burn(each.burn)}</td></tr>)}</tbody>
            </table>
          </Wide>
          {namespace && name && <Timeline path={`objectives/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`} key={chosen} />}
        </div>
      )}
    </section>
  );
}

function Graph({ edges, chosen, operations }: { edges: EdgeRow[]; chosen: string; operations: OperationRow[] }) {
  const names = [...new Set(edges.flatMap((each) => [each.client, each.server]))];
  const shape = edges.map((each) => `${each.client}>${each.server}`).join(" ");
  const drawn = useMemo(() => {
    const graph = new Layers().setGraph({ rankdir: "LR", nodesep: 14, ranksep: 56, marginx: 8, marginy: 8 }).setDefaultEdgeLabel(() => ({}));
    for (const name of names.slice(0, 150)) graph.setNode(name, { width: Math.max(84, Math.min(220, 26 + 7.2 * name.length)), height: 38 });
    for (const each of edges) if (graph.hasNode(each.client) && graph.hasNode(each.server) && each.client !== each.server) graph.setEdge(each.client, each.server, { calls: each.calls, failed: each.failed });
    layout(graph);
    return graph;
  }, [shape]);
  const size = drawn.graph();
  const p99 = new Map<string, number>();
  for (const row of operations) if (row.p99Ms !== null) p99.set(row.service, Math.max(p99.get(row.service) ?? 0, row.p99Ms));
  return (
    <section>
      <h2>{t("graph")}</h2>
      <div class="wide graph">
        <svg width={size.width} height={size.height} viewBox={`0 0 ${size.width} ${size.height}`} role="group" aria-label={t("graph")}>
          <defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" /></marker></defs>
          {drawn.edges().map((each) => {
            const { points, failed } = drawn.edge(each) as unknown as { points: { x: number; y: number }[]; failed: number };
            return <path key={`${each.v}>${each.w}`} class={`edge${failed ? " failing" : ""}`} marker-end="url(#tip)" d={points.map((point, k) => `${k ? "L" : "M"}${point.x.toFixed(1)} ${point.y.toFixed(1)}`).join("")} />;
          })}
          {drawn.nodes().map((name) => {
            const at = drawn.node(name);
            return (
              <g key={name} class={`vertex${name === chosen ? " chosen" : ""}`} tabindex={0} role="button" aria-label={name} transform={`translate(${at.x - at.width / 2} ${at.y - at.height / 2})`} onClick={() => set({ service: name, trace: "" })} onKeyDown={(event) => event.key === "Enter" && set({ service: name, trace: "" })}>
                <rect width={at.width} height={at.height} rx="7" />
                <text x={at.width / 2} y="16">{name}</text>
                <text x={at.width / 2} y="30" class="soft">{p99.has(name) ? `p99 ${milliseconds(p99.get(name))}` : ""}</text>
              </g>
            );
          })}
        </svg>
      </div>
    </section>
  );
}

function Critical({ service }: { service: string }) {
  const found = useAsked<CriticalPage>(`/api/traces/critical?service=${encodeURIComponent(service)}`, 10).value;
  if (!found?.path.length) return null;
  return (
    <section>
      <h2>{t("critical", { service })}</h2>
      <ul class="bars">
        {found.path.slice(0, 12).map((each) => (
          <li key={`${each.service} ${each.operation}`}>
            <span class="bar-text">{each.service} <span class="soft">{each.operation}</span></span>
            <span class="bar-number">{percent(each.share, 1)} · {milliseconds(each.meanMs)}</span>
            <i style={{ width: `${100 * each.share}%` }} />
          </li>
        ))}
      </ul>
    </section>
  );
}

function Trace({ id }: { id: string }) {
  const asked = useAsked<TracePage>(`/api/traces/traces/${encodeURIComponent(id)}`);
  const found = asked.value;
  if (!found) return asked.error ? <p class="error" role="alert">{asked.error}</p> : <p class="soft">{t("loading")}</p>;
  const depth: number[] = [];
  for (const span of found.spans) depth.push(span.parent >= 0 ? (depth[span.parent] ?? 0) + 1 : 0);
  const order = found.spans.map((_, i) => i).sort((a, b) => found.spans[a]!.startMs - found.spans[b]!.startMs || depth[a]! - depth[b]!);
  const whole = found.durationMs || 1;
  return (
    <div class="trace">
      <p class="soft">{t("critical.help")}</p>
      {order.slice(0, 300).map((i) => {
        const span = found.spans[i]!;
        return (
          <div class="span" key={i}>
            <span class="span-name" style={{ paddingLeft: `${Math.min(12, depth[i]!) * 10}px` }}>
              <b>{span.service}</b> <span class="soft">{span.operation}</span>
            </span>
            <span class="track">
              <i
                class={`${span.selfMs > 0 ? "on-path" : ""}${span.failed ? " failing" : ""}`}
                title={`${milliseconds(span.durationMs)}, ${milliseconds(span.selfMs)}`}
                style={{ left: `${Math.max(0, (100 * span.startMs) / whole)}%`, width: `${Math.max(0.4, (100 * span.durationMs) / whole)}%` }}
              />
            </span>
            <span class="number">{milliseconds(span.durationMs)}</span>
          </div>
        );
      })}
    </div>
  );
}
