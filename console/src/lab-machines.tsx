// The machines of runs of the lab over time, side by side: one cell a machine in the same place in every map, drawn at one time for all. A slider steps through the recorded frames, and they play.
import { useEffect, useRef, useState } from "preact/hooks";
import { useAsked } from "./ask";
import type { RunMachines } from "./answers";
import { colours, KINDS, type Palette } from "./colours";
import { drawCells, layOut } from "./machines/cells";
import { useWidth } from "./parts";
import { param, set } from "./route";
import { t } from "./words";

const PLAY_MS = 250;

interface Side {
  policy: string;
  machines: RunMachines | null;
  cells: Uint8Array;
  error: string;
}

function useSide(of: string, policy: string, load: number, seed: number): Side {
  const asked = useAsked<RunMachines>(policy && `/api/lab/machines?${new URLSearchParams({ of, policy, load: String(load), seed: String(seed) })}`);
  const kept = useRef<{ value: RunMachines | null; cells: Uint8Array }>({ value: null, cells: new Uint8Array() });
  if (kept.current.value !== asked.value) {
    kept.current = { value: asked.value, cells: asked.value ? Uint8Array.from(atob(asked.value.cells), (each) => each.charCodeAt(0)) : new Uint8Array() };
  }
  return { policy, machines: asked.value, cells: kept.current.cells, error: asked.error };
}

/** One or two policies; `b` may be empty. */
export function RunMaps({ of, a, b, load, seed }: { of: string; a: string; b: string; load: number; seed: number }) {
  const sides = [useSide(of, a, load, seed), useSide(of, b, load, seed)].filter((each) => each.policy);
  const hours = sides.reduce<number[]>((longest, each) => (each.machines && each.machines.hours.length > longest.length ? each.machines.hours : longest), []);
  const [isPlaying, setPlaying] = useState(false);
  const last = hours.length - 1;
  const at = Math.min(Math.max(0, last), Math.max(0, Math.round(Number(param("at")) || 0)));
  const now = useRef(at);
  now.current = at;
  useEffect(() => {
    if (!isPlaying || last < 1) return;
    const timer = setInterval(() => {
      if (now.current >= last) setPlaying(false);
      else set({ at: String(now.current + 1) });
    }, PLAY_MS);
    return () => clearInterval(timer);
  }, [isPlaying, last]);
  const play = (): void => {
    if (!isPlaying && at >= last) set({ at: "" });
    setPlaying(!isPlaying);
  };
  return (
    <section data-maps>
      <h3>{t("lab.maps")}</h3>
      <p class="soft">{t("lab.maps-help")}</p>
      {last > 0 && (
        <div class="timeline">
          <button type="button" aria-pressed={isPlaying} onClick={play}>{isPlaying ? `❚❚ ${t("lab.pause")}` : `▶ ${t("lab.play")}`}</button>
          <label>
            <span>{t("time")}</span>
            <input
              type="range"
              min={0}
              max={last}
              value={at}
              aria-valuetext={t("lab.hour", { h: hour(hours[at]) })}
              onInput={(event) => set({ at: event.currentTarget.value })}
              onKeyDown={(event) => {
                if (event.key !== " ") return;
                event.preventDefault();
                play();
              }}
            />
          </label>
          <span class="number">{t("lab.hour", { h: hour(hours[at]) })}</span>
        </div>
      )}
      <div class="radars">{sides.map((each, k) => <RunMap key={k} side={each} which={k} at={at} />)}</div>
    </section>
  );
}

function hour(value: number | undefined): string {
  return (value ?? 0).toFixed(2);
}

function RunMap({ side, which, at }: { side: Side; which: number; at: number }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box);
  const { machines, cells } = side;
  const palette = colours.value;
  const frame = machines ? Math.min(at, machines.hours.length - 1) : 0;
  useEffect(() => {
    if (canvas.current && machines && width > 0) draw(canvas.current, machines, cells, frame, width, palette);
  }, [machines, cells, frame, width, palette]);
  const words = machines
    ? t("lab.map", { n: machines.violated[frame] ?? 0, m: machines.machines, used: Math.round(100 * (machines.used_cpu[frame] ?? 0)) })
    : "";
  return (
    <figure class="radar">
      <figcaption><span class={`swatch profile-${which}`} /> <b>{side.policy}</b></figcaption>
      {side.error && <p class="soft">{side.error}</p>}
      <div ref={box}>{machines && <canvas ref={canvas} role="img" aria-label={`${side.policy}: ${words}`} />}</div>
      {machines && <p class="soft" data-map-words>{words}{machines.machine.length < machines.machines && ` ${t("lab.map-part", { n: machines.machine.length })}`}</p>}
    </figure>
  );
}

function draw(canvas: HTMLCanvasElement, machines: RunMachines, cells: Uint8Array, frame: number, width: number, palette: Palette): void {
  const [number, columns] = [machines.machine.length, machines.columns];
  const column = (name: string): number => columns.indexOf(name);
  const [down, missed] = [column("down"), column("missed")];
  const parts = [
    [column("service_asked"), column("service_used"), KINDS[0]],
    [column("batch_asked"), column("batch_used"), KINDS[2]],
  ] as const;
  drawCells(canvas, width, layOut(number, width), palette, (k) => {
    const from = (frame * number + k) * columns.length;
    return {
      parts: parts.map(([asked, used, kind]) => ({
        share: cells[from + asked]!,
        used: cells[from + asked]! ? Math.min(1, cells[from + used]! / cells[from + asked]!) : 0,
        solid: palette.solid[kind]!,
        pale: palette.light[kind]!,
      })),
      isMissed: !!cells[from + missed],
      isDown: !!cells[from + down],
    };
  });
}
