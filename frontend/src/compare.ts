// Two runs side by side: their maps with one selection, their scores, and how far they agree on who is near whom.

import type { App } from "./app";
import { colouring } from "./colouring";
import { el, number, percent, replace, section, table, text } from "./dom";
import { legend } from "./legend";
import { Scatter } from "./scatter";
import { differences, interval } from "./scores";

export function compareView(app: App): HTMLElement {
  const made = el("div", { class: "compare-view" });
  const chosen: [number, number] = [0, 1];
  const sides = ([0, 1] as const).map((place) => new Side(app, place, chosen, () => void show()));
  const shared = el("div", { "aria-live": "polite" });
  const tables = el("div");
  const legendAt = el("div", { class: "legend-at wide" });
  let asked = 0;
  made.append(el("div", { class: "columns two maps" }, ...sides.map((side) => side.element)), legendAt, shared, tables);

  async function agree(): Promise<void> {
    const [a, b] = chosen.map((run) => app.meta.runs[run]!);
    if (a!.nodesKey !== b!.nodesKey) {
      replace(shared, section("Different nodes", el("p", {}, "The two runs are of different graphs; a node of one is no node of the other.")));
      return;
    }
    if (app.node === null) {
      replace(shared, section("One node in both", el("p", {}, "Choose a node on either map: it is marked on both, with its nearest nodes in each.")));
      return;
    }
    const wanted = app.node;
    const [one, other] = await Promise.all(chosen.map((run) => app.source.node(run, wanted)));
    if (app.node !== wanted) return; // another one was chosen meanwhile
    const both = one!.inEmbedding.rows.filter((row) => other!.inEmbedding.rows.includes(row)).length;
    const lists = [one!, other!].map((node, i) =>
      el(
        "div",
        {},
        el("h3", {}, text(app.meta.runs[chosen[i]!]!.method, 60)),
        el(
          "ol",
          { class: "neighbours" },
          ...node.inEmbedding.rows.map((row, place) => {
            const common = [one!, other!][1 - i]!.inEmbedding.rows.includes(row);
            return el(
              "li",
              { class: common ? "shared" : null },
              el("button", { type: "button", click: () => app.select(row) }, el("span", { "aria-hidden": "true" }, common ? "● " : "○ "), text(node.inEmbedding.ids[place] ?? "", 40), common && el("span", { class: "unseen" }, ", near in both")),
            );
          }),
        ),
      ),
    );
    const title = el("p", {}, text(one!.id, 60), `: ${number(both)} of its ${number(one!.inEmbedding.rows.length)} nearest nodes are the same in both.`);
    replace(shared, section("One node in both", title, el("div", { class: "columns two" }, ...lists)));
  }

  async function show(): Promise<void> {
    if (app.view !== "compare") return;
    const mine = ++asked;
    await Promise.all(sides.map((side) => side.draw()));
    if (mine !== asked) return;
    const about = app.meta.runs[chosen[0]]!;
    const column = about.columns.find(({ name }) => name === about.colour) ?? null;
    const found = column ? await app.column(chosen[0], column.name) : null;
    // The colours say the same on the right only where it has the same nodes, coloured by the same column.
    const alike = sides.filter((_, i) => {
      const run = app.meta.runs[chosen[i]!]!;
      return run.nodesKey === about.nodesKey && run.colour === about.colour;
    });
    replace(legendAt, legend(colouring(column, found, about.nodes, app.theme), (codes) => alike.forEach((side) => side.only(codes))));
    const { scores, unscored } = app.meta;
    const rows = scores?.rows.map((row) => [text(row.graph, 30), text(row.method, 70), percent(row.accuracy.mean, 2), interval(row.accuracy)]);
    replace(
      tables,
      scores ? differences(scores) : section("No scores", el("p", {}, unscored ?? "")),
      rows && section("Scores", table(["graph", "what", "accuracy", "interval"], rows, "Accuracy on test nodes", [2])),
      section(
        "Runs",
        table(
          ["run", "graph", "method", "seed", "width", "layout"],
          app.meta.runs.map((run) => [text(run.name, 40), text(run.graph, 30), text(run.method, 70), String(run.seed), number(run.width), run.layout]),
          "Runs of this page",
          [3, 4],
        ),
      ),
    );
    void agree();
  }

  for (const change of ["view", "theme", "run"] as const) app.on(change, () => void show());
  app.on("node", () => {
    sides.forEach((side) => side.mark());
    if (app.view === "compare") void agree();
  });
  return made;
}

class Side {
  readonly element: HTMLElement;
  private readonly scatter: Scatter;
  private codes: Int32Array = new Int32Array(0);

  constructor(
    private readonly app: App,
    private readonly place: 0 | 1,
    private readonly chosen: [number, number],
    private readonly changed: () => void,
  ) {
    const name = place ? "right" : "left";
    const select = el("select", { id: `run-${name}`, "aria-label": `Run on the ${name}` });
    app.meta.runs.forEach((run, i) => {
      const option = el("option", { value: i }, `${run.name.slice(0, 40)}: ${run.method.slice(0, 60)}`);
      option.selected = i === chosen[place];
      select.append(option);
    });
    select.addEventListener("change", () => {
      this.chosen[this.place] = Number(select.value);
      this.changed();
    });
    this.scatter = new Scatter(`Map of the run on the ${name}. Arrow keys go from node to node.`, {
      hover: () => undefined,
      select: (rows) => {
        // A row is one of the run that is looked at: a node of another graph makes its run that one.
        if (!this.here) app.setRun(this.chosen[this.place]);
        app.select(rows.length === 1 ? rows[0]! : null);
      },
      open: () => app.open("node"),
    });
    this.element = el("div", { class: "side card" }, select, this.scatter.element);
  }

  async draw(): Promise<void> {
    const run = this.chosen[this.place];
    const about = this.app.meta.runs[run]!;
    const column = about.columns.find(({ name }) => name === about.colour) ?? null;
    const [coordinates, found] = await Promise.all([this.app.coordinates(run), column ? this.app.column(run, column.name) : null]);
    const colours = colouring(column, found, about.nodes, this.app.theme);
    this.codes = colours.codes;
    await this.scatter.draw(coordinates, colours, this.app.theme);
    this.mark();
  }

  mark(): void {
    this.scatter.mark(this.here ? this.app.node : null);
  }

  /** Whether it has the nodes of the run that is looked at. */
  private get here(): boolean {
    return this.app.meta.runs[this.chosen[this.place]]!.nodesKey === this.app.about.nodesKey;
  }

  only(codes: Set<number> | null): void {
    const rows: number[] = [];
    if (codes) this.codes.forEach((code, row) => codes.has(code) && rows.push(row));
    this.scatter.show(codes ? rows : null);
  }
}
