// Where every machine is: filtered, sorted, grouped, in rows of equal cells. Pure: the same input gives the same layout.
import { CELL, Column, Fleet, UNKNOWN } from "../fleet";

export type Resource = "cpu" | "memory";
export type Sort = "name" | "requested" | "used" | "burning" | "lent" | "zone" | "pool" | "numa" | "tenant";

export interface Asked {
  text: string;
  group: string; // "", "tenant", or a label's key
  sort: Sort;
  resource: Resource;
  size: number; // width of a cell in CSS pixels; 0 = as large as all fit
}

export interface Group {
  name: string;
  y: number; // of its heading, CSS pixels
  machines: number[];
  top: number; // of its first row
}

export interface Layout {
  groups: Group[];
  order: number[]; // machines as they are read: for the arrow keys
  place: Map<number, number>; // machine -> position in `order`
  cellWidth: number;
  cellHeight: number; // with the line of the name
  nameLine: number; // 0 = there is no room for names
  perRow: number;
  height: number;
}

export const HEADING = 26;
export const GAP = 1;
const NAMED_WIDTH = 74;
const NAME_LINE = 16;
const LEAST = 6;
const LARGEST = 160;

/** Not a label of the node: what its NodeResourceTopology says (encoding.py). */
export const NUMA = "NUMA nodes";
const ZONE = "topology.kubernetes.io/zone";
const POOLS = [
  "node.kubernetes.io/pool",
  "cloud.google.com/gke-nodepool",
  "eks.amazonaws.com/nodegroup",
  "karpenter.sh/nodepool",
  "kubernetes.azure.com/agentpool",
  "node.kubernetes.io/instance-type",
];

/** The label behind "zone" or "pool"; any other name is a label's own. */
export function labelOf(fleet: Fleet, group: string): string {
  if (group === "zone") return ZONE;
  if (group === "numa") return NUMA;
  if (group === "pool") return POOLS.find((each) => each in fleet.labels) ?? POOLS[0]!;
  return group;
}

export function used(fleet: Fleet, i: number, resource: Resource): number {
  return fleet.get(i, resource === "cpu" ? Column.CpuUsed : Column.MemoryUsed);
}

export function capacity(fleet: Fleet, i: number, resource: Resource): number {
  return fleet.get(i, resource === "cpu" ? Column.Cpu : Column.Memory);
}

export function requested(fleet: Fleet, i: number, resource: Resource): number {
  if (resource === "memory") return fleet.get(i, Column.MemoryRequested);
  return fleet.get(i, Column.CpuRequested) + fleet.get(i, Column.LentRequested);
}

/** Whether machines are put in order by what also groups them. */
export function isGroup(sort: Sort): boolean {
  return sort === "zone" || sort === "pool" || sort === "numa" || sort === "tenant";
}

function matches(fleet: Fleet, i: number, words: string[]): boolean {
  return words.every((word) => {
    if (fleet.nodes[i]!.toLowerCase().includes(word)) return true;
    const cells = fleet.cells[i]!;
    for (let c = 0; c < cells.length; c += CELL)
      if (fleet.tenants[cells[c]!]?.toLowerCase().includes(word)) return true;
    for (const [key, label] of Object.entries(fleet.labels)) {
      const value = label.values[label.of[i]!];
      if (value !== undefined && `${key}=${value}`.toLowerCase().includes(word)) return true;
    }
    return false;
  });
}

function largestTenant(fleet: Fleet, i: number, at: number): string {
  const cells = fleet.cells[i]!;
  const sums = new Map<number, number>();
  for (let c = 0; c < cells.length; c += CELL) sums.set(cells[c]!, (sums.get(cells[c]!) ?? 0) + cells[c + at]!);
  let best = -1;
  let most = -1;
  for (const [tenant, sum] of sums)
    if (sum > most) {
      best = tenant;
      most = sum;
    }
  return best < 0 ? "–" : fleet.tenants[best]!;
}

function groupName(fleet: Fleet, i: number, group: string, resource: Resource): string {
  if (group === "tenant") return largestTenant(fleet, i, resource === "cpu" ? 2 : 4);
  const label = fleet.labels[labelOf(fleet, group)];
  return label?.values[label.of[i]!] ?? "–";
}

const NATURAL = new Intl.Collator("en", { numeric: true });

