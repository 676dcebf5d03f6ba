// A part of a chart as large as the whole: a box drawn with the mouse chooses it, a double click or Escape goes back.
import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import { type Axis, bent } from "../chart/axis";
import type { Frame } from "../chart/chart";

type Point = readonly [x: number, y: number];

const DRAG = 8; // pixels: less is a click, or leaves that axis as it is

function straight(axis: Axis, value: number): number {
  if (axis.scale === "log") return 10 ** value;
  return axis.scale === "tail" ? 100 * (1 - 10 ** -value) : value;
}

/** The value at a place of the axis. */
export function valueAt(axis: Axis, share: number): number {
  const low = bent(axis, axis.low);
  return straight(axis, low + share * (bent(axis, axis.high) - low));
}

function part(axis: Axis, from: number, to: number): Axis {
  return { ...axis, low: valueAt(axis, Math.min(from, to)), high: valueAt(axis, Math.max(from, to)) };
}

/** The layer that the box is drawn on. */
export function Sheet({ frame, x, y, onChoose }: { frame: Frame; x: Axis; y: Axis; onChoose: (x: Axis, y: Axis) => void }) {
  const sheet = useRef<SVGRectElement>(null);
  const [box, setBox] = useState<readonly [from: Point, to: Point] | null>(null);
  const inside = (event: PointerEvent): Point => {
    const edge = sheet.current!.getBoundingClientRect();
    return [Math.max(0, Math.min(frame.width, event.clientX - edge.left)), Math.max(0, Math.min(frame.height, event.clientY - edge.top))];
  };
  const begin = (event: PointerEvent): void => {
    if (event.pointerType !== "mouse" || event.button !== 0) return;
    sheet.current!.setPointerCapture(event.pointerId);
    setBox([inside(event), inside(event)]);
  };
  const end = (): void => {
    if (box) {
      const [[x0, y0], [x1, y1]] = box;
      const [isWide, isTall] = [Math.abs(x1 - x0) >= DRAG, Math.abs(y1 - y0) >= DRAG];
      if (isWide || isTall) onChoose(isWide ? part(x, x0 / frame.width, x1 / frame.width) : x, isTall ? part(y, 1 - y0 / frame.height, 1 - y1 / frame.height) : y);
    }
    setBox(null);
  };
  return (
    <>
      <rect ref={sheet} class="sheet" width={frame.width} height={frame.height} onPointerDown={begin} onPointerMove={(event) => box && setBox([box[0], inside(event)])} onPointerUp={end} onPointerCancel={() => setBox(null)} />
      {box && <rect class="drag" x={Math.min(box[0][0], box[1][0])} y={Math.min(box[0][1], box[1][1])} width={Math.abs(box[0][0] - box[1][0])} height={Math.abs(box[0][1] - box[1][1])} />}
    </>
  );
}

/** Where a chart is inside of; while a part is shown, the whole is one key, a double click or a button away. */
export function Zoomed({ isPart, onWhole, children }: { isPart: boolean; onWhole: () => void; children: ComponentChildren }) {
  return (
    <div class="zoomed" onDblClick={onWhole} onKeyDown={(event) => event.key === "Escape" && onWhole()}>
      {isPart && <button type="button" class="plain link whole" onClick={onWhole}>Show all again</button>}
      {children}
    </div>
  );
}
