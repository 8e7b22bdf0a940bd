// How training went: what was recorded, in panels of things that belong together.

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { App } from "./app";
import { classColours } from "./colours";
import type { RunMeta } from "./data";
import { el, number, replace, section, table, text } from "./dom";

type Series = RunMeta["training"]["series"][number];

const PANELS: { title: string; about: string; has: (name: string) => boolean }[] = [
  { title: "Contrast and its parts", about: "What training brings down: L_ot of subgraphs, L_node of nodes, their sum.", has: (name) => /^(loss|contrast|ot|node)$/.test(name) },
  { title: "λ, weight of structure", about: "Mean, median and spread over the nodes.", has: (name) => name.startsWith("lambda") },
  { title: "Effective rank", about: "How many directions the vectors use; near one, they have collapsed.", has: (name) => name === "effective_rank" },
  { title: "Transport distances", about: "Of positive and of negative pairs; training pulls them apart.", has: (name) => name.startsWith("distance") },
  { title: "Solver error", about: "Mass that plans carry in wrong rows or columns.", has: (name) => /marginal|row_error|column_error/.test(name) },
  { title: "Loss of the fusion layer", about: "L_θ and its parts.", has: (name) => name.startsWith("fusion") },
];

export function trainingView(app: App): HTMLElement {
  const made = el("div", { class: "training-view" });
  let plots: uPlot[] = [];

  function show(): void {
    plots.forEach((plot) => plot.destroy());
    plots = [];
    if (app.view !== "training") return;
    const { training, summary } = app.about;
    const facts = section("What was learnt", el("dl", {}, ...summary.flatMap(({ name, value }) => [el("dt", {}, text(name)), el("dd", {}, text(value, 200))])));
    if (!training.series.length) {
      replace(made, facts, section("No curves", el("p", {}, "Nothing was trained, or the history is not there.")));
      return;
    }
    const left = new Set(training.series);
    const panels: HTMLElement[] = [];
    const add = (title: string, about: string, series: Series[]) => {
      if (!series.length) return;
      series.forEach((each) => left.delete(each));
      const at = el("div", { class: "chart", role: "img", "aria-label": `${title}: ${series.map(said).join("; ")}` });
      panels.push(section(title, el("p", { class: "quiet" }, about), at, names(app, series)));
      requestAnimationFrame(() => plots.push(chart(app, at, training.epochs, series)));
    };
    for (const panel of PANELS) add(panel.title, panel.about, [...left].filter(({ name }) => panel.has(name)));
    // What never moved needs no curve; the table has it.
    for (const each of [...left]) if (new Set(each.values).size > 1) add(each.name, "As it was recorded.", [each]);
    replace(made, facts, el("div", { class: "columns two" }, ...panels), section("First and last", ends(training)));
  }

  for (const change of ["view", "run", "theme"] as const) app.on(change, show);
  window.addEventListener("resize", () => app.view === "training" && show());
  return made;
}

function said({ name, values }: Series): string {
  return `${name} from ${number(values[0] ?? null)} to ${number(values[values.length - 1] ?? null)}`;
}

function names(app: App, series: Series[]): HTMLElement {
  const colours = classColours(Math.max(series.length, 1), app.theme);
  return el(
    "ul",
    { class: "keys" },
    ...series.map(({ name, values }, i) => {
      const swatch = el("span", { class: "swatch", "aria-hidden": "true" });
      swatch.style.background = colours[i]!;
      return el("li", {}, swatch, text(name), " ", el("span", { class: "number" }, number(values[values.length - 1] ?? null)));
    }),
  );
}

function ends({ epochs, series }: RunMeta["training"]): HTMLElement {
  const last = epochs.length - 1;
  const rows = series.map(({ name, values }) => [text(name), number(values[0] ?? null), number(values[last] ?? null)]);
  return table(["recorded", `epoch ${epochs[0]}`, `epoch ${epochs[last]}`], rows, "Every recorded number, first and last", [1, 2]);
}

function chart(app: App, at: HTMLElement, epochs: number[], series: Series[]): uPlot {
  const dark = app.theme === "dark";
  const [ink, grid] = dark ? ["#aeb6c2", "#2a303a"] : ["#4a5361", "#e7e9ec"];
  const colours = classColours(Math.max(series.length, 1), app.theme);
  const values = series.flatMap((each) => each.values).filter((value): value is number => value !== null && value > 0);
  const wide = values.length > 0 && Math.max(...values) / Math.min(...values) > 1000 && series.every((each) => each.values.every((value) => value === null || value > 0));
  const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 }, font: "11px system-ui" };
  return new uPlot(
    {
      width: Math.max(at.clientWidth, 200),
      height: 210,
      legend: { show: false },
      cursor: { y: false },
      scales: { x: { time: false }, y: { distr: wide ? 3 : 1 } },
      axes: [axis, { ...axis, size: 58 }],
      series: [{}, ...series.map((_, i) => ({ stroke: colours[i]!, width: 1.75, points: { show: epochs.length < 3 } }))],
    },
    [epochs, ...series.map((each) => each.values)] as uPlot.AlignedData,
    at,
  );
}
