// The view "Machines": every machine in one look, with its sums, its legend, and time travel over the last hour.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { useAsked } from "../ask";
import { colours, css, isDark, KINDS } from "../colours";
import { CELL, Column, Fleet, type Totals, UNKNOWN, UNMEASURED } from "../fleet";
import { bytes, cores, count, percent } from "../format";
import { fleet as liveFleet, version } from "../live";
import { beside } from "../parts";
import { go, param, set, to } from "../route";
import { t, type Word } from "../words";
import { arranged, capacity, hit, isGroup, type Layout, layout, NUMA, rectangle, requested, type Resource, type Sort, used } from "./layout";
import { paint } from "./paint";
import { Curves, type HistoryAnswer, TimeLine, usePast } from "./time";

const SORTS: readonly Sort[] = ["name", "requested", "used", "lent", "burning", "zone", "pool", "numa", "tenant"];

const STABLE: readonly Sort[] = ["name", "zone", "pool", "numa"]; // orders that changes of pods and use leave as they are

export function Machines() {
  const at = param("at");
  const past = usePast(at);
  const tick = version.value;
  const fleet = at ? past.fleet : liveFleet.value;
  const history = useAsked<HistoryAnswer>("/api/history", 15).value;
  const selectedName = param("machine");
  if (!fleet)
    return (
      <div class="empty">
        <p>{at && past.error ? past.error : t("loading")}</p>
        {at && <button type="button" onClick={() => set({ at: "" })}>{t("back.live")}</button>}
      </div>
    );
  const resource: Resource = param("resource") === "memory" ? "memory" : "cpu";
  const selected = selectedName ? fleet.nodes.indexOf(selectedName) : -1;
  return (
    <div class="machines">
      <Controls fleet={fleet} resource={resource} />
      <div class="split">
        <div class="main">
          <Canvas fleet={fleet} tick={at ? at : tick} resource={resource} selected={selected} />
          <TimeLine history={history} at={at} past={past} />
        </div>
        <aside class="side">
          {selectedName && selected < 0 && <p class="note stale" role="status">{t("machine.gone", { name: selectedName })} <button type="button" onClick={() => set({ machine: "" })}>×</button></p>}
          {selected >= 0 ? <MachineCard fleet={fleet} machine={selected} /> : <ClusterCard totals={fleet.totals} />}
          {history && history.curves.at.length > 1 && <Curves history={history} totals={at ? null : fleet.totals} shownAt={at ? fleet.at : null} />}
          <Legend fleet={fleet} />
        </aside>
      </div>
    </div>
  );
}

function Controls({ fleet, resource }: { fleet: Fleet; resource: Resource }) {
  const others = Object.keys(fleet.labels).filter((key) => key !== NUMA);
  const size = Number(param("size")) || 0;
  return (
    <div class="controls" role="group" aria-label={t("machines")}>
      <input
        type="search"
        class="search"
        value={param("q")}
        placeholder={t("search.machines")}
        aria-label={t("search.machines")}
        onInput={(event) => set({ q: event.currentTarget.value })}
      />
      <Choice word="group" name="group" options={[["", t("group.none")], ["zone", t("group.zone")], ["pool", t("group.pool")], ...(NUMA in fleet.labels ? [["numa", t("group.numa")] as [string, string]] : []), ["tenant", t("group.tenant")], ...others.map((key): [string, string] => [key, key])]} />
      <Choice word="sort" name="sort" options={SORTS.filter((each) => each !== "numa" || NUMA in fleet.labels).map((each): [string, string] => [each === "name" ? "" : each, t((isGroup(each) ? `group.${each}` : `sort.${each}`) as Word)])} />
      <Choice word="colour" name="colour" options={[["", t("colour.tenant")], ["kind", t("colour.kind")]]} />
      <Choice word="resource" name="resource" options={[["", t("cpu")], ["memory", t("memory")]]} value={resource === "cpu" ? "" : "memory"} />
      <span class="zoom">
        <button type="button" title={t("zoom.out")} aria-label={t("zoom.out")} onClick={() => zoom(-1)}>−</button>
        <button type="button" title={t("zoom.in")} aria-label={t("zoom.in")} onClick={() => zoom(1)}>+</button>
        {size > 0 && <button type="button" onClick={() => set({ size: "" })}>1:1</button>}
      </span>
    </div>
  );
}

