// Two subgraphs and the plan between them: each link is mass that moves, as wide as there is much of it.

import type { App } from "./app";
import { classColours, MISSING } from "./colours";
import type { Pair, Plan, Subgraph } from "./data";
import { el, number, replace, section, svg, text } from "./dom";

const [WIDTH, LEFT, RIGHT, ROW, TOP] = [900, 270, 630, 34, 30];
const WIDEST = 22;

export function transportView(app: App): HTMLElement {
  const list = el("div", { class: "pairs" });
  const stage = el("div", { class: "plan", "aria-live": "polite" });
  const made = el("div", { class: "transport-view" }, list, stage);

  function choose(): void {
    const { pairs, pairsAbout } = app.about;
    const group = (kind: Pair["kind"], title: string) => {
      const mine = pairs.filter((pair) => pair.kind === kind);
      return [
        el("h3", {}, title),
        mine.length
          ? el("ul", {}, ...mine.map((pair) => el("li", {}, button(pair))))
          : el("p", { class: "quiet" }, "There is none in this run."),
      ];
    };
    const button = (pair: Pair) => {
      const on = app.pair?.a === pair.a && app.pair.b === pair.b;
      return el(
        "button",
        { type: "button", "data-key": `${pair.a}/${pair.b}`, "aria-pressed": String(on), click: () => app.compare(pair.a, pair.b) },
        el("span", {}, text(pair.aId, 22), " → ", text(pair.bId, 22)),
        el("span", { class: "number", title: "value of the plan" }, number(pair.value, 3)),
      );
    };
    replace(
      list,
      section("Pairs", el("p", { class: "quiet" }, pairsAbout), ...group("positive", "Positive pairs"), ...group("negative", "Hardest negatives")),
      app.meta.kind === "explore" && app.node !== null && free(),
    );
  }

  function free(): HTMLElement {
    const input = el("input", { type: "text", id: "other", autocomplete: "off" });
    const said = el("p", { class: "quiet", role: "status" });
    const go = async () => {
      const sought = input.value.trim();
      const [found] = sought ? await app.source.find(app.run, sought, 1) : [];
      said.textContent = found !== undefined ? "" : sought ? "No id holds this." : "Type the id of a node, or a part of it.";
      if (found !== undefined && app.node !== null) app.compare(app.node, found);
    };
    const form = el("form", { submit: (event: Event) => (event.preventDefault(), void go()) },
      el("label", { for: "other" }, "Compare the chosen node with"), input, el("button", { type: "submit" }, "Solve"), said);
    return section("Any pair", form);
  }

  async function show(): Promise<void> {
    if (app.view !== "transport") return;
    const first = app.about.pairs[0];
    if (!app.pair && first) app.pair = { a: first.a, b: first.b };
    choose();
    if (!app.pair) {
      replace(stage, section("No pair to show", el("p", {}, "No two subgraphs of this run could be filled and compared.")));
      return;
    }
    const [wanted, { a, b }] = [app.pair, app.pair];
    try {
      const plan = await app.source.plan(app.run, a, b);
      if (app.pair !== wanted) return; // another one was chosen meanwhile
      replace(stage, section("The plan between two subgraphs", picture(app, plan), el("p", {}, spread(plan)), costs(plan), el("p", { class: "quiet" }, plan.about)));
      stage.dataset.drawn = `${a}/${b}`;
    } catch (error) {
      replace(stage, section("No plan", el("p", {}, String((error as Error).message))));
    }
  }

  for (const change of ["view", "run", "pair", "theme"] as const) app.on(change, () => void show());
  return made;
}

/** How far the plan is from one that moves a little of everything everywhere, which a large step of the solver gives. */
function spread({ mass }: Plan): string {
  const even = 1 / mass.length;
  const most = Math.max(...mass);
  return `Widths are mass. The widest link carries ${(100 * most).toFixed(2)} %, ${number(most / even, 3)} times what an even spread over all ${mass.length} links would give it.`;
}

function costs(plan: Plan): HTMLElement {
  const part = (title: string, value: number, how: string) =>
    el("div", { class: "cost" }, el("span", { class: "big" }, number(value, 4)), el("strong", {}, title), el("span", { class: "quiet" }, how));
  return el(
    "div",
    { class: "costs" },
    part("features", plan.featureCost, "⟨M, T⟩: how unlike the matched nodes are"),
    part("structure", plan.structureCost, "Σ |C¹ − C²|² T T: how unlike the matched edges are"),
    part("in all", plan.value, `${number(plan.alpha, 2)} · features + ${number(1 - plan.alpha, 2)} · structure`),
    part("mass amiss", Math.max(plan.rowError, plan.columnError), "in wrong rows or columns: how far it is from a plan"),
  );
}

