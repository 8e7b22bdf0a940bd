// The map: every node, coloured by what the reader chooses, with what is known of the node under the pointer.

import type { App } from "./app";
import { colouring, type Colouring } from "./colouring";
import { el, number, replace, text } from "./dom";
import { legend } from "./legend";
import { Scatter } from "./scatter";

const IN_TIP = 5; // attributes under the pointer; the card has more

export function mapView(app: App): HTMLElement {
  const chosen = new Map<number, string | null>();
  const colourOf = () => (chosen.has(app.run) ? chosen.get(app.run)! : app.about.colour);
  const select = el("select", { id: "colour" });
  const legendAt = el("div", { class: "legend-at" });
  const aboutColour = el("p", { class: "quiet" });
  const card = el("div", { class: "node-card", "aria-live": "polite" });
  const picked = el("div", { class: "picked", "aria-live": "polite" });
  const notes = el("div", { class: "notes" });
  const tip = el("div", { class: "tip", role: "status", hidden: true });
  let shown: Colouring | null = null;
  let over: number | null = null; // the node under the pointer: of answers that come late, its own alone is shown

  const scatter = new Scatter(
    "Map of the nodes. Arrow keys go from node to node, plus and minus zoom, 0 shows all, Enter opens the node.",
    {
      hover: (row) => void hover(row),
      select: (rows) => {
        if (rows.length <= 1) {
          replace(picked);
          app.select(rows[0] ?? null);
        } else void describe(rows);
      },
      open: () => app.open("node"),
    },
  );

  const lasso = el("button", { type: "button", "aria-pressed": "false", title: "Draw around nodes (or hold Shift)" }, "Lasso");
  lasso.addEventListener("click", () => {
    const on = lasso.getAttribute("aria-pressed") !== "true";
    lasso.setAttribute("aria-pressed", String(on));
    scatter.setLasso(on);
  });
  const tools = el(
    "div",
    { class: "tools", role: "toolbar", "aria-label": "Map" },
    el("button", { type: "button", "aria-label": "Zoom in", click: () => scatter.zoom(0.7) }, "+"),
    el("button", { type: "button", "aria-label": "Zoom out", click: () => scatter.zoom(1.4) }, "−"),
    el("button", { type: "button", click: () => scatter.home() }, "Reset"),
    lasso,
  );

  async function hover(row: number | null): Promise<void> {
    over = row;
    tip.hidden = true;
    if (row === null) return;
    const { id, attributes } = await app.source.node(app.run, row);
    if (over !== row) return;
    // What the map is coloured by stands first.
    const first = (name: string) => Number(name !== shown?.about?.title);
    const told = [...attributes].sort((one, other) => first(one.name) - first(other.name));
    replace(
      tip,
      el("strong", {}, text(id, 60)),
      ...told.slice(0, IN_TIP).map(({ name, value }) => el("span", {}, text(name, 30), ": ", text(value, 40))),
    );
    tip.hidden = false;
  }

  async function describe(rows: number[]): Promise<void> {
    const about = shown?.about;
    const lines: HTMLElement[] = [];
    if (about?.kind === "category") {
      const column = await app.column(app.run, about.name);
      const counts = new Map<number, number>();
      if (column.kind === "category") for (const row of rows) counts.set(column.codes[row]!, (counts.get(column.codes[row]!) ?? 0) + 1);
      for (const [code, count] of [...counts].sort((a, b) => b[1] - a[1]).slice(0, 8)) {
        lines.push(el("li", {}, text(about.names[code] ?? "unknown", 40), ` ${number(count)}`));
      }
    }
    const some = await app.source.ids(app.run, rows.slice(0, 5));
    replace(
      picked,
      el("h3", {}, `${number(rows.length)} nodes in the lasso`),
      lines.length > 0 && el("ul", {}, ...lines),
      el("p", { class: "quiet" }, "Such as ", ...some.flatMap((id, i) => [i ? ", " : "", text(id, 24)]), "."),
    );
  }

  async function showNode(): Promise<void> {
    scatter.mark(app.node);
    if (app.node === null) {
      replace(card, el("p", { class: "quiet" }, "Choose a node: click it, search for it, or walk with the arrow keys."));
      return;
    }
    const node = await app.source.node(app.run, app.node);
    if (node.row !== app.node) return;
    replace(
      card,
      el("h3", {}, text(node.id, 60)),
      el(
        "dl",
        {},
        ...[...node.attributes, ...node.weights.map((each) => ({ name: each.name, value: number(each.value, 3) }))]
          .slice(0, 14)
          .flatMap(({ name, value }) => [el("dt", {}, text(name, 40)), el("dd", {}, text(value, 60))]),
      ),
      el("button", { type: "button", class: "primary", click: () => app.open("node") }, "Neighbours and subgraph"),
    );
  }

  async function draw(): Promise<void> {
    const [run, name] = [app.run, colourOf()];
    const about = app.about.columns.find((column) => column.name === name) ?? null;
    const [coordinates, column] = await Promise.all([app.coordinates(run), about ? app.column(run, about.name) : null]);
    if (run !== app.run) return;
    shown = colouring(about, column, app.about.nodes, app.theme);
    const now = shown;
    replace(
      legendAt,
      legend(shown, (codes) => {
        if (!codes) return scatter.show(null);
        const rows: number[] = [];
        now.codes.forEach((code, row) => codes.has(code) && rows.push(row));
        scatter.show(rows);
      }),
    );
    aboutColour.textContent = about?.about ?? "";
    await scatter.draw(coordinates, shown, app.theme);
    document.documentElement.dataset.painted = "yes";
    performance.mark("first map");
  }

  function start(): void {
    replace(
      select,
      el("option", { value: "" }, "nothing"),
      ...app.about.columns.map((column) => {
        const option = el("option", { value: column.name }, column.title.slice(0, 60));
        option.selected = column.name === colourOf();
        return option;
      }),
    );
    const about = app.about;
    const all = about.nodes === about.totalNodes ? `${number(about.nodes)} nodes` : `${number(about.nodes)} of ${number(about.totalNodes)} nodes`;
    replace(
      notes,
      el("p", {}, `${all}, ${number(about.edges)} directed edges, placed by ${about.layout}. Far apart on the map says little; near says more.`),
      ...about.notes.map((note) => el("p", { class: "note" }, note)),
    );
    replace(picked);
    void hover(null);
    void draw();
    void showNode();
  }

  select.addEventListener("change", () => {
    chosen.set(app.run, select.value || null);
    void draw();
  });
  app.on("theme", () => void draw());
  app.on("node", () => void showNode());
  app.on("run", start);
  const panel = el(
    "div",
    { class: "panel" },
    el("div", { class: "card" }, el("label", { for: "colour" }, "Colour by"), select, aboutColour, legendAt),
    el("div", { class: "card" }, picked, card),
    notes,
  );
  const made = el("div", { class: "map-view" }, el("div", { class: "stage" }, scatter.element, tools, tip), panel);
  scatter.element.addEventListener("pointermove", (event) => {
    const box = scatter.element.getBoundingClientRect();
    tip.style.left = `${Math.min(event.clientX - box.left + 14, box.width - 240)}px`;
    tip.style.top = `${event.clientY - box.top + 14}px`;
  });
  requestAnimationFrame(start);
  return made;
}