function Choice({ word, name, options, value }: { word: Word; name: string; options: [string, string][]; value?: string }) {
  return (
    <label class="choice">
      <span>{t(word)}</span>
      <select value={value ?? param(name)} onChange={(event) => set({ [name]: event.currentTarget.value })}>
        {options.map(([key, text]) => (
          <option key={key} value={key}>{text}</option>
        ))}
      </select>
    </label>
  );
}

let present: Layout | null = null;

/** Make cells larger or smaller than they are now. */
export function zoom(direction: 1 | -1): void {
  const now = Number(param("size")) || present?.cellWidth || 20;
  set({ size: String(Math.max(6, Math.min(220, Math.round(now * (direction > 0 ? 1.35 : 1 / 1.35))))) });
}

function Canvas({ fleet, tick, resource, selected }: { fleet: Fleet; tick: unknown; resource: Resource; selected: number }) {
  const box = useRef<HTMLDivElement>(null);
  const base = useRef<HTMLCanvasElement>(null);
  const top = useRef<HTMLCanvasElement>(null);
  const [room, setRoom] = useState({ width: 0, height: 0 });
  const [scrollTop, setScrollTop] = useState(0);
  const [hovered, setHovered] = useState<{ machine: number; x: number; y: number } | null>(null);
  const palette = colours.value;
  const dark = isDark.value;
  const asked = {
    text: param("q"),
    group: param("group"),
    sort: (SORTS as readonly string[]).includes(param("sort")) ? (param("sort") as Sort) : "name",
    resource,
    size: Number(param("size")) || 0,
  } as const;
  const byKind = param("colour") === "kind";
  const groups = useMemo(
    () => arranged(fleet, asked),
    [fleet, !asked.text && asked.group !== "tenant" && STABLE.includes(asked.sort) ? fleet.nodes.length : tick, asked.text, asked.group, asked.sort, resource],
  );
  const found = useMemo(() => layout(groups, asked, room.width, room.height), [groups, asked.size, asked.group, room.width, room.height]);
  present = found;

  useEffect(() => {
    const element = box.current!;
    const watch = new ResizeObserver(() => setRoom({ width: element.clientWidth, height: element.clientHeight }));
    watch.observe(element);
    setRoom({ width: element.clientWidth, height: element.clientHeight });
    return () => watch.disconnect();
  }, []);

  useEffect(() => {
    const canvas = base.current!;
    if (!room.width || !room.height) return;
    const scale = Math.min(2, devicePixelRatio || 1);
    const width = Math.round(room.width * scale);
    const height = Math.round(room.height * scale);
    if (canvas.width !== width || canvas.height !== height) {
      canvas.width = width;
      canvas.height = height;
    }
    const context = canvas.getContext("2d", { alpha: false })!;
    const began = performance.now();
    const image = imageOf(context, width, height);
    paint(new Uint32Array(image.data.buffer), width, height, { fleet, layout: found, palette, resource, byKind, scrollTop, scale });
    context.putImageData(image, 0, 0);
    performance.measure("paint", { start: began, end: performance.now() });
    if (performance.getEntriesByName("paint").length > 500) performance.clearMeasures("paint");
  }, [fleet, tick, found, palette, resource, byKind, scrollTop, room.width, room.height]);

  useEffect(() => {
    const canvas = top.current!;
    if (!room.width || !room.height) return;
    const scale = Math.min(2, devicePixelRatio || 1);
    canvas.width = Math.round(room.width * scale);
    canvas.height = Math.round(room.height * scale);
    const context = canvas.getContext("2d")!;
    context.scale(scale, scale);
    context.translate(0, -scrollTop);
    overlay(context, fleet, found, resource, { from: scrollTop, to: scrollTop + room.height }, dark, hovered?.machine ?? -1, selected);
  }, [fleet, tick, found, dark, scrollTop, room.width, room.height, hovered?.machine, selected, resource]);

  useEffect(() => {
    const element = box.current!;
    const where = selected >= 0 ? rectangle(found, selected) : null;
    if (!where) return;
    if (where.y < element.scrollTop) element.scrollTop = where.y - 30;
    else if (where.y + found.cellHeight > element.scrollTop + room.height) element.scrollTop = where.y + found.cellHeight - room.height + 30;
  }, [selected]);

  const point = (event: MouseEvent): number => {
    const bounds = box.current!.getBoundingClientRect();
    return hit(found, event.clientX - bounds.left, event.clientY - bounds.top + scrollTop);
  };
  const move = (step: number): void => {
    const at = selected >= 0 ? (found.place.get(selected) ?? -1) : -1;
    const next = found.order[Math.max(0, Math.min(found.order.length - 1, at < 0 ? 0 : at + step))];
    if (next !== undefined) set({ machine: fleet.nodes[next]! });
  };
  const onKey = (event: KeyboardEvent): void => {
    const steps: Record<string, number> = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: found.perRow, ArrowUp: -found.perRow, Home: -1e9, End: 1e9, PageDown: found.perRow * 8, PageUp: -found.perRow * 8 };
    const step = steps[event.key];
    if (step !== undefined) move(step);
    else if (event.key === "Enter" && selected >= 0) go("node", { name: fleet.nodes[selected]! });
    else return;
    event.preventDefault();
  };
  const shown = found.order.length;
  const isNamed = found.nameLine > 0;
  return (
    <>
      <p class="map-note">
        {shown === fleet.nodes.length ? t("machines.count", { n: count(shown) }) : t("machines.of", { n: count(shown), all: count(fleet.nodes.length) })}
        {shown > 0 && " · "}
        {shown > 0 && (isNamed ? t("names.shown") : t("names.hidden", { n: count(shown) }))}
        {shown === 0 && ` · ${fleet.nodes.length ? t("machines.none") : t("machines.empty")}`}
      </p>
      <div
        class="map"
        ref={box}
        tabIndex={0}
        role="application"
        aria-label={t("map")}
        aria-describedby="map-selected"
        data-map
        onScroll={(event) => setScrollTop(event.currentTarget.scrollTop)}
        onKeyDown={onKey}
        onMouseMove={(event) => {
          const machine = point(event);
          setHovered(machine < 0 ? null : { machine, x: event.clientX, y: event.clientY });
        }}
        onMouseLeave={() => setHovered(null)}
        onClick={(event) => {
          const machine = point(event);
          set({ machine: machine < 0 ? "" : fleet.nodes[machine]! });
        }}
        onDblClick={(event) => {
          const machine = point(event);
          if (machine >= 0) go("node", { name: fleet.nodes[machine]! });
        }}
        onWheel={(event) => {
          if (!event.ctrlKey) return;
          event.preventDefault();
          zoom(event.deltaY < 0 ? 1 : -1);
        }}
      >
        <div class="frame">
          <canvas ref={base} />
          <canvas ref={top} />
        </div>
        <div class="spacer" style={{ height: `${found.height}px` }} />
      </div>
      <p id="map-selected" class="hidden" aria-live="polite">{selected >= 0 ? sentence(fleet, selected) : ""}</p>
      {hovered && hovered.machine < fleet.nodes.length && <Tip fleet={fleet} machine={hovered.machine} x={hovered.x} y={hovered.y} />}
    </>
  );
}