function picture(app: App, plan: Plan): SVGElement {
  const label = app.about.columns.find((column) => column.name === "label");
  const colours = classColours(Math.max(label?.names.length ?? 0, 1), app.theme);
  const colour = (code: number) => (label ? (code >= 0 ? colours[code]! : MISSING[app.theme]) : colours[0]!);
  const [n, m] = [plan.source.rows.length, plan.target.rows.length];
  // Sources as they were drawn, the anchor first; targets where their mass comes from, so that few links cross.
  const left = Array.from({ length: n }, (_, i) => n - 1 - i);
  const heights = new Array<number>(n);
  left.forEach((node, place) => (heights[node] = place));
  const centre = (j: number) => {
    let [sum, mass] = [0, 1e-12];
    for (let i = 0; i < n; i++) [sum, mass] = [sum + heights[i]! * plan.mass[i * m + j]!, mass + plan.mass[i * m + j]!];
    return sum / mass;
  };
  const right = Array.from({ length: m }, (_, j) => j).sort((a, b) => centre(a) - centre(b));
  const rank = new Array<number>(m);
  right.forEach((node, place) => (rank[node] = place));
  const height = TOP * 2 + ROW * Math.max(n, m);
  const y = (place: number) => TOP + ROW * (place + 0.5);
  const most = Math.max(...plan.mass);
  const drawn = svg("svg", {
    viewBox: `0 0 ${WIDTH} ${height}`,
    class: "plan-drawing",
    role: "img",
    "aria-label": `Transport plan from the subgraph of ${plan.source.ids[n - 1]?.slice(0, 40)} to that of ${plan.target.ids[m - 1]?.slice(0, 40)}, value ${number(plan.value, 4)}`,
  });
  let links = 0;
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < m; j++) {
      const mass = plan.mass[i * m + j]!;
      if (mass < most * 0.01) continue;
      const [from, to, bend] = [y(heights[i]!), y(rank[j]!), (RIGHT - LEFT) / 2];
      links++;
      drawn.append(
        svg(
          "path",
          {
            class: "link",
            d: `M${LEFT + 9},${from} C${LEFT + bend},${from} ${RIGHT - bend},${to} ${RIGHT - 9},${to}`,
            "stroke-width": Math.max(0.6, (WIDEST * mass) / Math.max(most, 1 / n)).toFixed(2),
            stroke: colour(plan.sourceLabels[i] ?? -1),
            "stroke-opacity": (0.06 + 0.64 * (mass / most) ** 3).toFixed(3),
          },
          svg("title", {}, `${plan.source.ids[i]} → ${plan.target.ids[j]}: ${(100 * mass).toFixed(2)} % of the mass`),
        ),
      );
    }
  }
  side(drawn, plan.source, heights, LEFT, -1, y, (i) => colour(plan.sourceLabels[i] ?? -1), app);
  side(drawn, plan.target, rank, RIGHT, 1, y, (i) => colour(plan.targetLabels[i] ?? -1), app);
  drawn.dataset.links = String(links);
  return drawn;
}

function side(
  drawn: SVGElement,
  { ids, rows, edges }: Subgraph,
  places: number[],
  x: number,
  way: -1 | 1,
  y: (place: number) => number,
  colour: (i: number) => string,
  app: App,
): void {
  // Edges of the subgraph are arcs on its outer side; ids stand beyond the widest of them.
  const reach = (a: number, b: number) => 10 + 6 * Math.abs(places[a]! - places[b]!);
  for (const [a, b] of edges) {
    const [from, to] = [y(places[a]!), y(places[b]!)];
    const out = x + way * (12 + reach(a, b));
    drawn.append(svg("path", { class: "arc", d: `M${x + way * 9},${from} C${out},${from} ${out},${to} ${x + way * 9},${to}` }));
  }
  const anchor = rows.length - 1;
  rows.forEach((row, i) => {
    const at = y(places[i]!);
    const mark = svg("circle", { cx: x, cy: at, r: i === anchor ? 10 : 7, fill: colour(i), class: i === anchor ? "anchor" : "member" });
    const name = ids[i] ?? "";
    const short = name.length > 18 ? `${name.slice(0, 17)}…` : name;
    const words = svg(
      "text",
      { x: x + way * 92, y: at + 4, "text-anchor": way < 0 ? "end" : "start", class: i === anchor ? "anchor" : null },
      short,
    );
    mark.append(svg("title", {}, name.slice(0, 500)));
    if (row >= 0) mark.addEventListener("click", () => (app.select(row), app.open("node")));
    drawn.append(mark, words);
  });
}
