// The latency of a service over time: a column for each half minute, as dark as requests took that long; lines for half and 99 % of the requests. From the sketches of the trace process.
import { useEffect, useRef, useState } from "preact/hooks";
import { useAsked } from "./ask";
import type { LatencyPage, LatencySlot } from "./answers";
import { colours, KINDS } from "./colours";
import { clock, count, milliseconds, percent } from "./format";
import { Old } from "./old";
import { t } from "./words";

const COLUMNS = 480;
const QUANTILES = [["p50Ms", "p50"], ["p99Ms", "p99"]] as const;

export function LatencySketch({ service, limitMs }: { service: string; limitMs: number | null }) {
  const asked = useAsked<LatencyPage>(`/api/traces/sketch?service=${encodeURIComponent(service)}`, 10);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [at, setAt] = useState(-1);
  const page = asked.value;
  const palette = colours.value;
  const slots = page?.slots ?? [];
  const span = Math.max(60, ...slots.map((each) => each.agoS));
  const bands = slots.flatMap((each) => each.bands.map(([band]) => band));
  const limitBand = page && limitMs ? Math.floor(Math.log(limitMs / page.lowMs) / Math.log(page.factor)) : null;
  const low = Math.min(...bands, limitBand ?? Infinity);
  const high = Math.max(...bands, limitBand ?? -Infinity) + 1;
  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!canvas.current || !context || !bands.length) return;
    canvas.current.width = COLUMNS;
    canvas.current.height = high - low;
    const image = context.createImageData(COLUMNS, high - low);
    const [red, green, blue] = palette.full(KINDS[0]);
    for (const slot of slots) {
      const from = Math.max(0, Math.round((COLUMNS * (span - slot.agoS)) / span));
      const end = Math.min(COLUMNS, Math.max(from + 1, Math.round((COLUMNS * (span - slot.agoS + slot.lengthS)) / span)));
      const most = Math.max(1, ...slot.bands.map(([, requests]) => requests));
      for (const [band, requests] of slot.bands)
        for (let x = from; x < end; x++) image.data.set([red, green, blue, Math.round(255 * (0.07 + 0.83 * Math.sqrt(requests / most)))], 4 * ((high - 1 - band) * COLUMNS + x));
    }
    context.putImageData(image, 0, 0);
  }, [page, palette, low, high, span]);
  if (asked.error && !page) return asked.status === 404 ? null : <p class="error">{asked.error}</p>;
  if (!page) return <p class="soft">{t("loading")}</p>;
  if (!bands.length) return <section><h2>{t("sketch", { service })}</h2><p class="soft">{t("sketch.none")}</p></section>;
  const now = asked.at;
  const middle = (slot: LatencySlot): number => (100 * (span - slot.agoS + slot.lengthS / 2)) / span;
  const y = (ms: number): number => 100 - (100 * (Math.log(ms / page.lowMs) / Math.log(page.factor) - low)) / (high - low);
  const edge = (band: number): number => page.lowMs * page.factor ** band;
  const line = (name: (typeof QUANTILES)[number][0]): string =>
    slots.flatMap((slot) => (slot[name] === null ? [] : [`${middle(slot).toFixed(2)} ${y(slot[name]).toFixed(2)}`])).map((point, k) => `${k ? "L" : "M"}${point}`).join("");
  const chosen = slots[at] ?? slots[slots.length - 1]!;
  const step = (event: KeyboardEvent): void => {
    const by = { ArrowLeft: -1, ArrowRight: 1, Home: -slots.length, End: slots.length }[event.key];
    if (!by) return;
    setAt(Math.max(0, Math.min(slots.length - 1, (at < 0 ? slots.length - 1 : at) + by)));
    event.preventDefault();
  };
  const point = (event: MouseEvent): void => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const wanted = (100 * (event.clientX - box.left)) / box.width;
    setAt(slots.reduce((best, slot, k) => (Math.abs(middle(slot) - wanted) < Math.abs(middle(slots[best]!) - wanted) ? k : best), 0));
  };
  const said = `${clock(now - chosen.agoS)}: ${t("sketch.slot", { n: count(chosen.requests), errors: percent(chosen.errors, chosen.requests) })} · p50 ${milliseconds(chosen.p50Ms)} · p95 ${milliseconds(chosen.p95Ms)} · p99 ${milliseconds(chosen.p99Ms)}`;
  return (
    <section data-sketch>
      <h2>{t("sketch", { service })}</h2>
      <Old asked={asked} />
      <p class="soft">{t("sketch.help")}{limitMs !== null && ` ${t("sketch.limit", { ms: milliseconds(limitMs) })}`}</p>
      <div class="heat" tabIndex={0} role="img" aria-label={`${t("sketch", { service })}. ${said}`} onKeyDown={step} onMouseMove={point} onMouseLeave={() => setAt(-1)}>
        <canvas ref={canvas} />
        <svg viewBox="0 0 100 100" preserveAspectRatio="none" aria-hidden="true">
          {limitMs !== null && <line class="limit" x1="0" x2="100" y1={y(limitMs)} y2={y(limitMs)} />}
          {QUANTILES.map(([name, style]) => <path key={name} class={style} d={line(name)} />)}
          {at >= 0 && <line class="mark" x1={middle(chosen)} x2={middle(chosen)} y1="0" y2="100" />}
        </svg>
        <span class="scale">{milliseconds(edge(high))}</span>
        <span class="scale low">{milliseconds(edge(low))}</span>
      </div>
      <p class="between soft"><span>{clock(now - span)}</span><span>{clock(now)}</span></p>
      <p class="soft" aria-live="polite">{said}</p>
    </section>
  );
}
