// The view "Lab": an experiment's table with intervals, one figure over all policies, and two policies side by side with their curves. From the folder of --results.
import { useAsked } from "./ask";
import type { Curve, Experiment, ExperimentPage, LabRow, MetricView } from "./answers";
import { short } from "./chart/axis";
import { Chart, type Line } from "./chart/chart";
import { type IntervalRow, Intervals } from "./chart/intervals";
import { count, moment } from "./format";
import { RunMaps } from "./lab-machines";
import { Old } from "./old";
import { Empty, Wide } from "./parts";
import { param, set } from "./route";
import { t } from "./words";

const COLUMNS = 7;

export function Lab() {
  const asked = useAsked<Experiment[]>("/api/lab", 30);
  const all = asked.value ?? [];
  const chosen = all.find((each) => each.name === param("of")) ?? all[0];
  const page = useAsked<ExperimentPage>(chosen ? `/api/lab/results?of=${encodeURIComponent(chosen.name)}&at=${chosen.written}` : "");
  if (asked.error && !asked.value) return <Empty text={t("lab.none")} why={asked.status === 404 ? "" : asked.error} />;
  if (!asked.value) return <p class="empty">{t("loading")}</p>;
  if (!chosen) return <Empty text={t("lab.empty")} />;
  return (
    <div class="services lab">
      <div class="controls">
        <label class="choice">
          {t("lab.experiment")}
          <select value={chosen.name} onChange={(event) => set({ of: event.currentTarget.value, load: "", a: "", b: "", seed: "", at: "" })}>
            {all.map((each) => <option key={each.name} value={each.name}>{each.name === "." ? each.workload : each.name}</option>)}
          </select>
        </label>
        <span class="soft">{chosen.workload} · {t("lab.seeds", { n: chosen.seeds })} · {moment(chosen.written)}</span>
        {chosen.failed > 0 && <span class="burning">{t("lab.failed", { n: count(chosen.failed) })}</span>}
      </div>
      <Old asked={asked} />
      {page.error && <p class="error" role="alert">{page.error}</p>}
      {page.value && page.value.name === chosen.name && <Tables page={page.value} />}
    </div>
  );
}

function number(row: LabRow | undefined, name: string): number | null {
  const value = row?.[name];
  return typeof value === "number" ? value : null;
}

/** A figure as people read it: fractions in percent. */
function shown(metric: MetricView, value: number | null): string {
  if (value === null) return "–";
  const scaled = metric.unit === "fraction" ? 100 * value : value;
  const size = Math.abs(scaled);
  const text = size >= 1000 ? count(Math.round(scaled)) : size >= 100 ? scaled.toFixed(0) : size >= 1 || size === 0 ? scaled.toFixed(2).replace(/\.00$/, "") : Number(scaled.toPrecision(2)).toString();
  return `${text}${{ fraction: " %", seconds: " s", microseconds: " µs", ratio: " ×" }[metric.unit] ?? ""}`;
}

