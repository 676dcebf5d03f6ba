// The names of a chart's lines. A click hides or shows one in every figure of the page, a double click (or one with Shift) shows it alone.
import { signal } from "@preact/signals";
import type { LineData } from "./data";
import { named } from "./colours";
import { Mark } from "./marks";

export const hidden = signal<ReadonlySet<string>>(new Set());

const DASHES: Record<string, string> = { dash: "7 4", dot: "2 3" };

export function dashed(line: LineData): string | undefined {
  return DASHES[line.dash];
}

function toggle(name: string): void {
  const now = new Set(hidden.value);
  if (!now.delete(name)) now.add(name);
  hidden.value = now;
}

function alone(name: string, names: string[]): void {
  const others = names.filter((each) => each !== name);
  hidden.value = others.every((each) => hidden.value.has(each)) ? new Set() : new Set(others);
}

export function Legend({ lines }: { lines: LineData[] }) {
  const names = lines.map((each) => each.name);
  if (lines.length < 2) return null;
  return (
    <ul class={`names${lines.length > 5 ? " many" : ""}`} aria-label="Lines">
      {lines.map((line) => (
        <li key={line.name}>
          <button type="button" class="plain" aria-pressed={!hidden.value.has(line.name)} onClick={(event) => (event.shiftKey ? alone(line.name, names) : toggle(line.name))} onDblClick={() => alone(line.name, names)}>
            <svg width="26" height="12" aria-hidden="true">
              {!line.is_points && <line x1="0" x2="26" y1="6" y2="6" style={{ stroke: named(line.colour), strokeWidth: Math.min(line.width, 5), strokeDasharray: dashed(line), opacity: line.opacity }} />}
              <Mark kind={line.mark} x={13} y={6} size={Math.min(line.size, 9)} colour={line.colour} />
            </svg>
            {line.name}
          </button>
        </li>
      ))}
    </ul>
  );
}
