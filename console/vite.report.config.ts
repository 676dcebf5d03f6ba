// Builds the script and the style of static pages (the lab's reports, the demonstration, the node experiments), which are written into each of them.
import { readFileSync } from "node:fs";
import { defineConfig } from "vite";
import { words } from "./build.words.ts";
import { calls, jsx, target } from "./vite.config.ts";

const LICENCES = readFileSync(new URL("public/assets/licenses.txt", import.meta.url), "utf8").replace(/^.*dagrejs.*\n/gm, "").replace("of the console's page", "of this page");

export default defineConfig({
  publicDir: false,
  plugins: [calls(), words("src/report/main.tsx")],
  oxc: jsx,
  build: {
    outDir: "../packages/cotenant/src/cotenant/model/pages/built",
    emptyOutDir: true,
    ...target,
    lib: { entry: "src/report/main.tsx", formats: ["iife"], name: "report", fileName: () => "report.js", cssFileName: "report" },
    rollupOptions: { output: { postBanner: `/*!\n${LICENCES}*/` } },
  },
});
