// Writes the one script and the one style sheet that the package ships; the same sources give the same bytes.
import { build } from "esbuild";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const out = process.argv[2] ?? fileURLToPath(new URL("../src/fossil/report/assets", import.meta.url));
const made = await build({
  absWorkingDir: here,
  entryPoints: { page: "src/main.ts" },
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  charset: "ascii", // the script stands inside a page, and no sign of it may end its element
  legalComments: "none", // said once, below, for all packages
  metafile: true,
  write: false,
  outdir: out,
  logLevel: "warning",
});
for (const file of made.outputFiles) {
  const text = basename(file.path) === "page.js" ? `${notice(made.metafile)}${file.text}` : file.text;
  writeFileSync(file.path, text);
}

// Whose code is in the script, and the licence under which it may be: all of it has to go along with every copy.
function notice(metafile) {
  const found = Object.keys(metafile.inputs).map((path) => /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1]);
  const holders = [];
  const terms = new Map();
  for (const name of [...new Set(found.filter(Boolean))].sort()) {
    const folder = join(here, "node_modules", name);
    const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
    const text = file ? readFileSync(join(folder, file), "utf8") : "";
    const copyright = text.split(/\r?\n/).map((line) => line.trim()).find((line) => /^copyright /i.test(line)) ?? "";
    holders.push(`${name} ${version} (${license}) ${copyright}`.trim());
    const kept = text.split(/\r?\n/).filter((line) => !/^\s*(copyright|the mit|mit lic|isc lic|\(the mit|\(mit|#)/i.test(line));
    const words = kept.join(" ").replace(/\s+/g, " ").trim();
    if (words && ![...terms.values()].some((each) => each.slice(0, 60) === words.slice(0, 60))) terms.set(license, words);
  }
  const licences = [...terms].map(([license, words]) => `${license}: ${words}`);
  const lines = ["This script contains:", ...holders, ...licences].join("\n");
  const plain = lines.normalize("NFD").replace(/[\u0300-\u036f]/g, ""); // accents would not be ASCII
  return `/*! ${plain.replace(/[^\x20-\x7e\n]/g, "?").replaceAll("*/", "* /").replaceAll("</", "< /")} */\n`;
}