let kept: ImageData | null = null;
function imageOf(context: CanvasRenderingContext2D, width: number, height: number): ImageData {
  if (kept?.width !== width || kept.height !== height) kept = context.createImageData(width, height);
  return kept;
}

function overlay(
  context: CanvasRenderingContext2D,
  fleet: Fleet,
  found: Layout,
  resource: Resource,
  seen: { from: number; to: number },
  dark: boolean,
  hovered: number,
  selected: number,
): void {
  const ink = dark ? "#e7ecef" : "#1c2429";
  context.textBaseline = "middle";
  for (const group of found.groups) {
    if (group.name && group.y + 26 >= seen.from && group.y <= seen.to) {
      let whole = 0;
      let asked = 0;
      let using = 0;
      for (const i of group.machines) {
        whole += capacity(fleet, i, resource);
        asked += requested(fleet, i, resource);
        const amount = used(fleet, i, resource);
        using += amount === UNKNOWN ? NaN : amount;
      }
      context.fillStyle = ink;
      context.font = "600 13px system-ui, sans-serif";
      context.fillText(group.name, 2, group.y + 14);
      const after = context.measureText(group.name).width;
      context.globalAlpha = 0.72;
      context.font = "12px system-ui, sans-serif";
      const use = Number.isNaN(using) ? "" : ` · ${t("used")} ${percent(using, whole)}`;
      context.fillText(`${t("machines.count", { n: count(group.machines.length) })} · ${t("requested")} ${percent(asked, whole)}${use}`, after + 14, group.y + 14);
      context.globalAlpha = 1;
    }
  }
  if (found.nameLine) {
    context.font = "11px system-ui, sans-serif";
    for (const group of found.groups) {
      for (const [at, machine] of group.machines.entries()) {
        const y = group.top + Math.floor(at / found.perRow) * (found.cellHeight + 1);
        if (y + found.cellHeight < seen.from || y > seen.to) continue;
        const x = (at % found.perRow) * (found.cellWidth + 1);
        context.fillStyle = ink;
        context.fillText(clipped(context, fleet.nodes[machine]!, found.cellWidth - 4), x + 1, y + 9);
      }
    }
  }
  for (const [machine, width] of [[hovered, 1], [selected, 2.5]] as const) {
    const where = machine >= 0 ? rectangle(found, machine) : null;
    if (!where) continue;
    context.strokeStyle = ink;
    context.lineWidth = width;
    context.strokeRect(where.x - 0.5, where.y - 0.5, found.cellWidth + 1, found.cellHeight + 1);
  }
}

