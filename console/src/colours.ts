// Colours of tenants and classes: Okabe and Ito's eight, which people with colour-blindness tell apart, then the same in two other lightnesses. Burning is a hatching, not a colour.
import { computed, signal } from "@preact/signals";
import { kept } from "./kept";

export type Theme = "auto" | "light" | "dark";

const before = kept("theme");
export const theme = signal<Theme>(before === "light" || before === "dark" ? before : "auto");
const media = matchMedia("(prefers-color-scheme: dark)");
const prefersDark = signal(media.matches);
media.addEventListener("change", () => {
  prefersDark.value = media.matches;
});
export const isDark = computed(() => (theme.value === "auto" ? prefersDark.value : theme.value === "dark"));

export function setTheme(to: Theme): void {
  theme.value = to;
  if (to === "auto") localStorage.removeItem("theme");
  else localStorage.setItem("theme", to);
}

export type Rgb = readonly [number, number, number];
const BASE: readonly Rgb[] = [
  [0, 114, 178],
  [230, 159, 0],
  [0, 158, 115],
  [204, 121, 167],
  [86, 180, 233],
  [213, 94, 0],
  [148, 130, 30],
  [122, 104, 166],
];
const WHITE: Rgb = [255, 255, 255];
const BLACK: Rgb = [10, 14, 17];

export function mix(a: Rgb, b: Rgb, share: number): Rgb {
  return [0, 1, 2].map((k) => Math.round(a[k]! + (b[k]! - a[k]!) * share)) as unknown as Rgb;
}

/** As ImageData holds them: 0xAABBGGRR. */
export function pack([r, g, b]: Rgb): number {
  return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
}

export function css([r, g, b]: Rgb): string {
  return `rgb(${r} ${g} ${b})`;
}

export interface Palette {
  free: Rgb;
  canvas: Rgb;
  burn: Rgb;
  off: Rgb;
  lent: Rgb;
  full(i: number): Rgb;
  pale(i: number): Rgb;
  solid: Uint32Array;
  light: Uint32Array;
}

const SIZE = 24;

function palette(dark: boolean): Palette {
  const canvas: Rgb = dark ? [18, 23, 27] : [246, 247, 248];
  const free: Rgb = dark ? [38, 46, 52] : [228, 232, 235];
  const full = (i: number): Rgb => {
    const base = BASE[i % BASE.length]!;
    const step = Math.floor(i / BASE.length) % 3;
    const shade = step === 1 ? mix(base, WHITE, 0.35) : step === 2 ? mix(base, BLACK, 0.35) : base;
    return dark ? mix(shade, WHITE, 0.08) : shade;
  };
  const pale = (i: number): Rgb => mix(full(i), free, 0.58);
  return {
    canvas,
    free,
    burn: dark ? [255, 255, 255] : [20, 20, 20],
    off: dark ? [98, 108, 115] : [150, 158, 164],
    lent: dark ? [214, 220, 224] : [60, 68, 74],
    full,
    pale,
    solid: Uint32Array.from({ length: SIZE }, (_, i) => pack(full(i))),
    light: Uint32Array.from({ length: SIZE }, (_, i) => pack(pale(i))),
  };
}

const LIGHT = palette(false);
const DARK = palette(true);
export const colours = computed(() => (isDark.value ? DARK : LIGHT));
/** The classes' colours: service blue, mid purple, batch orange, other grey-green. */
export const KINDS = [0, 7, 1, 6] as const;
