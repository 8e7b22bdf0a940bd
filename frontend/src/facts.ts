// The data that went in, and where the run comes from.

import type { App } from "./app";
import { el, number, replace, section, table, text } from "./dom";

export function dataView(app: App): HTMLElement {
  const made = el("div", { class: "data-view" });

  function show(): void {
    if (app.view !== "data") return;
    const about = app.about;
    replace(
      made,
      section(
        "Graph",
        el(
          "dl",
          {},
          ...[
            ["name", about.graph],
            ["nodes", number(about.totalNodes)],
            ["directed edges", `${number(about.edges)}, ${about.directed ? "some without their reverse" : "each with its reverse"}`],
            ["features", number(about.features)],
          ].flatMap(([name, value]) => [el("dt", {}, name!), el("dd", {}, text(value!, 200))]),
        ),
      ),
      section(
        "Findings",
        about.findings.length
          ? el("ul", { class: "findings" }, ...about.findings.map((finding) => el("li", {}, text(finding, 600))))
          : el("p", {}, "Nothing odd was noticed while reading and training."),
      ),
      section(
        "Leak audit",
        el("p", { class: "quiet" }, "What the graph gives away: copies, and how far a plain lookup of neighbour lists gets."),
        el(
          "dl",
          { class: "audit" },
          ...about.audit.flatMap(({ topic, text: said }) => [
            el("dt", { class: topic === "warning" ? "warning" : null }, topic),
            el("dd", { class: topic === "warning" ? "warning" : null }, said),
          ]),
        ),
      ),
      section(
        "Encoding plan",
        about.encoding.length
          ? table(
              ["column", "role", "how it is encoded", "features"],
              about.encoding.map(({ column, role, how, width }) => [text(column, 60), role, text(how, 160), number(width)]),
              "What became of every column",
              [3],
            )
          : el("p", {}, "The graph came with a feature matrix; there were no columns to encode."),
      ),
    );
  }

  for (const change of ["view", "run"] as const) app.on(change, show);
  return made;
}

export function provenanceView(app: App): HTMLElement {
  const made = el("div", { class: "provenance-view" });

  function show(): void {
    if (app.view !== "provenance") return;
    const about = app.about;
    replace(
      made,
      section(
        "Settings that differ from the defaults",
        about.settings.length
          ? table(
              ["setting", "here", "default", "what it is"],
              about.settings.map(({ name, value, usual, meaning }) => [el("code", {}, name), el("code", {}, text(value, 60)), el("code", {}, text(usual, 60)), meaning]),
              "Settings of this run that are not the method's own on this graph",
            )
          : el("p", {}, "None: the method's own settings for this graph."),
      ),
      section(
        "Where it comes from",
        el("dl", {}, ...about.provenance.flatMap(({ name, value }) => [el("dt", {}, text(name)), el("dd", {}, el("code", {}, text(value, 600)))])),
      ),
      section("This page", el("p", {}, `Made ${app.meta.made} by fossil-gnn ${app.meta.version}. ${app.meta.kind === "report" ? "It holds all that it shows and asks nobody for anything else." : "It asks fossil explore, on the machine of the run, and nobody else."}`)),
    );
  }

  for (const change of ["view", "run"] as const) app.on(change, show);
  return made;
}
