// The view "Quotas": the tree as a treemap. A quota's area is what it may use now (its runtime, at least its minimum); the filled part is used, hatched what it borrows beyond its minimum, dashed what it lends of it.
import { useMemo, useRef, useState, useEffect } from "preact/hooks";
import { useAsked } from "./ask";
import type { Quota } from "./answers";
import { colours, css } from "./colours";
import { amount, count, percent } from "./format";
import { Old } from "./old";
import { beside, Empty, Wide } from "./parts";
import { param, set, to } from "./route";
import { t } from "./words";

// Positions in the terms of a share: model of policy/quota/nodes.RuntimeTerms.
const enum Term {
  Resource,
  Own,
  Child,
  Request,
  Limited,
  Used,
  Minimum,
  ScaledMinimum,
  Allocated,
  Guaranteed,
  Maximum,
  Weight,
  Total,
  Start,
  Runtime,
}

interface Item {
  quota: Quota;
  used: number;
  minimum: number;
  runtime: number;
  request: number;
  maximum: number | null;
  weight: number;
  size: number;
  reason: string;
}

interface Box {
  item: Item;
  x: number;
  y: number;
  w: number;
  h: number;
  depth: number;
  isParent: boolean;
}

function item(quota: Quota, resource: string): Item | null {
  const share = quota.shares.find((each) => each.terms[Term.Resource] === resource);
  if (!share) return null;
  const number = (at: Term): number => Number(share.terms[at] ?? 0);
  const maximum = share.terms[Term.Maximum];
  const runtime = number(Term.Runtime);
  return {
    quota,
    used: number(Term.Used),
    minimum: number(Term.Minimum),
    runtime,
    request: number(Term.Request),
    maximum: maximum === null || maximum === undefined ? null : Number(maximum),
    weight: number(Term.Weight),
    size: Math.max(runtime, number(Term.Minimum), number(Term.Used), 1e-9),
    reason: share.reason.text,
  };
}

/** Squarified treemap (Bruls, Huizing, van Wijk 2000): rows of boxes whose sides are as equal as can be. */
function squarify(items: Item[], x: number, y: number, w: number, h: number): [Item, number, number, number, number][] {
  const out: [Item, number, number, number, number][] = [];
  const rest = [...items].sort((a, b) => b.size - a.size);
  let left = rest.reduce((sum, each) => sum + each.size, 0);
  while (rest.length && w > 0.5 && h > 0.5) {
    const side = Math.min(w, h);
    const scale = (w * h) / left;
    const row: Item[] = [];
    let sum = 0;
    let best = Infinity;
    while (rest.length) {
      const next = rest[0]!.size * scale;
      const areas = [...row.map((each) => each.size * scale), next];
      const total = sum + next;
      const ratio = Math.max(...areas.map((area) => Math.max((side * side * area) / (total * total), (total * total) / (side * side * area))));
      if (ratio > best) break;
      best = ratio;
      sum = total;
      row.push(rest.shift()!);
    }
    const thick = sum / side;
    let along = 0;
    for (const each of row) {
      const length = (each.size * scale) / thick;
      if (w >= h) out.push([each, x, y + along, thick, length]);
      else out.push([each, x + along, y, length, thick]);
      along += length;
      left -= each.size;
    }
    if (w >= h) {
      x += thick;
      w -= thick;
    } else {
      y += thick;
      h -= thick;
    }
  }
  return out;
}

function boxes(quotas: Quota[], resource: string, width: number, height: number): Box[] {
  const known = new Map(quotas.map((each) => [each.name, each]));
  const found: Box[] = [];
  const fill = (of: Quota[], x: number, y: number, w: number, h: number, depth: number): void => {
    const items = of.map((each) => item(each, resource)).filter((each): each is Item => each !== null);
    for (const [each, bx, by, bw, bh] of squarify(items, x, y, w, h)) {
      const children = each.quota.children.map((name) => known.get(name)).filter((child): child is Quota => !!child);
      const isParent = children.length > 0 && bw > 40 && bh > 50;
      found.push({ item: each, x: bx, y: by, w: bw, h: bh, depth, isParent });
      if (isParent && depth < 6) fill(children, bx + 4, by + 22, bw - 8, bh - 26, depth + 1);
    }
  };
  fill(quotas.filter((each) => !known.has(each.parent)), 0, 0, width, height, 0);
  return found;
}

