// Builds the page into the Python package. Names without digests: the server sends ETags, and a diff of the package stays readable.
import { defineConfig } from "vite";

export default defineConfig({
  base: "/",
  publicDir: "public",
  build: {
    outDir: "../src/cotenant/services/console/page",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    rollupOptions: {
      output: { entryFileNames: "assets/console.js", assetFileNames: "assets/console[extname]" },
    },
  },
});
