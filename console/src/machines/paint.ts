// The base layer of the map: pixels written into one ImageData, 200 times cheaper than rectangles and in need of no GPU. Vectors are drawn above it for the few machines with a name.
//
// A machine is a bar. Its width is the machine's allocatable amount; each tenant's segment is as wide as what it was allocated, pale, and filled from below by the share of it that is used. A line
// at the bottom is as wide as what the machine offers to batch. Diagonal hatching: services miss their objective. Opposite hatching: the machine is not ready or cordoned.
import { KINDS, type Palette, pack } from "../colours";
import { CELL, Column, CORDONED, type Fleet, NOT_READY, UNMEASURED } from "../fleet";
import { GAP, type Layout, type Resource } from "./layout";

export interface Scene {
  fleet: Fleet;
  layout: Layout;
  palette: Palette;
  resource: Resource;
  byKind: boolean;
  scrollTop: number; // CSS pixels
  scale: number; // device pixels a CSS pixel
}

/** Paint the visible machines into `pixels` (`width` x `height`, 0xAABBGGRR). */
export function paint(pixels: Uint32Array, width: number, height: number, scene: Scene): void {
  const { fleet, layout, palette, scale } = scene;
  const background = pack(palette.canvas);
  pixels.fill(background);
  const cellW = Math.max(1, Math.round(layout.cellWidth * scale));
  const cellH = Math.max(1, Math.round((layout.cellHeight - layout.nameLine) * scale));
  const free = pack(palette.free);
  const burn = pack(palette.burn);
  const off = pack(palette.off);
  const lentColour = pack(palette.lent);
  const { solid, light } = palette;
  const base = scene.resource === "cpu" ? 2 : 4;
  const stepY = layout.cellHeight + GAP;
  const strip = cellH >= 10 ? Math.max(1, Math.round(Math.min(3 * scale, cellH / 8))) : 0;
  for (const group of layout.groups) {
    const rows = Math.ceil(group.machines.length / layout.perRow);
    const first = Math.max(0, Math.floor((scene.scrollTop - group.top) / stepY));
    const last = Math.min(rows - 1, Math.floor((scene.scrollTop + height / scale - group.top) / stepY));
    for (let row = first; row <= last; row++) {
      const y0 = Math.round((group.top + row * stepY + layout.nameLine - scene.scrollTop) * scale);
      const yFrom = Math.max(0, y0);
      const yTo = Math.min(height, y0 + cellH);
      if (yTo <= yFrom) continue;
      for (let column = 0; column < layout.perRow; column++) {
        const machine = group.machines[row * layout.perRow + column];
        if (machine === undefined) break;
        const x0 = Math.round(column * (layout.cellWidth + GAP) * scale);
        const xEnd = Math.min(width, x0 + cellW);
        const cells = fleet.cells[machine]!;
        let x = x0;
        let edge = 0;
        let whole = 1000; // more where more is allocated than the machine has: nothing is cut off
        for (let c = base, sum = 0; c < cells.length; c += CELL) whole = Math.max(whole, (sum += cells[c]!));
        for (let c = 0; c < cells.length && x < xEnd; c += CELL) {
          const asked = cells[c + base]!;
          const used = cells[c + base + 1]!;
          edge += asked;
          const to = Math.min(xEnd, x0 + Math.round((edge * cellW) / whole));
          if (to <= x) continue;
          const which = scene.byKind ? KINDS[cells[c + 1]! & 3]! : cells[c]! % solid.length;
          const share = used === UNMEASURED || asked === 0 ? 0 : Math.min(1, used / asked);
          const split = Math.max(yFrom, Math.min(yTo, y0 + cellH - Math.round(share * cellH)));
          const above = light[which]!;
          const below = solid[which]!;
          for (let y = yFrom, o = yFrom * width; y < yTo; y++, o += width) {
            const colour = y < split ? above : below;
            for (let p = o + x, end = o + to; p < end; p++) pixels[p] = colour;
          }
          x = to;
        }
        if (x < xEnd) for (let y = yFrom, o = yFrom * width; y < yTo; y++, o += width) pixels.fill(free, o + x, o + xEnd);
        const state = fleet.get(machine, Column.State);
        if (strip && scene.resource === "cpu") {
          const share = fleet.get(machine, Column.Lent) / (fleet.get(machine, Column.Cpu) || 1);
          const to = Math.min(xEnd, x0 + Math.round((1000 * share * cellW) / whole));
          for (let y = Math.max(yFrom, y0 + cellH - strip); y < Math.min(yTo, y0 + cellH); y++)
            pixels.fill(lentColour, y * width + x0, y * width + to);
        }
        if (state & 0xffff) hatch(pixels, width, x0, xEnd, yFrom, yTo, burn, 1, scale);
        if (state & (NOT_READY | CORDONED)) hatch(pixels, width, x0, xEnd, yFrom, yTo, off, -1, scale);
      }
    }
  }
}

export function hatch(
  pixels: Uint32Array,
  width: number,
  x0: number,
  x1: number,
  y0: number,
  y1: number,
  colour: number,
  slope: 1 | -1,
  scale: number,
): void {
  const period = Math.round(6 * scale);
  const thick = Math.max(1, Math.round(1.4 * scale));
  for (let y = y0; y < y1; y++) {
    const o = y * width;
    for (let x = x0; x < x1; x++) if ((((x + slope * y) % period) + period) % period < thick) pixels[o + x] = colour;
  }
}
