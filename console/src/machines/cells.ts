// Machines as cells in rows, of one moment: each cell is divided by what is allocated, and each part is filled from below as far as it is used. For maps whose machines have no names.
import { type Palette, pack } from "../colours";
import { hatch } from "./paint";

export interface Part {
  share: number; // of the machine, percent
  used: number; // of the part, 0 to 1
  solid: number; // 0xAABBGGRR
  pale: number;
}

export interface Cell {
  parts: readonly Part[];
  isMissed?: boolean;
  isDown?: boolean;
}

export interface Cells {
  number: number;
  perRow: number;
  cellW: number;
  cellH: number;
}

const AREA = 260; // CSS pixels of height that a map fills where it has many machines
const [WIDEST, GAP] = [44, 1];

export function layOut(number: number, width: number, widest = WIDEST): Cells {
  const cellW = Math.max(3, Math.min(widest, Math.floor(Math.sqrt((1.7 * width * AREA) / Math.max(1, number)))));
  return { number, cellW, cellH: Math.max(2, Math.floor(cellW / 1.7)), perRow: Math.max(1, Math.floor(width / cellW)) };
}

export function drawCells(canvas: HTMLCanvasElement, width: number, { number, perRow, cellW, cellH }: Cells, palette: Palette, cell: (k: number) => Cell): void {
  const scale = devicePixelRatio || 1;
  const height = Math.ceil(number / perRow) * cellH;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  canvas.width = Math.max(1, Math.round(width * scale));
  canvas.height = Math.max(1, Math.round(height * scale));
  const context = canvas.getContext("2d");
  if (!context) return;
  const image = context.createImageData(canvas.width, canvas.height);
  const pixels = new Uint32Array(image.data.buffer);
  const [free, burn, off] = [pack(palette.free), pack(palette.burn), pack(palette.off)];
  for (let k = 0; k < number; k++) {
    const { parts, isMissed, isDown } = cell(k);
    const x0 = Math.round((k % perRow) * cellW * scale);
    const y0 = Math.round(Math.floor(k / perRow) * cellH * scale);
    const w = Math.max(1, Math.round((cellW - GAP) * scale));
    const y1 = Math.min(canvas.height, y0 + Math.max(1, Math.round((cellH - GAP) * scale)));
    const whole = Math.max(100, parts.reduce((sum, each) => sum + each.share, 0)); // nothing is cut off where more than the machine has is allocated
    let x = x0;
    let edge = 0;
    for (const { share, used, solid, pale } of parts) {
      edge += share;
      const to = Math.min(canvas.width, x0 + Math.round((edge * w) / whole));
      const split = y1 - Math.round(used * (y1 - y0));
      for (let y = y0; y < y1; y++) pixels.fill(y < split ? pale : solid, y * canvas.width + x, y * canvas.width + Math.max(x, to));
      x = Math.max(x, to);
    }
    const end = Math.min(canvas.width, x0 + w);
    for (let y = y0; y < y1; y++) if (end > x) pixels.fill(free, y * canvas.width + x, y * canvas.width + end);
    if (isMissed) hatch(pixels, canvas.width, x0, end, y0, y1, burn, 1, scale);
    if (isDown) hatch(pixels, canvas.width, x0, end, y0, y1, off, -1, scale);
  }
  context.putImageData(image, 0, 0);
}