function clipped(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (context.measureText(text).width <= width) return text;
  let end = text.length;
  while (end > 1 && context.measureText(`${text.slice(0, end)}…`).width > width) end--;
  return `${text.slice(0, end)}…`;
}

function sentence(fleet: Fleet, i: number): string {
  const cpu = fleet.get(i, Column.Cpu);
  const using = fleet.get(i, Column.CpuUsed);
  const parts = [
    fleet.nodes[i]!,
    `${t("requested")} ${percent(fleet.get(i, Column.CpuRequested) + fleet.get(i, Column.LentRequested), cpu)}`,
    using === UNKNOWN ? t("unmeasured") : `${t("used")} ${percent(using, cpu)}`,
  ];
  if (fleet.burning(i) > 0) parts.push(t("burning.share", { n: percent(fleet.burning(i), 1) }));
  return parts.join(", ");
}

function tenantsOf(fleet: Fleet, i: number, resource: Resource): { tenant: number; kind: number; asked: number; used: number }[] {
  const cells = fleet.cells[i]!;
  const at = resource === "cpu" ? 2 : 4;
  const rows = [];
  for (let c = 0; c < cells.length; c += CELL) rows.push({ tenant: cells[c]!, kind: cells[c + 1]!, asked: cells[c + at]!, used: cells[c + at + 1]! });
  return rows.sort((a, b) => b.asked - a.asked);
}