/** One experiment. */
export function Tables({ page }: { page: ExperimentPage }) {
  const { results } = page;
  const loads = [...new Set(results.rows.map((row) => row.load))].sort((a, b) => a - b);
  const load = loads.find((each) => String(each) === param("load")) ?? loads[Math.floor(loads.length / 2)]!;
  const rows = results.rows.filter((row) => row.load === load);
  const known = page.metrics.filter((metric) => rows.some((row) => number(row, metric.name) !== null));
  const ranking = known.filter((metric) => metric.ranks);
  const metric = known.find((each) => each.name === param("figure")) ?? ranking.find((each) => each.name === "violation") ?? ranking[0] ?? known[0];
  if (!metric || !rows.length) return <p class="empty">{t("lab.empty")}</p>;
  const columns = [metric, ...ranking.filter((each) => each !== metric)].slice(0, COLUMNS);
  const sign = metric.better === "higher" ? -1 : 1;
  const order = [...rows].sort((x, y) => sign * ((number(x, metric.name) ?? Infinity * sign) - (number(y, metric.name) ?? Infinity * sign)));
  const pair = [param("a"), param("b")].map((name) => rows.find((row) => row.policy === name));
  return (
    <>
      <div class="controls">
        {loads.length > 1 && (
          <div class="chips" role="group" aria-label={t("lab.load")}>{loads.map((each) => <button type="button" key={each} aria-pressed={each === load} onClick={() => set({ load: String(each) })}>{t("lab.load")} {each}</button>)}</div>
        )}
        <label class="choice">
          {t("lab.figure")}
          <select value={metric.name} onChange={(event) => set({ figure: event.currentTarget.value })}>{known.map((each) => <option key={each.name} value={each.name}>{each.title}</option>)}</select>
        </label>
      </div>
      <section>
        <h2>{metric.title} <span class="soft">{metric.better !== "neither" && t(`lab.better.${metric.better}`)}</span></h2>
        <p class="soft">{metric.definition}</p>
        <Figures rows={order} metric={metric} ours={results.ours} />
      </section>
      {!!pair[0] !== !!pair[1] && <One page={page} policy={(pair[0] ?? pair[1])!.policy} load={load} />}
      {pair[0] && pair[1] && <Pair page={page} a={pair[0]} b={pair[1]} metrics={known} load={load} />}
      <section>
        <h2>{t("lab.table")}</h2>
        <p class="soft">{t("lab.choose")}</p>
        <Wide>
          <table>
            <thead>
              <tr>
                <th scope="col">{t("lab.policy")}</th>
                {columns.map((each) => <th scope="col" class="number" key={each.name} aria-sort={each === metric ? (each.better === "higher" ? "descending" : "ascending") : undefined}><button type="button" class="plain link" title={each.definition} onClick={() => set({ figure: each.name })}>{each.title}</button></th>)}
              </tr>
            </thead>
            <tbody>
              {order.map((row) => {
                const at = pair.indexOf(row);
                return (
                  <tr key={row.policy} class={at >= 0 ? "chosen" : ""}>
                    <th scope="row"><button type="button" class={`plain link${row.policy === results.ours ? " ours" : ""}`} aria-pressed={at >= 0} onClick={() => choose(row.policy)}>{at >= 0 && <span class={`swatch profile-${at}`} />} {row.policy}</button></th>
                    {columns.map((each) => <td class={`number${row.policy === results.ours ? " ours" : ""}`} key={each.name}>{shown(each, number(row, each.name))}{number(row, `${each.name}_ci`) !== null && <span class="soft"> ± {shown(each, number(row, `${each.name}_ci`)).replace(/ [^ ]+$/, "")}</span>}</td>)}
                  </tr>
                );
              })}
            </tbody>
          </table>
        </Wide>
        {results.notes?.map((each) => <p class="soft" key={each}>{each}</p>)}
      </section>
    </>
  );
}

function choose(name: string): void {
  const [a, b] = [param("a"), param("b")];
  if (name === a) set({ a: b, b: "" });
  else if (name === b) set({ b: "" });
  else if (!a) set({ a: name });
  else set({ b: name });
}

/** One figure of every policy with its interval, on one scale. */
function Figures({ rows, metric, ours }: { rows: LabRow[]; metric: MetricView; ours: string }) {
  const values = rows.map((row): IntervalRow => {
    const value = number(row, metric.name);
    const half = number(row, `${metric.name}_ci`);
    const hasInterval = value !== null && half !== null;
    return {
      name: row.policy,
      isOurs: row.policy === ours,
      readings: [{ value, low: hasInterval ? value - half : null, high: hasInterval ? value + half : null, shown: <>{shown(metric, value)}{half !== null && <span class="soft"> ± {shown(metric, half)}</span>}</> }],
    };
  });
  const ends = values.flatMap(({ readings: [one] }) => [one!.value, one!.low, one!.high]).filter((each) => each !== null);
  const low = Math.min(0, ...ends);
  return <Intervals rows={values} axis={{ title: "", low, high: Math.max(...ends, low + 1e-12) }} />;
}

/** The seeds of an experiment, and the chosen one. */
function seedsOf(page: ExperimentPage): [number[], number] {
  const seeds = page.results.seed_list ?? Array.from({ length: page.results.seeds }, (_, k) => k);
  return [seeds, seeds.find((each) => String(each) === param("seed")) ?? seeds[0] ?? 0];
}

/** The machines of one policy, until a second is chosen. */
function One({ page, policy, load }: { page: ExperimentPage; policy: string; load: number }) {
  return <section class="card"><RunMaps of={page.name} a={policy} b="" load={load} seed={seedsOf(page)[1]} /></section>;
}

