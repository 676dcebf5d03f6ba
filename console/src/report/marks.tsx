// What marks a point of a line, and its interval.
import type { Frame } from "../chart/chart";
import { named } from "./colours";
import type { LineData } from "./data";

const STAR = "M0 -1 .29 -.4 .95 -.31 .48 .15 .59 .81 0 .5 -.59 .81 -.48 .15 -.95 -.31 -.29 -.4Z";
const DIAMOND = "M0 -1 .8 0 0 1 -.8 0Z";
const CAP = 3;

export function Mark({ kind, x, y, size, colour }: { kind: string; x: number; y: number; size: number; colour: string }) {
  if (!kind) return null;
  if (kind === "circle") return <circle cx={x} cy={y} r={size / 2} style={{ fill: named(colour) }} />;
  return <path d={kind === "star" ? STAR : DIAMOND} transform={`translate(${x} ${y}) scale(${size / 1.6})`} style={{ fill: named(colour) }} />;
}

/** The marks and intervals of the points of lines. */
export function Points({ lines, frame }: { lines: LineData[]; frame: Frame }) {
  return (
    <>
      {lines.map((line) => line.x.map((value, k) => {
        const level = line.y[k];
        if (level === null || level === undefined) return null;
        const [x, half] = [frame.x(value), line.half[k] ?? 0];
        const [from, to] = [frame.y(level - half), frame.y(level + half)];
        return (
          <g key={`${line.name} ${k}`} style={{ opacity: line.opacity }}>
            {half > 0 && <path class="half" d={`M${x} ${Math.min(from, frame.height)}V${to}M${x - CAP} ${to}h${2 * CAP}${from <= frame.height ? `M${x - CAP} ${from}h${2 * CAP}` : ""}`} style={{ stroke: named(line.colour) }} />}
            <Mark kind={line.mark} x={x} y={frame.y(level)} size={line.size} colour={line.colour} />
          </g>
        );
      }))}
    </>
  );
}
