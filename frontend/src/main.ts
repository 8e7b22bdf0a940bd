// The page: a header with the run, the search and the theme, and a tab for each way to look.

import "./page.css";
import { App, type ViewName } from "./app";
import { compareView } from "./compare";
import type { Source } from "./data";
import { el, replace } from "./dom";
import { EmbeddedSource } from "./embedded";
import { dataView, provenanceView } from "./facts";
import { mapView } from "./map";
import { nodeView } from "./node";
import { nodesView } from "./nodes";
import { scoresView } from "./scores";
import { searchBox } from "./search";
import { ServedSource } from "./served";
import { trainingView } from "./training";
import { transportView } from "./transport";

interface Tab {
  name: ViewName;
  title: string;
  make: (app: App) => HTMLElement;
}

const TABS: Tab[] = [
  { name: "map", title: "Map", make: mapView },
  { name: "nodes", title: "Nodes", make: nodesView },
  { name: "node", title: "Node", make: nodeView },
  { name: "transport", title: "Transport", make: transportView },
  { name: "training", title: "Training", make: trainingView },
  { name: "scores", title: "Scores", make: scoresView },
  { name: "compare", title: "Compare", make: compareView },
  { name: "data", title: "Data", make: dataView },
  { name: "provenance", title: "Provenance", make: provenanceView },
];

async function start(): Promise<void> {
  const kind = document.querySelector<HTMLMetaElement>('meta[name="fossil-source"]')?.content;
  const source: Source = kind === "served" ? new ServedSource() : new EmbeddedSource();
  const app = new App(source, await source.meta());
  const missing: ViewName[] = [...(source.table ? [] : ["nodes" as const]), ...(app.meta.runs.length > 1 ? [] : ["compare" as const])];
  const shown = TABS.filter(({ name }) => !missing.includes(name));
  const tabs = shown.map(({ name, title }) =>
    el("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": `panel-${name}`, click: () => app.open(name) }, title),
  );
  // The first to hear of a change of view, so that each view finds its panel of the right size.
  const settle = () =>
    shown.forEach(({ name }, i) => {
      const on = name === app.view;
      tabs[i]!.setAttribute("aria-selected", String(on));
      tabs[i]!.tabIndex = on ? 0 : -1;
      panels[i]!.hidden = !on;
    });
  app.on("view", settle);
  const panels: HTMLElement[] = shown.map(({ name, make }) =>
    el("div", { role: "tabpanel", id: `panel-${name}`, "aria-labelledby": `tab-${name}`, class: `view ${name}`, hidden: true }, make(app)),
  );
  const list = el("div", { role: "tablist", "aria-label": "Ways to look at the run", class: "tabs" }, ...tabs);
  list.addEventListener("keydown", (event) => {
    const at = tabs.indexOf(document.activeElement as HTMLButtonElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined || at < 0) return;
    event.preventDefault();
    const next = tabs[(to + tabs.length) % tabs.length]!;
    next.focus();
    next.click();
  });
  replace(
    document.getElementById("page")!,
    el("header", {}, brand(app), runs(app), searchBox(app), theme(app)),
    el("nav", { "aria-label": "Views" }, list),
    el("main", {}, ...panels),
  );
  settle();
  expose(app);
}

function brand(app: App): HTMLElement {
  const title = el("h1", {});
  const name = () => {
    const graph = app.about.graph.slice(0, 60);
    replace(title, el("span", { class: "brand" }, "fossil"), " ", el("bdi", {}, graph));
    document.title = `${graph} · fossil ${app.meta.kind}`;
  };
  name();
  app.on("run", name);
  return title;
}

function runs(app: App): HTMLElement {
  if (app.meta.runs.length === 1) {
    return el("p", { class: "method" }, el("bdi", {}, app.about.method.slice(0, 120)), `, seed ${app.about.seed}`);
  }
  const select = el("select", { id: "run", "aria-label": "Run" });
  app.meta.runs.forEach((run, i) => select.append(el("option", { value: i }, `${run.name.slice(0, 40)}: ${run.method.slice(0, 60)}, seed ${run.seed}`)));
  select.addEventListener("change", () => app.setRun(Number(select.value)));
  app.on("run", () => (select.value = String(app.run)));
  return el("div", { class: "method" }, select);
}

function theme(app: App): HTMLElement {
  const button = el("button", { type: "button", id: "theme", class: "theme" });
  const name = () => {
    const other = app.theme === "dark" ? "light" : "dark";
    button.textContent = app.theme === "dark" ? "☀ Light" : "☾ Dark";
    button.setAttribute("aria-label", `Switch to the ${other} theme`);
  };
  button.addEventListener("click", () => app.setTheme(app.theme === "dark" ? "light" : "dark"));
  app.on("theme", name);
  name();
  return button;
}

// For the console of those who want it: `fossil.select(row)` chooses a node and says its id.
function expose(app: App): void {
  const select = async (row: number) => {
    app.select(row);
    return (await app.source.ids(app.run, [row]))[0];
  };
  Object.assign(window, { fossil: { select, open: (view: ViewName) => app.open(view) } });
}

// What nobody else answers for: a server that has ended, a browser without WebGL.
window.addEventListener("unhandledrejection", ({ reason }) => {
  const said = reason instanceof TypeError && /fetch/i.test(reason.message) ? "The server does not answer; is it still running?" : String(reason?.message ?? reason);
  document.querySelector(".fault")?.remove();
  document.getElementById("page")!.prepend(el("p", { class: "fault", role: "alert" }, said.slice(0, 500)));
});

start().catch((error: unknown) => {
  const said = el("p", { class: "loading", role: "alert" });
  said.textContent = `This page cannot be shown: ${(error as Error).message}`;
  replace(document.getElementById("page")!, said);
});
