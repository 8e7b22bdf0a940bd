// Elements of the page. Text of users enters by `textContent` alone, never as markup.

type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined | ((event: Event) => void)>;

export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  decorate(made, attributes, children);
  return made;
}

const SVG = "http://www.w3.org/2000/svg";

export function svg(tag: string, attributes: Attributes = {}, ...children: Child[]): SVGElement {
  const made = document.createElementNS(SVG, tag);
  decorate(made, attributes, children);
  return made;
}

function decorate(made: Element, attributes: Attributes, children: Child[]): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") made.addEventListener(name, value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) if (child) made.append(child);
}

/** Put children in place of others; the keyboard stays where it was, on what has the same `data-key`. */
export function replace(parent: Element, ...children: Child[]): void {
  const at = document.activeElement;
  const key = at instanceof HTMLElement && parent.contains(at) ? at.dataset.key : undefined;
  parent.replaceChildren(...children.filter((child): child is Node | string => Boolean(child)));
  if (key === undefined) return;
  const again = [...parent.querySelectorAll<HTMLButtonElement>("[data-key]")].filter((each) => !each.disabled);
  (again.find((each) => each.dataset.key === key) ?? again[0])?.focus();
}

/** A text of a user, kept from running out of its box and from turning what stands beside it around. */
export function text(value: string, longest = 80): HTMLElement {
  const short = value.length > longest ? `${value.slice(0, longest)}…` : value;
  return el("bdi", value === short ? {} : { title: value.slice(0, 2000) }, short);
}

/** As much of a text as a drawing has room for, measured in its font. */
export function fitted(value: string, room: number, font: string): string {
  const pen = document.createElement("canvas").getContext("2d");
  const signs = Array.from(value.slice(0, 500));
  if (!pen) return signs.slice(0, 30).join("");
  pen.font = `${font} ${getComputedStyle(document.body).fontFamily}`;
  let shown = value.length > signs.join("").length ? `${signs.join("")}…` : value;
  while (signs.length && pen.measureText(shown).width > room) {
    signs.pop();
    shown = `${signs.join("").trimEnd()}…`;
  }
  return shown;
}

export function table(head: string[], rows: (Child | Child[])[][], caption: string, numeric: number[] = []): HTMLElement {
  const kind = (place: number) => (numeric.includes(place) ? "number" : null);
  const made = el(
    "table",
    {},
    el("caption", {}, caption),
    el("thead", {}, el("tr", {}, ...head.map((name, i) => el("th", { scope: "col", class: kind(i) }, name)))),
    el(
      "tbody",
      {},
      ...rows.map((row) =>
        el("tr", {}, ...row.map((cell, i) => el("td", { class: kind(i) }, ...(Array.isArray(cell) ? cell : [cell])))),
      ),
    ),
  );
  return el("div", { class: "table", tabindex: 0, role: "region", "aria-label": caption }, made);
}

export function section(title: string, ...children: Child[]): HTMLElement {
  return el("section", { class: "card" }, el("h2", {}, title), ...children);
}

export function number(value: number | null, digits = 4): string {
  if (value === null || Number.isNaN(value)) return "–";
  const useGrouping = Math.abs(value) >= 10_000; // a number of four digits may be a year
  if (Number.isInteger(value)) return value.toLocaleString("en", { useGrouping });
  return value.toLocaleString("en", { useGrouping, maximumSignificantDigits: digits });
}

export function percent(value: number, digits = 1): string {
  return `${(100 * value).toFixed(digits)} %`;
}
