// What the colours say: classes with their counts, each a switch, or a ramp between two numbers.

import { isLogarithmic, type Colouring } from "./colouring";
import { el, number, replace, text } from "./dom";

const MOST = 60;

export function legend(shown: Colouring, only: (codes: Set<number> | null) => void): HTMLElement {
  const { about, colours } = shown;
  const made = el("div", { class: "legend" });
  if (!about) return made;
  if (about.kind === "number") {
    const bar = el("div", { class: "ramp", "aria-hidden": "true" });
    bar.style.background = `linear-gradient(to right, ${colours.slice(1).join(", ")})`;
    const scale = isLogarithmic(about) ? " (scale of logarithms)" : "";
    replace(
      made,
      bar,
      el("div", { class: "ends" }, el("span", {}, number(about.low)), el("span", {}, number(about.high))),
      scale && el("p", { class: "quiet" }, scale.trim()),
      about.missing > 0 && el("p", { class: "quiet" }, `${number(about.missing)} nodes have none, and are grey.`),
    );
    return made;
  }
  const chosen = new Set<number>();
  const list = el("ul", { "aria-label": "Classes and how many nodes they have" });
  const entry = (code: number, name: string, count: number) => {
    const swatch = el("span", { class: "swatch", "aria-hidden": "true" });
    swatch.style.background = colours[code] ?? colours[0]!;
    const button = el(
      "button",
      { type: "button", "aria-pressed": "false", title: "Show these nodes alone" },
      swatch,
      el("span", { class: "name" }, text(name, 40)),
      el("span", { class: "count" }, number(count)),
    );
    button.addEventListener("click", () => {
      if (!chosen.delete(code)) chosen.add(code);
      button.setAttribute("aria-pressed", String(chosen.has(code)));
      only(chosen.size ? chosen : null);
    });
    list.append(el("li", {}, button));
  };
  const order = about.names.map((_, i) => i);
  if (order.length > 12) order.sort((a, b) => about.counts[b]! - about.counts[a]!);
  for (const place of order.slice(0, MOST)) entry(place + 1, about.names[place]!, about.counts[place]!);
  if (about.missing) entry(0, "unknown", about.missing);
  replace(
    made,
    list,
    order.length > MOST && el("p", { class: "quiet" }, `and ${number(order.length - MOST)} smaller classes`),
  );
  return made;
}
