// A chart of lines and points: axes, marks, and the value under the pointer or at the place that the arrow keys reached. The console's views and the static pages draw with it.
//
// What only some charts have (intervals, shaded parts, limits) is drawn by `below` and `above`, which get the places of values.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { useWidth } from "../parts";
import { type Axis, place, short, ticks } from "./axis";

export interface Line {
  name: string;
  x: readonly number[];
  y: readonly (number | null)[];
  colour: string; // CSS
  dash?: string;
  width?: number;
  opacity?: number;
  isFilled?: boolean;
  isPoints?: boolean; // no line between them
  notes?: readonly string[]; // of each point
}

/** What a layer draws with: pixels of values, within a frame. */
export interface Frame {
  width: number;
  height: number;
  x: (value: number) => number;
  y: (value: number) => number;
}

interface Spot {
  line: number;
  k: number;
}

type Point = readonly [x: number, y: number];

const [TOP, BOTTOM, RIGHT] = [8, 24, 14];
const FAR = 12; // pixels: a value farther away is not that of the same place
const ROUND = 8; // pixels around the frame for marks that lie on its edge

export function Chart({ label, lines, x, y, height, isUnited = false, below, above }: { label: string; lines: readonly Line[]; x: Axis; y: Axis; height: number; isUnited?: boolean; below?: (frame: Frame) => ComponentChildren; above?: (frame: Frame) => ComponentChildren }) {
  const box = useRef<HTMLDivElement>(null);
  const tip = useRef<HTMLDivElement>(null);
  const full = useWidth(box);
  const [spot, setSpot] = useState<Spot | null>(null);
  const tall = height - TOP - BOTTOM;
  const yTicks = ticks(y, tall, 24);
  const left = 12 + 7 * Math.max(1, ...yTicks.map(([, text]) => text.length + (y.unit ?? "").length));
  const wide = Math.max(40, full - left - RIGHT);
  const xTicks = ticks(x, wide, 56);
  const frame: Frame = { width: wide, height: tall, x: (value) => place(x, value) * wide, y: (value) => tall - place(y, value) * tall };
  const at = (where: Spot | null): Point | null => {
    const line = where && lines[where.line];
    const value = line ? line.y[where.k] : null;
    return line && value !== null && value !== undefined ? [frame.x(line.x[where.k]!), frame.y(value)] : null;
  };

  const nearest = ([px, py]: Point): Spot | null => {
    let [best, found]: [number, Spot | null] = [Infinity, null];
    lines.forEach((line, i) => line.x.forEach((value, k) => {
      const y = line.y[k];
      if (y === null || y === undefined) return;
      const far = Math.hypot(frame.x(value) - px, (frame.y(y) - py) * (isUnited ? 0.02 : 1));
      if (far < best) [best, found] = [far, { line: i, k }];
    }));
    return found;
  };

  const move = (event: PointerEvent): void => {
    const edge = box.current!.getBoundingClientRect();
    setSpot(nearest([event.clientX - edge.left - left, event.clientY - edge.top - TOP]));
  };
  const step = (event: KeyboardEvent): void => {
    const [along, across] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1], Home: [-Infinity, 0], End: [Infinity, 0] }[event.key] ?? [0, 0];
    if (!along && !across) return;
    if (!spot) setSpot({ line: lines.length - 1, k: 0 });
    else {
      const line = (spot.line + across + lines.length) % lines.length;
      const points = lines[line]!.x;
      const here = lines[spot.line]!.x[spot.k]!;
      const k = across ? points.reduce((best, value, i) => (Math.abs(value - here) < Math.abs(points[best]! - here) ? i : best), 0) : spot.k + along;
      setSpot({ line, k: Math.max(0, Math.min(points.length - 1, k)) });
    }
    event.preventDefault();
    event.stopPropagation();
  };

  const shown = at(spot);
  const value = (axis: Axis, of: number): string => `${short(of)}${axis.unit ?? ""}`;
  const words = (line: Line, k: number): string => [line.notes?.[k], line.y[k] === null || line.y[k] === undefined ? "–" : value(y, line.y[k]!)].filter(Boolean).join(", ");
  const here = spot && lines[spot.line] ? lines[spot.line]!.x[spot.k]! : 0;
  const beside = (line: Line): string => {
    const k = line.x.reduce((best, each, i) => (Math.abs(each - here) < Math.abs(line.x[best]! - here) ? i : best), 0);
    return Math.abs(frame.x(line.x[k]!) - frame.x(here)) > FAR ? "–" : words(line, k); // a line may end before the others
  };
  const said = spot && lines[spot.line] ? [
    `${x.title}: ${value(x, here)}`,
    ...(isUnited ? lines.map((line) => `${line.name}: ${beside(line)}`) : [`${lines[spot.line]!.name}: ${words(lines[spot.line]!, spot.k)}`]),
  ] : [];

  useLayoutEffect(() => {
    const element = tip.current;
    if (!element || !shown) return;
    const top = TOP + shown[1] - element.offsetHeight - 10;
    element.style.left = `${Math.max(0, Math.min(left + shown[0] + 12, full - element.offsetWidth))}px`;
    element.style.top = `${top < 0 ? TOP + shown[1] + 14 : top}px`;
  });

  const path = (line: Line): string => {
    let pen = "M";
    return line.x.map((value, k) => {
      const at = line.y[k];
      if (at === null || at === undefined) {
        pen = "M";
        return "";
      }
      const piece = `${pen}${frame.x(value).toFixed(1)} ${frame.y(at).toFixed(1)}`;
      pen = "L";
      return piece;
    }).join("");
  };
  const filled = (line: Line): string => `${path(line)}L${frame.x(line.x[line.x.length - 1] ?? 0)} ${tall}L${frame.x(line.x[0] ?? 0)} ${tall}Z`;

  return (
    <div class="chart">
      <p class="soft y-title">{y.title}</p>
      <div class="plot" ref={box}>
      {full > 0 && (
        <svg width={full} height={height} role="img" tabIndex={0} aria-label={[label, ...said].join(". ")} onKeyDown={step} onBlur={() => setSpot(null)} onPointerMove={move} onPointerLeave={() => setSpot(null)}>
          <g transform={`translate(${left} ${TOP})`}>
            {yTicks.map(([at, text]) => <g key={at} transform={`translate(0 ${frame.y(at).toFixed(1)})`}><line class="grid" x2={wide} /><text class="y" x="-6" y="4">{text}{y.unit}</text></g>)}
            {xTicks.map(([at, text]) => <g key={at} transform={`translate(${frame.x(at).toFixed(1)} ${tall})`}><line class="grid" y2="4" /><text y="17">{text}{x.unit}</text></g>)}
            <line class="base" y1={tall} y2={tall} x2={wide} />
            <svg width={wide} height={tall}>
              {below?.(frame)}
              {lines.map((line) => line.isFilled && <path key={line.name} class="fill" d={filled(line)} style={{ fill: line.colour }} />)}
              {lines.map((line, i) => !line.isPoints && <path key={line.name} class={`line${spot && !isUnited && i !== spot.line ? " pale" : ""}`} d={path(line)} style={{ stroke: line.colour, strokeDasharray: line.dash, strokeWidth: line.width, opacity: line.opacity }} />)}
            </svg>
            {above && <svg x={-ROUND} y={-ROUND} width={wide + 2 * ROUND} height={tall + 2 * ROUND}><g transform={`translate(${ROUND} ${ROUND})`}>{above(frame)}</g></svg>}
            {shown && isUnited && <line class="at" x1={shown[0]} x2={shown[0]} y2={tall} />}
            {shown && shown[1] >= 0 && shown[1] <= tall && <circle class="at" cx={shown[0]} cy={shown[1]} r="5" style={{ stroke: lines[spot!.line]!.colour }} />}
          </g>
        </svg>
      )}
      <div class="tip" ref={tip} hidden={!said.length || !shown} aria-hidden="true">{said.map((each) => <div key={each}>{each}</div>)}</div>
      </div>
      <p class="soft x-title">{x.title}</p>
    </div>
  );
}
