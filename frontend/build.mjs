// Writes the one script and the one style sheet that the package ships; the same sources give the same bytes.
import { build } from "esbuild";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const COPYRIGHT = /^(?!copyright (notice|holder))(.*[^a-z])?copyright .*(\d{4}|inc\.)/i;
// Of simplify-js, which regl-scatterplot has taken over without its text.
const BSD =
  "Redistribution and use in source and binary forms, with or without modification, are permitted provided that the " +
  "following conditions are met: 1. Redistributions of source code must retain the above copyright notice, this list of " +
  "conditions and the following disclaimer. 2. Redistributions in binary form must reproduce the above copyright notice, " +
  "this list of conditions and the following disclaimer in the documentation and/or other materials provided with the " +
  'distribution. THIS SOFTWARE IS PROVIDED BY THE COPYRIGHT HOLDERS AND CONTRIBUTORS "AS IS" AND ANY EXPRESS OR IMPLIED ' +
  "WARRANTIES, INCLUDING, BUT NOT LIMITED TO, THE IMPLIED WARRANTIES OF MERCHANTABILITY AND FITNESS FOR A PARTICULAR " +
  "PURPOSE ARE DISCLAIMED. IN NO EVENT SHALL THE COPYRIGHT HOLDER OR CONTRIBUTORS BE LIABLE FOR ANY DIRECT, INDIRECT, " +
  "INCIDENTAL, SPECIAL, EXEMPLARY, OR CONSEQUENTIAL DAMAGES (INCLUDING, BUT NOT LIMITED TO, PROCUREMENT OF SUBSTITUTE GOODS " +
  "OR SERVICES; LOSS OF USE, DATA, OR PROFITS; OR BUSINESS INTERRUPTION) HOWEVER CAUSED AND ON ANY THEORY OF LIABILITY, " +
  "WHETHER IN CONTRACT, STRICT LIABILITY, OR TORT (INCLUDING NEGLIGENCE OR OTHERWISE) ARISING IN ANY WAY OUT OF THE USE OF " +
  "THIS SOFTWARE, EVEN IF ADVISED OF THE POSSIBILITY OF SUCH DAMAGE.";
const out = process.argv[2] ?? fileURLToPath(new URL("../src/fossil/report/assets", import.meta.url));
const made = await build({
  absWorkingDir: here,
  entryPoints: { page: "src/main.ts" },
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  // Without the checks of regl's arguments, which are for those who write against it; faults of WebGL are told all the same.
  alias: { regl: "./node_modules/regl/dist/regl.unchecked.js" },
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
  const holders = [];
  const terms = new Map([["BSD", BSD]]); // each licence has one text, whoever grants it
  for (const [name, inputs] of packages(Object.keys(metafile.inputs))) {
    const folder = join(here, "node_modules", name);
    const { version, license, author } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
    const lines = file ? readFileSync(join(folder, file), "utf8").split(/\r?\n/).map((line) => line.trim()) : [];
    const copyrights = lines.filter((line) => COPYRIGHT.test(line));
    holders.push(`${name} ${version} (${license}) ${copyrights.join("; ") || `by ${author?.name ?? author}`}`);
    // What a package has taken over from others says so in a comment alone.
    for (const path of inputs) holders.push(...takenOver(readFileSync(join(here, path), "utf8")).map((words) => `- in it: ${words}`));
    const kept = lines.filter((line) => !/^(copyright|the mit|mit lic|isc lic|\(the mit|\(mit|#)/i.test(line));
    if (file && !terms.has(license)) terms.set(license, kept.join(" ").replace(/\s+/g, " ").trim());
  }
  const licences = [...terms].map(([license, words]) => `${license}: ${words}`);
  const lines = ["This script contains:", ...holders, ...licences].join("\n");
  const plain = lines.normalize("NFD").replace(/[\u0300-\u036f]/g, ""); // accents would not be ASCII
  return `/*! ${plain.replace(/[^\x20-\x7e\n]/g, "?").replaceAll("*/", "* /").replaceAll("</", "< /")} */\n`;
}

// The packages that were built in, with their files, and what these depend on: of that, a part may be in those files.
function packages(paths) {
  const found = new Map();
  const add = (name) => {
    if (found.has(name)) return;
    found.set(name, []);
    const { dependencies } = JSON.parse(readFileSync(join(here, "node_modules", name, "package.json"), "utf8"));
    Object.keys(dependencies ?? {}).forEach(add);
  };
  for (const path of paths) {
    const name = /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1];
    if (!name) continue;
    add(name);
    found.get(name).push(path);
  }
  return [...found].sort(([one], [other]) => (one < other ? -1 : 1));
}

function takenOver(source) {
  const comments = source.match(/\/\*[\s\S]*?\*\/|(?:^\s*\/\/.*\n)+/gm) ?? [];
  const lines = comments.map((comment) => comment.split("\n").map((line) => line.replace(/^[\s/*!]+|[\s/*]+$/g, "")).filter(Boolean));
  const said = lines.map((words) => words.filter((line, i) => !i || /^(@author|@license|implementation from)|copyright.* \d{4}/i.test(line)));
  return [...new Set(said.filter((words) => words.some((line) => COPYRIGHT.test(line))).map((words) => words.join(" ")))];
}
