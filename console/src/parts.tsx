// Small parts of every view: texts with code in them, what stands where there is nothing, tables that a phone shows as cards, names that are never cut at both ends.
import type { ComponentChildren, RefObject } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

/** A text of words.json; what is between backticks is code. */
export function Rich({ text }: { text: string }) {
  return <>{text.split("`").map((part, k) => (k % 2 ? <code key={k}>{part}</code> : part))}</>;
}

/** What a view says where it has nothing to show; `why`: the source's own sentence. */
export function Empty({ text, why = "" }: { text: string; why?: string }) {
  return (
    <div class="empty">
      <p><Rich text={text} /></p>
      {why && <p class="soft">{why}</p>}
    </div>
  );
}

/** A table. On a narrow screen each row becomes a card, and each cell has its column's heading before it. */
export function Wide({ children }: { children: ComponentChildren }) {
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const table = box.current?.querySelector("table");
    const heads = [...(table?.tHead?.rows[0]?.cells ?? [])].map((cell) => cell.textContent ?? "");
    for (const row of table?.tBodies[0]?.rows ?? []) {
      let at = 0;
      for (const cell of row.cells) {
        if (cell.tagName === "TD" && cell.dataset["label"] !== heads[at]) cell.dataset["label"] = heads[at] ?? "";
        at += cell.colSpan;
      }
    }
  });
  return <div class="wide" ref={box}>{children}</div>;
}

/** The width of an element in CSS pixels, 0 before it is known. */
export function useWidth(box: RefObject<HTMLElement | null>): number {
  const [width, set] = useState(0);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const seen = new ResizeObserver(() => set(element.clientWidth));
    seen.observe(element);
    set(element.clientWidth);
    return () => seen.disconnect();
  }, []);
  return width;
}

/** Put a tip beside the pointer, within the window. */
export function beside(element: HTMLElement | null, x: number, y: number): void {
  if (!element) return;
  element.style.left = `${Math.max(8, Math.min(x + 14, innerWidth - element.offsetWidth - 8))}px`;
  element.style.top = `${Math.max(8, Math.min(y + 14, innerHeight - element.offsetHeight - 8))}px`;
}

const TAIL = 10;

/** A pod's name: where there is no room, the middle goes, since replicas differ at the end. */
export function PodName({ pod }: { pod: string }) {
  const name = pod.slice(pod.indexOf("/") + 1);
  const cut = Math.max(0, name.length - TAIL);
  return <b class="pod-name" title={pod}><span>{name.slice(0, cut)}</span>{name.slice(cut)}</b>;
}