function Tip({ fleet, machine, x, y }: { fleet: Fleet; machine: number; x: number; y: number }) {
  const resource: Resource = param("resource") === "memory" ? "memory" : "cpu";
  const rows = tenantsOf(fleet, machine, resource);
  return (
    <div class="tip" ref={(element) => beside(element, x, y)}>
      <strong>{fleet.nodes[machine]}</strong>
      <Figures fleet={fleet} machine={machine} />
      {rows.slice(0, 6).map((row) => (
        <TenantLine key={`${row.tenant}-${row.kind}`} fleet={fleet} {...row} />
      ))}
      {rows.length > 6 && <div class="soft">{t("legend.others", { n: rows.length - 6 })}</div>}
    </div>
  );
}

function Swatch({ index, pale = false }: { index: number; pale?: boolean }) {
  const palette = colours.value;
  const colour = css(pale ? palette.pale(index) : palette.full(index));
  return <i class="swatch" style={{ backgroundColor: colour }} />;
}

function colourIndex(tenant: number, kind: number): number {
  return param("colour") === "kind" ? KINDS[kind & 3]! : tenant % 24;
}

function TenantLine({ fleet, tenant, kind, asked, used: using }: { fleet: Fleet; tenant: number; kind: number; asked: number; used: number }) {
  return (
    <div class="tenant-line">
      <Swatch index={colourIndex(tenant, kind)} />
      <span class="name">{fleet.tenants[tenant]}</span>
      <span class="soft">{t(`kind.${kind}` as Word)}</span>
      <span class="number">{(asked / 10).toFixed(0)} %</span>
      <span class="number soft">{using === UNMEASURED ? "–" : `${(using / 10).toFixed(0)} %`}</span>
    </div>
  );
}

function Figures({ fleet, machine }: { fleet: Fleet; machine: number }) {
  const get = (column: Column): number => fleet.get(machine, column);
  return (
    <div class="figures">
      <Meter name={t("cpu")} whole={get(Column.Cpu)} asked={get(Column.CpuRequested)} lent={get(Column.LentRequested)} used={get(Column.CpuUsed)} text={cores} />
      <Meter name={t("memory")} whole={get(Column.Memory)} asked={get(Column.MemoryRequested)} lent={0} used={get(Column.MemoryUsed)} text={(mib) => bytes(mib * 1048576)} />
      {get(Column.Lent) > 0 && (
        <div class="soft">{t("lent")} {cores(get(Column.Lent))} · {t("lent.used")} {cores(get(Column.LentRequested))}</div>
      )}
      {fleet.burning(machine) > 0 && <div class="burning">{t("burning.share", { n: percent(fleet.burning(machine), 1) })}</div>}
    </div>
  );
}

/** A bar: allocated pale, lent hatched behind it, used as a line. */
export function Meter({ name, whole, asked, lent, used: using, text }: { name: string; whole: number; asked: number; lent: number; used: number | null; text: (amount: number) => string }) {
  const isMeasured = using !== null && using !== UNKNOWN;
  const share = (amount: number): string => `${Math.min(100, (100 * amount) / (whole || 1))}%`;
  return (
    <div class="meter">
      <div class="meter-head">
        <span>{name}</span>
        <span class="soft">
          {t("requested")} {text(asked + lent)} · {isMeasured ? `${t("used")} ${text(using)}` : t("unmeasured")} / {text(whole)}
        </span>
      </div>
      <div class="bar" role="img" aria-label={`${name}: ${percent(asked + lent, whole)}, ${isMeasured ? percent(using, whole) : t("unmeasured")}`}>
        <i class="asked-lent" style={{ width: share(asked + lent) }} />
        <i class="asked" style={{ width: share(asked) }} />
        {isMeasured && <i class="used" style={{ width: share(using) }} />}
      </div>
    </div>
  );
}

