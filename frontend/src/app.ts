// What the views share: the source, which run and which node is looked at, the theme, and who wants to hear of changes.

import type { Theme } from "./colours";
import type { Column, Meta, RunMeta, Source } from "./data";

type Change = "node" | "theme" | "run" | "view" | "pair";

export type ViewName = "map" | "nodes" | "node" | "transport" | "training" | "scores" | "data" | "compare" | "provenance";

export class App {
  run = 0;
  node: number | null = null;
  pair: { a: number; b: number } | null = null;
  view: ViewName = "map";
  theme: Theme;
  private readonly heard = new Map<Change, Set<() => void>>();
  private readonly columns = new Map<string, Promise<Column>>();
  private readonly placed = new Map<number, Promise<Float32Array>>();

  constructor(
    readonly source: Source,
    readonly meta: Meta,
  ) {
    const dark = window.matchMedia("(prefers-color-scheme: dark)");
    this.theme = dark.matches ? "dark" : "light";
    dark.addEventListener("change", () => this.setTheme(dark.matches ? "dark" : "light"));
    document.documentElement.dataset.theme = this.theme;
  }

  get about(): RunMeta {
    return this.meta.runs[this.run]!;
  }

  on(change: Change, react: () => void): void {
    const known = this.heard.get(change) ?? new Set();
    known.add(react);
    this.heard.set(change, known);
  }

  setTheme(theme: Theme): void {
    this.theme = theme;
    document.documentElement.dataset.theme = theme;
    this.tell("theme");
  }

  select(row: number | null): void {
    if (row === this.node) return;
    this.node = row;
    this.tell("node");
  }

  open(view: ViewName): void {
    this.view = view;
    this.tell("view");
  }

  compare(a: number, b: number): void {
    this.pair = { a, b };
    this.tell("pair");
  }

  setRun(run: number): void {
    const same = this.meta.runs[run]!.nodesKey === this.about.nodesKey;
    this.run = run;
    this.pair = null;
    if (!same) this.node = null;
    this.tell("run");
  }

  column(run: number, name: string): Promise<Column> {
    const key = `${run}/${name}`;
    const known = this.columns.get(key) ?? this.source.column(run, name);
    this.columns.set(key, known);
    return known;
  }

  coordinates(run: number): Promise<Float32Array> {
    const known = this.placed.get(run) ?? this.source.coordinates(run);
    this.placed.set(run, known);
    return known;
  }

  private tell(change: Change): void {
    this.heard.get(change)?.forEach((react) => react());
  }
}
