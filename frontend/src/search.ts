// Search for a node by its id: a combobox, as ARIA describes it.

import type { App } from "./app";
import { el, replace, text } from "./dom";

const MOST = 12;

export function searchBox(app: App): HTMLElement {
  const list = el("ul", { id: "found", role: "listbox", "aria-label": "Nodes found", hidden: true });
  const input = el("input", {
    id: "search",
    type: "search",
    placeholder: "Search a node by its id",
    role: "combobox",
    "aria-label": "Search a node by its id",
    "aria-expanded": "false",
    "aria-controls": "found",
    "aria-autocomplete": "list",
    autocomplete: "off",
    spellcheck: "false",
  });
  let rows: number[] = [];
  let at = -1;
  let asked = 0;
  let answered: string | null = null; // the text that `rows` were found for

  function close(): void {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }

  function choose(row: number | undefined): void {
    if (row === undefined) return;
    close();
    app.select(row);
    if (app.view !== "map" && app.view !== "compare") app.open("node");
  }

  /** Look for what was typed; false where something else was typed meanwhile. */
  async function look(): Promise<boolean> {
    const mine = ++asked;
    const sought = input.value;
    const found = sought.trim() ? await app.source.find(app.run, sought, MOST) : [];
    const ids = await app.source.ids(app.run, found);
    if (mine !== asked) return false;
    [rows, answered] = [found, sought];
    at = rows.length ? 0 : -1;
    replace(
      list,
      ...ids.map((id, i) => {
        const option = el("li", { id: `found-${i}`, role: "option", "aria-selected": String(i === at) }, text(id, 60));
        option.addEventListener("pointerdown", (event) => (event.preventDefault(), choose(rows[i])));
        return option;
      }),
      !ids.length && el("li", { role: "option", "aria-disabled": "true", "aria-selected": "false" }, "No id holds this."),
    );
    list.hidden = !input.value.trim();
    input.setAttribute("aria-expanded", String(!list.hidden));
    move(0);
    return true;
  }

  function move(step: number): void {
    if (!rows.length) return;
    at = (at + step + rows.length) % rows.length;
    [...list.children].forEach((option, i) => option.setAttribute("aria-selected", String(i === at)));
    input.setAttribute("aria-activedescendant", `found-${at}`);
  }

  input.addEventListener("input", () => void look());
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const known = !list.hidden && answered === input.value;
    if (step) known ? move(step) : void look();
    else if (event.key === "Enter") {
      // The one that was walked to; where the answer is still to come, the first.
      if (known) choose(rows[at]);
      else void look().then((found) => found && choose(rows[at]));
    } else if (event.key === "Escape") close();
    else return;
    event.preventDefault();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey && !(event.target instanceof HTMLInputElement)) {
      event.preventDefault();
      input.focus();
    }
  });
  return el("div", { class: "search", role: "search" }, input, list);
}
