// One node: who is near it in the graph and who by its vector, what it weighs, and its subgraph.

import Graph from "graphology";
import Sigma from "sigma";
import type { App } from "./app";
import { classColours, MISSING } from "./colours";
import type { Column, ColumnMeta, Neighbours, NodeFacts, Subgraph } from "./data";
import { el, number, replace, section, text } from "./dom";
import { onCircle } from "./circle";

export function nodeView(app: App): HTMLElement {
  const made = el("div", { class: "node-view", "aria-live": "polite" });
  let sigma: Sigma | null = null;
  let asked = 0;

  async function show(): Promise<void> {
    const mine = ++asked;
    sigma?.kill();
    sigma = null;
    if (app.view !== "node") return;
    if (app.node === null) {
      replace(made, section("No node chosen", el("p", {}, "Search for an id above, or choose a node on the map.")));
      return;
    }
    const label = app.about.columns.find((column) => column.name === "label") ?? null;
    const [node, column] = await Promise.all([app.source.node(app.run, app.node), label && app.column(app.run, label.name)]);
    // Of several that were asked for meanwhile, the last alone: a browser has few drawings in WebGL, and takes the map's away.
    if (mine !== asked) return;
    const drawing = el("div", { class: "subgraph", role: "img", "aria-label": subgraphLabel(node) });
    const both = new Set(node.inGraph.rows.filter((row) => node.inEmbedding.rows.includes(row)));
    replace(
      made,
      el(
        "div",
        { class: "columns three" },
        section(
          "Node",
          el("p", { class: "big" }, text(node.id, 120)),
          el(
            "dl",
            {},
            ...node.attributes.flatMap(({ name, value }) => [el("dt", {}, text(name, 40)), el("dd", {}, text(value, 80))]),
          ),
          node.weights.length > 0 && weights(node),
        ),
        section(
          "Neighbours",
          el("p", {}, agreement(node, both.size)),
          el(
            "div",
            { class: "columns two" },
            list(app, "In the graph", node.inGraph, both, "also near by vector"),
            list(app, "By vector", node.inEmbedding, both, "also a neighbour in the graph"),
          ),
          el("p", { class: "quiet" }, "● in both lists, ○ in one alone. Numbers are cosines of the vectors."),
        ),
        section(
          "Subgraph",
          el("p", { class: "quiet" }, app.about.subgraphs.about),
          node.subgraph
            ? drawing
            : el("p", {}, "There is none here: too few nodes are in reach, or some of them are not on this page."),
        ),
      ),
    );
    if (node.subgraph) sigma = draw(app, drawing, node.subgraph, label, column);
  }

  app.on("node", () => void show());
  app.on("run", () => void show());
  app.on("view", () => void show());
  app.on("theme", () => void show());
  return made;
}

function agreement(node: NodeFacts, both: number): string {
  const listed = node.inGraph.rows.length;
  if (!node.inGraph.total) return "It has no neighbour in the graph; its vector is near those below.";
  const some = listed < node.inGraph.total ? ` (${number(listed)} of its ${number(node.inGraph.total)} are listed)` : "";
  return `Of ${number(listed)} neighbours in the graph${some}, ${number(both)} are among the ${number(node.inEmbedding.rows.length)} nearest by vector.`;
}

function weights(node: NodeFacts): HTMLElement {
  return el(
    "div",
    { class: "weights" },
    el("h3", {}, node.weights[0]!.name === "λ" ? "Weight of structure" : "Trust in channels"),
    ...node.weights.map(({ name, value }) => {
      const bar = el("span", { class: "bar", "aria-hidden": "true" });
      bar.style.setProperty("--share", String(Math.min(Math.max(value, 0), 1)));
      return el("div", { class: "weight" }, el("span", {}, text(name, 30)), bar, el("span", { class: "number" }, number(value, 3)));
    }),
  );
}

function list(app: App, title: string, near: Neighbours, both: Set<number>, said: string): HTMLElement {
  return el(
    "div",
    {},
    el("h3", {}, title),
    el(
      "ol",
      { class: "neighbours" },
      ...near.rows.map((row, i) => {
        const shared = both.has(row);
        const cosine = near.cosines[i];
        return el(
          "li",
          { class: shared ? "shared" : null },
          el(
            "button",
            { type: "button", click: () => app.select(row) },
            el("span", { "aria-hidden": "true" }, shared ? "● " : "○ "),
            text(near.ids[i] ?? "", 32),
            shared && el("span", { class: "unseen" }, `, ${said}`),
            el("span", { class: "number" }, cosine === undefined || cosine === null || Number.isNaN(cosine) ? "" : cosine.toFixed(2)),
          ),
        );
      }),
    ),
    near.rows.length === 0 && el("p", { class: "quiet" }, "None."),
  );
}

function subgraphLabel(node: NodeFacts): string {
  const found = node.subgraph;
  return found ? `Subgraph of ${found.rows.length} nodes and ${found.edges.length} edges around ${node.id.slice(0, 60)}` : "";
}

function draw(app: App, at: HTMLElement, subgraph: Subgraph, label: ColumnMeta | null, column: Column | null): Sigma {
  const graph = new Graph({ type: "undirected" });
  const colours = classColours(Math.max(label?.names.length ?? 0, 1), app.theme);
  const places = onCircle(subgraph);
  const last = subgraph.rows.length - 1;
  const dark = app.theme === "dark";
  subgraph.rows.forEach((row, i) => {
    const code = column?.kind === "category" ? column.codes[row]! : label ? -1 : 0;
    graph.addNode(i, {
      ...places[i]!,
      size: i === last ? 14 : 8,
      label: (subgraph.ids[i] ?? "").slice(0, 24),
      color: code >= 0 ? colours[code] : MISSING[app.theme],
    });
  });
  for (const [a, b] of subgraph.edges) graph.addEdge(a, b, { size: 1.5, color: dark ? "#4b5563" : "#c3c9d2" });
  const sigma = new Sigma(graph, at, {
    allowInvalidContainer: true,
    labelColor: { color: dark ? "#e6e8ec" : "#1d2430" },
    labelFont: "system-ui, sans-serif",
    labelSize: 12,
    labelRenderedSizeThreshold: 0,
    labelDensity: 20, // few nodes: all are named
    labelGridCellSize: 30,
    stagePadding: 50,
  });
  sigma.on("clickNode", ({ node }) => {
    const row = subgraph.rows[Number(node)];
    if (row !== undefined && row >= 0) app.select(row);
  });
  return sigma;
}

