// The machines of one moment, each divided by tenant: services in shades of one colour, batch in shades of another. The pointer or the arrow keys read a machine.
import { useEffect, useRef, useState } from "preact/hooks";
import { colours, css, KINDS, mix, pack, type Palette, type Rgb } from "../colours";
import { short } from "../chart/axis";
import { type Cells, drawCells, layOut } from "../machines/cells";
import { useWidth } from "../parts";
import type { TenantMapData } from "./data";

const WIDEST = 96; // pixels of a cell: tenants are narrow parts of it

function shades(palette: Palette, kind: number, number: number): Rgb[] {
  const whole = palette.full(kind);
  return Array.from({ length: number }, (_, k) => (k ? mix(whole, palette.canvas, (0.78 * k) / (number - 1 || 1)) : mix(whole, palette.burn, 0.3)));
}

export function TenantMap({ data, label }: { data: TenantMapData; label: string }) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const width = useWidth(box);
  const [which, setWhich] = useState(0);
  const [at, setAt] = useState(-1);
  const palette = colours.value;
  const kinds = data.tenants.length; // the last: all other tenants
  const inks = [...shades(palette, KINDS[0], kinds), ...shades(palette, KINDS[2], kinds)];
  const map = data.maps[which]!;
  const share = (k: number, i: number): number => map.shares[k * 2 * kinds + i]! / 10;
  const cells: Cells = layOut(map.machine.length, width, WIDEST);
  useEffect(() => {
    if (!canvas.current || width <= 0) return;
    const packed = inks.map(pack);
    drawCells(canvas.current, width, cells, palette, (k) => ({ parts: packed.map((ink, i) => ({ share: share(k, i), used: 1, solid: ink, pale: ink })) }));
  }, [map, width, palette]);
  const name = (i: number): string => `${i < kinds ? "services" : "batch"}: ${data.tenants[i % kinds]}`;
  const held = (k: number): string => inks.flatMap((_, i) => (share(k, i) > 0 ? [`${name(i)} ${short(share(k, i))} %`] : [])).join(", ");
  const words = at >= 0 ? `Machine ${map.machine[at]}: ${held(at) || "nothing"}` : "";
  const point = (event: MouseEvent): void => {
    const edge = canvas.current!.getBoundingClientRect();
    const [column, row] = [Math.floor((event.clientX - edge.left) / cells.cellW), Math.floor((event.clientY - edge.top) / cells.cellH)];
    const k = row * cells.perRow + column;
    setAt(column < cells.perRow && k >= 0 && k < cells.number ? k : -1);
  };
  const step = (event: KeyboardEvent): void => {
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -cells.perRow, ArrowDown: cells.perRow, Home: -cells.number, End: cells.number }[event.key];
    if (!by) return;
    setAt(Math.max(0, Math.min(cells.number - 1, at + by)));
    event.preventDefault();
  };
  const seen = inks.flatMap((ink, i) => (map.machine.some((_, k) => share(k, i) > 0) ? [{ ink, name: name(i) }] : []));
  return (
    <div class="tenant-map">
      {data.maps.length > 1 && (
        <label class="choice">
          policy <select value={String(which)} onChange={(event) => { setWhich(Number(event.currentTarget.value)); setAt(-1); }}>{data.maps.map((each, k) => <option key={each.policy} value={String(k)}>{each.policy}</option>)}</select>
        </label>
      )}
      <div class="plot" ref={box} onMouseMove={point} onMouseLeave={() => setAt(-1)}>
        <canvas ref={canvas} tabIndex={0} role="img" aria-label={`${label}, ${map.policy}. ${words}`} onKeyDown={step} onBlur={() => setAt(-1)} />
        {at >= 0 && <i class="here" style={{ left: `${(at % cells.perRow) * cells.cellW}px`, top: `${Math.floor(at / cells.perRow) * cells.cellH}px`, width: `${cells.cellW}px`, height: `${cells.cellH}px` }} />}
      </div>
      <p class="soft reading" aria-live="polite">{words}</p>
      <p class="series soft">{seen.map((each) => <span key={each.name}><i class="swatch" style={{ background: css(each.ink) }} /> {each.name}</span>)}</p>
    </div>
  );
}
