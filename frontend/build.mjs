// Writes the one script and the one style sheet that the package ships; the same sources give the same bytes.
import { build } from "esbuild";
import { fileURLToPath } from "node:url";

const out = process.argv[2] ?? fileURLToPath(new URL("../src/fossil/report/assets", import.meta.url));
await build({
  absWorkingDir: fileURLToPath(new URL(".", import.meta.url)),
  entryPoints: { page: "src/main.ts" },
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  charset: "ascii", // the script stands inside a page, and no sign of it may end its element
  legalComments: "none",
  outdir: out,
  logLevel: "warning",
});