/** Every figure of two policies with the difference; seed by seed where one of them is the policy that others are compared with. */
function Pair({ page, a, b, metrics, load }: { page: ExperimentPage; a: LabRow; b: LabRow; metrics: MetricView[]; load: number }) {
  const [seeds, seed] = seedsOf(page);
  const paired = (metric: string): { value: number; half: number | null } | null => {
    const row = page.results.paired.find((each) => each.metric === metric && each.load === load && ((each.policy === a.policy && each.against === b.policy) || (each.policy === b.policy && each.against === a.policy)));
    if (!row || row.difference === null) return null;
    return { value: row.policy === b.policy ? row.difference : -row.difference, half: row.difference_ci };
  };
  return (
    <section class="card" data-pair>
      <h2><span class="swatch profile-0" /> {a.policy} · <span class="swatch profile-1" /> {b.policy}</h2>
      <p class="soft">{t("lab.pair-help")}</p>
      <Curves of={page.name} a={a.policy} b={b.policy} load={load} seed={seed} seeds={seeds} />
      <RunMaps of={page.name} a={a.policy} b={b.policy} load={load} seed={seed} />
      <Wide>
        <table>
          <thead><tr><th scope="col">{t("lab.figure")}</th><th scope="col" class="number"><span class="swatch profile-0" /> {a.policy}</th><th scope="col" class="number"><span class="swatch profile-1" /> {b.policy}</th><th scope="col" class="number">{t("lab.difference")}</th><th scope="col">{t("lab.verdict")}</th></tr></thead>
          <tbody>
            {metrics.map((metric) => {
              const [x, y] = [number(a, metric.name), number(b, metric.name)];
              const seedwise = paired(metric.name);
              const difference = seedwise?.value ?? (x === null || y === null ? null : y - x);
              const half = seedwise?.half ?? null;
              const isClear = difference !== null && half !== null && Math.abs(difference) > half;
              const wins = difference === null || difference === 0 || metric.better === "neither" ? null : (difference > 0) === (metric.better === "higher") ? 1 : 0;
              return (
                <tr key={metric.name}>
                  <th scope="row" title={metric.definition}>{metric.title}{!metric.ranks && <span class="soft"> {t("lab.no-merit")}</span>}</th>
                  <td class="number">{shown(metric, x)}</td>
                  <td class="number">{shown(metric, y)}</td>
                  <td class="number">{difference === null ? "–" : `${difference > 0 ? "+" : ""}${shown(metric, difference)}`}{half !== null && <span class="soft"> ± {shown(metric, half)}</span>}</td>
                  <td>{metric.ranks && wins !== null && isClear ? <><span class={`swatch profile-${wins}`} /> {t("lab.better", { policy: wins ? b.policy : a.policy })}</> : <span class="soft">{metric.ranks && half !== null ? t("lab.unclear") : ""}</span>}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </Wide>
    </section>
  );
}

function Curves({ of, a, b, load, seed, seeds }: { of: string; a: string; b: string; load: number; seed: number; seeds: number[] }) {
  const path = (policy: string): string => `/api/lab/curves?${new URLSearchParams({ of, policy, load: String(load), seed: String(seed) })}`;
  const first = useAsked<Curve[]>(path(a));
  const second = useAsked<Curve[]>(path(b));
  const names = [...new Set([...(first.value ?? []), ...(second.value ?? [])].map((each) => each.name))];
  const error = first.error || second.error;
  return (
    <>
      {seeds.length > 1 && (
        <label class="choice">
          {t("lab.seed")}
          <select value={String(seed)} onChange={(event) => set({ seed: event.currentTarget.value })}>{seeds.map((each) => <option key={each} value={String(each)}>{each}</option>)}</select>
        </label>
      )}
      {error && <p class="soft">{error}</p>}
      <div class="radars">
        {names.map((name) => <CurveChart key={name} policies={[a, b]} curves={[first.value?.find((each) => each.name === name), second.value?.find((each) => each.name === name)]} />)}
      </div>
    </>
  );
}

const PAIR = [{ colour: "var(--accent)" }, { colour: "var(--warn)", dash: "2 3" }] as const;

function CurveChart({ policies, curves }: { policies: string[]; curves: (Curve | undefined)[] }) {
  const lines = curves.flatMap((curve, k): Line[] => {
    if (!curve) return [];
    const known = curve.x.map((x, i) => [x, curve.y[i] ?? null] as const).filter((each): each is readonly [number, number | null] => each[0] !== null);
    return [{ name: policies[k]!, x: known.map(([x]) => x), y: known.map(([, y]) => y), ...PAIR[k]! }];
  });
  const one = curves.find((each) => each);
  const [xs, ys] = [lines.flatMap((each) => each.x), lines.flatMap((each) => each.y).filter((each) => each !== null)];
  if (!one || !ys.length) return null;
  // A spike of the first minutes must not set the scale: beyond the 99th percentile and half again, curves leave the frame.
  const sorted = ys.sort((x, y) => x - y);
  const usual = 1.5 * sorted[Math.floor(0.99 * (sorted.length - 1))]!;
  const top = sorted[sorted.length - 1]!;
  const high = usual > 0 ? Math.min(top, usual) : top;
  return (
    <figure class="radar">
      <figcaption><b>{one.name}</b>{top > high && <span class="soft"> {t("lab.cut", { top: short(top) })}</span>}</figcaption>
      <Chart label={`${one.name}: ${one.y_label}`} lines={lines} height={170} isUnited x={{ title: one.x_label, low: Math.min(...xs), high: Math.max(...xs) }} y={{ title: one.y_label, low: Math.min(0, sorted[0]!), high: high || 1 }} />
    </figure>
  );
}