function ClusterCard({ totals }: { totals: Totals }) {
  return (
    <section class="card">
      <h2>{t("cluster")}</h2>
      <div class="tiles">
        <a class="tile" href={to("machines")}><b>{count(totals.nodes)}</b><span>{t("tile.machines", { n: totals.nodes })}</span></a>
        <a class="tile" href={to("pods")}><b>{count(totals.pods)}</b><span>{t("tile.pods", { n: totals.pods })}</span></a>
        <a class={`tile${totals.pending ? " warn" : ""}`} href={to("pods", { state: "pending" })}><b>{count(totals.pending)}</b><span>{t("pending")}</span></a>
        <a class={`tile${totals.burning ? " warn" : ""}`} href={to("machines", { sort: "burning" })}><b>{count(totals.burning)}</b><span>{t("burning")}</span></a>
      </div>
      <Meter name={t("cpu")} whole={totals.cpu_m} asked={totals.requested_m} lent={totals.lent_requested_m} used={totals.used_m} text={cores} />
      <Meter name={t("memory")} whole={totals.memory_mib} asked={totals.memory_requested_mib} lent={0} used={totals.memory_used_mib} text={(mib) => bytes(mib * 1048576)} />
      {totals.used_m !== null && totals.unmeasured > 0 && <div class="soft">{t("unmeasured")}: {t("machines.count", { n: count(totals.unmeasured) })}</div>}
      {totals.lent_m > 0 && <div class="soft">{t("lent")} {cores(totals.lent_m)} {t("cpu")} · {t("lent.used")} {cores(totals.lent_requested_m)}</div>}
    </section>
  );
}

function MachineCard({ fleet, machine }: { fleet: Fleet; machine: number }) {
  const resource: Resource = param("resource") === "memory" ? "memory" : "cpu";
  const name = fleet.nodes[machine]!;
  return (
    <section class="card" aria-label={name}>
      <h2>{name} <button type="button" class="close" aria-label={t("back")} onClick={() => set({ machine: "" })}>×</button></h2>
      <Figures fleet={fleet} machine={machine} />
      <a class="button" href={to("node", { name })}>{t("explain")} <kbd>e</kbd></a>
      <h3>{t("tenants")} <span class="soft">{t("requested")} · {t("used")}</span></h3>
      {tenantsOf(fleet, machine, resource).map((row) => (
        <a key={`${row.tenant}-${row.kind}`} class="plain" href={to("pods", { q: name })}><TenantLine fleet={fleet} {...row} /></a>
      ))}
    </section>
  );
}

function Legend({ fleet }: { fleet: Fleet }) {
  const byKind = param("colour") === "kind";
  const shown = byKind ? [0, 1, 2, 3] : fleet.tenants.slice(0, 14).map((_, i) => i);
  return (
    <section class="card legend">
      <h2>{t("legend")}</h2>
      <p class="soft">{t("legend.width")}</p>
      <ul>
        <li><i class="sample two" />{t("legend.allocated")} / {t("legend.used")}</li>
        <li><i class="sample free" />{t("legend.free")}</li>
        <li><i class="sample strip" />{t("legend.lent")}</li>
        <li><i class="sample burn" />{t("legend.burning")}</li>
        <li><i class="sample off" />{t("legend.notready")} / {t("cordoned")}</li>
      </ul>
      <ul class="tenants">
        {shown.map((i) =>
          byKind ? (
            <li key={i}><Swatch index={KINDS[i]!} />{t(`kind.${i}` as Word)}</li>
          ) : (
            <li key={i}><button type="button" class="plain" onClick={() => set({ q: fleet.tenants[i]! })}><Swatch index={i % 24} /><span class="name">{fleet.tenants[i]}</span></button></li>
          ),
        )}
        {!byKind && fleet.tenants.length > 14 && <li class="soft">{t("legend.others", { n: fleet.tenants.length - 14 })}</li>}
      </ul>
    </section>
  );
}
