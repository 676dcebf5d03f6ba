// The colours that a page's data names: ours is the accent, a bound is grey, ablations are paler than ours, rivals take the palette of the map without its blues. Set as properties of the document, in both themes.
import { effect } from "@preact/signals";
import { colours, css } from "../colours";

const RIVALS = [1, 2, 3, 5, 7, 6, 18, 19, 23]; // darker ones of the palette last, without those that look like another
const ABLATIONS = [75, 55, 40, 28];

export function setColours(): void {
  effect(() => {
    const root = document.documentElement.style;
    const palette = colours.value;
    root.setProperty("--c-ours", "var(--accent)");
    root.setProperty("--c-bound", "var(--soft)");
    root.setProperty("--c-service", css(palette.full(0)));
    root.setProperty("--c-batch", css(palette.full(1)));
    RIVALS.forEach((each, k) => root.setProperty(`--c-rival-${k}`, css(palette.full(each))));
    ABLATIONS.forEach((share, k) => root.setProperty(`--c-ablation-${k}`, `color-mix(in srgb, var(--accent) ${share}%, var(--free))`));
  });
}

export function named(colour: string): string {
  return `var(--c-${colour})`;
}