export function Quotas() {
  const asked = useAsked<Quota[]>("/api/scheduler/quotas", 5);
  const box = useRef<HTMLDivElement>(null);
  const [room, setRoom] = useState({ width: 0, height: 0 });
  const [hovered, setHovered] = useState<{ name: string; x: number; y: number } | null>(null);
  const quotas = asked.value ?? [];
  const resources = useMemo(() => [...new Set(quotas.flatMap((each) => each.shares.map((share) => String(share.terms[Term.Resource]))))], [asked.value]);
  const resource = resources.includes(param("resource")) ? param("resource") : resources.includes("cpu") ? "cpu" : (resources[0] ?? "cpu");
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const watch = new ResizeObserver(() => setRoom({ width: element.clientWidth, height: element.clientHeight }));
    watch.observe(element);
    return () => watch.disconnect();
  }, [quotas.length > 0]);
  const found = useMemo(() => boxes(quotas, resource, room.width, room.height), [asked.value, resource, room.width, room.height]);
  const chosen = quotas.find((each) => each.name === param("quota"));
  const move = (event: KeyboardEvent): void => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    const at = found.findIndex((each) => each.item.quota.name === param("quota"));
    const next = found[Math.max(0, Math.min(found.length - 1, at + step))];
    if (next) set({ quota: next.item.quota.name });
    event.preventDefault();
  };
  if (asked.error && !asked.value) return <Empty text={t("quota.away")} why={asked.error} />;
  if (!asked.value) return <p class="empty">{t("loading")}</p>;
  if (!quotas.length) return <Empty text={t("quota.none")} />;
  const drawn = quotas.some((each) => item(each, resource));
  return (
    <div class="quotas">
      <div class="controls">
        <div class="chips" role="group" aria-label={t("resource")}>
          {resources.map((name) => <button type="button" key={name} aria-pressed={name === resource} onClick={() => set({ resource: name })}>{name}</button>)}
        </div>
      </div>
      <Old asked={asked} />
      <p class="soft">{t(drawn ? "quota.help" : "quota.undivided")}</p>
      <div class="treemap" ref={box} tabIndex={0} role="listbox" aria-label={t("quotas")} onKeyDown={move} onMouseLeave={() => setHovered(null)}>
        {found.map((each) => <QuotaBox key={each.item.quota.name} box={each} resource={resource} isChosen={each.item.quota === chosen} onHover={(x, y) => setHovered({ name: each.item.quota.name, x, y })} />)}
      </div>
      {hovered && <Hover quota={quotas.find((each) => each.name === hovered.name)} resource={resource} x={hovered.x} y={hovered.y} />}
      {param("quota") && !chosen && <p class="note stale" role="status">{t("quota.gone", { name: param("quota") })}</p>}
      {chosen && <QuotaCard quota={chosen} resource={resource} />}
      <Wide>
        <table>
          <thead>
            <tr>
              <th scope="col">{t("quota.name")}</th>
              {(["quota.min", "quota.runtime", "used", "quota.request", "quota.max", "quota.borrowed", "quota.lent", "quota.waiting"] as const).map((word) => <th scope="col" class="number" key={word}>{t(word)}</th>)}
            </tr>
          </thead>
          <tbody>
            {quotas.map((quota) => {
              const row = item(quota, resource);
              const shown = (value: number | null | undefined): string => (value === null || value === undefined ? "–" : amount(resource, value));
              return (
                <tr key={quota.name} class={quota === chosen ? "chosen" : ""}>
                  <th scope="row"><button type="button" class="plain link" onClick={() => set({ quota: quota.name })}>{quota.name}</button>{quota.problems.length > 0 && <span class="burning" title={quota.problems.join("\n")}> !</span>}</th>
                  <td class="number">{shown(row?.minimum)}</td>
                  <td class="number">{shown(row?.runtime)}</td>
                  <td class="number">{shown(row?.used)}</td>
                  <td class="number">{shown(row?.request)}</td>
                  <td class="number">{shown(row?.maximum)}</td>
                  <td class="number">{row ? shown(borrowed(row)) : "–"}</td>
                  <td class="number">{row ? shown(lent(row)) : "–"}</td>
                  <td class="number">{count(quota.waiting)}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </Wide>
    </div>
  );
}

function borrowed(row: Item): number {
  return Math.max(0, row.used - row.minimum);
}

function lent(row: Item): number {
  return row.quota.lends ? Math.max(0, row.minimum - Math.max(row.runtime, row.used)) : 0;
}

function QuotaBox({ box, resource, isChosen, onHover }: { box: Box; resource: string; isChosen: boolean; onHover: (x: number, y: number) => void }) {
  const { item: row } = box;
  const colour = css(colours.value.full(hash(row.quota.name)));
  const place = { left: `${box.x}px`, top: `${box.y}px`, width: `${Math.max(0, box.w - 2)}px`, height: `${Math.max(0, box.h - 2)}px`, "--colour": colour };
  const share = (from: number, end: number): { left: string; width: string } => ({
    left: `${(100 * from) / row.size}%`,
    width: `${Math.max(0, (100 * (end - from)) / row.size)}%`,
  });
  const own = Math.min(row.used, row.minimum);
  return (
    <div class={`quota${box.isParent ? " parent" : ""}${isChosen ? " chosen" : ""}`} role="option" aria-selected={isChosen} style={place} onMouseMove={(event) => { event.stopPropagation(); onHover(event.clientX, event.clientY); }} onClick={(event) => { event.stopPropagation(); set({ quota: row.quota.name }); }}>
      {!box.isParent && (
        <>
          <i class="own" style={share(0, own)} />
          <i class="borrowed" style={share(row.minimum, Math.max(row.minimum, row.used))} />
          {lent(row) > 0 && <i class="lends" style={share(Math.max(row.runtime, row.used), row.minimum)} />}
        </>
      )}
      <span class="quota-name">{row.quota.name} <span class="soft">{amount(resource, row.used)} / {amount(resource, row.runtime)}</span></span>
    </div>
  );
}

function hash(text: string): number {
  let found = 0;
  for (const letter of text) found = (found * 31 + letter.codePointAt(0)!) >>> 0;
  return found % 8;
}

const TERMS = [
  ["quota.own", Term.Own],
  ["quota.child", Term.Child],
  ["quota.request", Term.Request],
  ["quota.limited", Term.Limited],
  ["used", Term.Used],
  ["quota.min", Term.Minimum],
  ["quota.scaled", Term.ScaledMinimum],
  ["quota.guaranteed", Term.Guaranteed],
  ["quota.max", Term.Maximum],
  ["quota.weight", Term.Weight],
  ["quota.total", Term.Total],
  ["quota.start", Term.Start],
  ["quota.runtime", Term.Runtime],
] as const;

/** Each term of a quota's runtime in one resource, then what it borrows and lends. */
function Terms({ quota, resource }: { quota: Quota; resource: string }) {
  const row = item(quota, resource);
  const terms = quota.shares.find((each) => each.terms[Term.Resource] === resource)?.terms;
  if (!row || !terms) return null;
  const text = (value: string | number | null | undefined): string => (value === null || value === undefined ? "–" : amount(resource, Number(value)));
  return (
    <dl class="terms">
      {TERMS.map(([word, at]) => <div key={word}><dt>{t(word)}</dt><dd>{text(terms[at])}</dd></div>)}
      <div><dt>{t("quota.borrowed")}</dt><dd>{text(borrowed(row))}</dd></div>
      <div><dt>{t("quota.lent")}</dt><dd>{text(lent(row))}</dd></div>
    </dl>
  );
}

function Hover({ quota, resource, x, y }: { quota: Quota | undefined; resource: string; x: number; y: number }) {
  if (!quota) return null;
  return (
    <div class="tip" ref={(element) => beside(element, x, y)}>
      <strong>{quota.name}</strong> <span class="soft">{resource}</span>
      <Terms quota={quota} resource={resource} />
    </div>
  );
}

function QuotaCard({ quota, resource }: { quota: Quota; resource: string }) {
  const row = item(quota, resource);
  return (
    <section class="card">
      <h2>{quota.name} <button type="button" class="close" aria-label={t("back")} onClick={() => set({ quota: "" })}>×</button></h2>
      {quota.problems.map((each) => <p class="error" key={each}>{each}</p>)}
      {row && <p><b>{t("quota.explain")}</b> {row.reason}</p>}
      {!row && <p class="soft">{t("quota.not-divided", { resource })}</p>}
      <Terms quota={quota} resource={resource} />
      <p><a href={to("pods", { q: quota.object.split("/")[0] ?? "" })}>{t("pods")}</a> · {row && `${t("used")} ${percent(row.used, row.runtime)} · `}{t("quota.waiting")} {count(quota.waiting)}{quota.keptFor && ` · ${quota.keptFor}`}</p>
    </section>
  );
}
