// All nodes as a table, a page at a time, in the order of the graph or by a column; only a server has it.

import type { App } from "./app";
import type { TablePage } from "./data";
import { el, number, replace, section, text } from "./dom";

const ROWS = 50;

export function nodesView(app: App): HTMLElement {
  const made = el("div", { class: "nodes-view" });
  let start = 0;
  let by = "";
  let descending = false;
  let asked = 0;

  async function show(): Promise<void> {
    const { table } = app.source;
    if (app.view !== "nodes" || !table) return;
    const mine = ++asked;
    try {
      const page = await table.call(app.source, app.run, start, ROWS, by, descending);
      if (mine === asked) replace(made, section("Nodes", pager(page), rows(page)));
    } catch (error) {
      replace(made, section("Nodes", el("p", { role: "alert" }, (error as Error).message)));
    }
  }

  function turn(to: number): void {
    start = to;
    void show();
  }

  function sort(name: string): void {
    // Once rising, once falling, then as the graph has them.
    [by, descending] = by !== name ? [name, false] : descending ? ["", false] : [name, true];
    turn(0);
  }

  function pager(page: TablePage): HTMLElement {
    const last = Math.max(0, Math.floor((page.total - 1) / ROWS) * ROWS);
    const button = (name: string, to: number, on: boolean) =>
      el("button", { type: "button", "data-key": name, disabled: !on, click: () => turn(to) }, name);
    return el(
      "div",
      { class: "pager", role: "toolbar", "aria-label": "Pages of the table" },
      button("First", 0, start > 0),
      button("Previous", Math.max(0, start - ROWS), start > 0),
      el("span", { role: "status" }, `${number(start + 1)} to ${number(start + page.rows.length)} of ${number(page.total)}`),
      button("Next", start + ROWS, start < last),
      button("Last", last, start < last),
    );
  }

  function rows(page: TablePage): HTMLElement {
    const numeric = page.columns.map((name) => app.about.columns.some((each) => each.name === name && each.kind === "number"));
    const kind = (i: number) => (numeric[i] ? "number" : null);
    const head = page.titles.map((title, i) => {
      const name = page.columns[i]!;
      const on = by === name;
      const order = on ? (descending ? "descending" : "ascending") : "none";
      return el(
        "th",
        { scope: "col", "aria-sort": order, class: kind(i) },
        el("button", { type: "button", class: "link", "data-key": `by ${name}`, click: () => sort(name) }, text(title, 40), on && (descending ? " ↓" : " ↑")),
      );
    });
    const body = page.rows.map((row, i) =>
      el(
        "tr",
        {},
        el("th", { scope: "row" }, el("button", { type: "button", class: "link", click: () => open(row) }, text(page.ids[i]!, 60))),
        ...page.cells[i]!.map((cell, j) => el("td", { class: kind(j) }, text(cell, 60))),
      ),
    );
    const made = el("table", {}, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "id"), ...head)), el("tbody", {}, ...body));
    return el("div", { class: "table", tabindex: 0, role: "region", "aria-label": "Nodes" }, made);
  }

  function open(row: number): void {
    app.select(row);
    app.open("node");
  }

  app.on("view", () => void show());
  app.on("run", () => turn(0));
  return made;
}