/** Machines that match, by group, sorted within each. It does not depend on the size of cells. */
export function arranged(fleet: Fleet, asked: Asked): [string, number[]][] {
  const words = asked.text.toLowerCase().split(/\s+/).filter(Boolean);
  let found = fleet.nodes.map((_, i) => i);
  if (words.length) found = found.filter((i) => matches(fleet, i, words));
  const share = (i: number): number => {
    const whole = capacity(fleet, i, asked.resource) || 1;
    if (asked.sort === "requested") return requested(fleet, i, asked.resource) / whole;
    if (asked.sort === "burning") return fleet.burning(i);
    if (asked.sort === "lent") return fleet.get(i, Column.LentRequested) / (fleet.get(i, Column.Cpu) || 1);
    const amount = used(fleet, i, asked.resource);
    return amount === UNKNOWN ? -1 : amount / whole;
  };
  if (isGroup(asked.sort)) {
    const names = new Map(found.map((i) => [i, groupName(fleet, i, asked.sort, asked.resource)]));
    found.sort((a, b) => NATURAL.compare(names.get(a)!, names.get(b)!) || NATURAL.compare(fleet.nodes[a]!, fleet.nodes[b]!));
  } else if (asked.sort !== "name") {
    const shares = new Map(found.map((i) => [i, share(i)]));
    found.sort((a, b) => shares.get(b)! - shares.get(a)! || NATURAL.compare(fleet.nodes[a]!, fleet.nodes[b]!));
  } else found.sort((a, b) => NATURAL.compare(fleet.nodes[a]!, fleet.nodes[b]!));
  if (!asked.group) return [["", found]];
  const groups = new Map<string, number[]>();
  for (const i of found) {
    const name = groupName(fleet, i, asked.group, asked.resource);
    const known = groups.get(name);
    if (known) known.push(i);
    else groups.set(name, [i]);
  }
  return [...groups].sort(([a], [b]) => NATURAL.compare(a, b));
}

/** The size at which everything is visible, within bounds. */
function fitting(groups: [string, number[]][], width: number, height: number, hasHeadings: boolean): number {
  for (let size = LARGEST; size > LEAST; size--) {
    const perRow = Math.max(1, Math.floor(width / (size + GAP)));
    const rows = groups.reduce((sum, [, machines]) => sum + Math.ceil(machines.length / perRow), 0);
    if (rows * (rowHeight(size) + GAP) + (hasHeadings ? groups.length * HEADING : 0) <= height) return size;
  }
  return LEAST;
}

/** Cells are wider than high once they have room for a name, which has a line of its own above the bar. */
function rowHeight(size: number): number {
  if (size >= NAMED_WIDTH) return Math.round(size * 0.42) + NAME_LINE;
  return size > 60 ? Math.round(size * 0.5) : size > 24 ? Math.round(size * 0.8) : size;
}

export function layout(groups: [string, number[]][], asked: Asked, width: number, height: number): Layout {
  const hasHeadings = asked.group !== "";
  const size = asked.size || fitting(groups, width, height, hasHeadings);
  const perRow = Math.max(1, Math.floor((width + GAP) / (size + GAP)));
  const shown = Math.max(0, ...groups.map(([, machines]) => machines.length));
  const cellWidth = Math.min(2 * size, Math.max(size, Math.floor((width + GAP) / Math.min(perRow, Math.max(1, shown))) - GAP));
  const cellHeight = rowHeight(size);
  const order: number[] = [];
  const place = new Map<number, number>();
  const placed: Group[] = [];
  let y = 0;
  for (const [name, machines] of groups) {
    const top = y + (hasHeadings ? HEADING : 0);
    placed.push({ name, y, machines, top });
    for (const machine of machines) {
      place.set(machine, order.length);
      order.push(machine);
    }
    y = top + Math.ceil(machines.length / perRow) * (cellHeight + GAP);
  }
  return { groups: placed, order, place, cellWidth, cellHeight, nameLine: size >= NAMED_WIDTH ? NAME_LINE : 0, perRow, height: y };
}

/** The machine at a point, -1 where there is none. */
export function hit(found: Layout, x: number, y: number): number {
  for (const group of found.groups) {
    const row = Math.floor((y - group.top) / (found.cellHeight + GAP));
    const column = Math.floor(x / (found.cellWidth + GAP));
    if (row < 0 || column < 0 || column >= found.perRow) continue;
    const machine = group.machines[row * found.perRow + column];
    if (machine !== undefined && y < group.top + Math.ceil(group.machines.length / found.perRow) * (found.cellHeight + GAP))
      return machine;
  }
  return -1;
}

/** A machine's rectangle in CSS pixels; null where it is not shown. */
export function rectangle(found: Layout, machine: number): { x: number; y: number } | null {
  for (const group of found.groups) {
    const at = group.machines.indexOf(machine);
    if (at >= 0)
      return {
        x: (at % found.perRow) * (found.cellWidth + GAP),
        y: group.top + Math.floor(at / found.perRow) * (found.cellHeight + GAP),
      };
  }
  return null;
}
