// Builds the page into the Python package. Names without digests: the server sends ETags, and a diff of the package stays readable.
import { defineConfig, type Plugin } from "vite";
import { words } from "./build.words.ts";

/** What the console and the static pages (vite.report.config.ts) have in common. */
export const target = {
  target: "es2022",
  cssTarget: ["chrome123", "firefox120", "safari17.5"], // the first with light-dark()
};
/** Calls of `h` pack better than those of the automatic runtime. */
export const jsx = { jsx: { runtime: "classic" as const, pragma: "h", pragmaFrag: "Fragment" } };

/** Imports them where there is markup, and not into the worker. */
export function calls(): Plugin {
  return { name: "calls", enforce: "pre", transform: (code, id) => (id.endsWith(".tsx") ? `import { h, Fragment } from "preact";${code}` : null) };
}

/** Views that are loaded when they are opened, by their folders. */
const LATER = ["autonomy", "monitors"];

export default defineConfig({
  base: "/",
  publicDir: "public",
  plugins: [calls(), words()],
  oxc: jsx,
  worker: { format: "es", rollupOptions: { output: { entryFileNames: "assets/console.[name].js" } } },
  build: {
    outDir: "../packages/cotenant/src/cotenant/services/console/page",
    emptyOutDir: true,
    ...target,
    modulePreload: false,
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    rollupOptions: {
      output: { entryFileNames: "assets/console.js", chunkFileNames: (chunk) => `assets/${LATER.find((view) => chunk.moduleIds.some((id) => id.includes(`/src/${view}/`))) ?? "terminal"}.js`, assetFileNames: "assets/console[extname]" },
    },
  },
});
