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
    return kept(this.columns, `${run}/${name}`, () => this.source.column(run, name));
  }

  coordinates(run: number): Promise<Float32Array> {
    return kept(this.placed, run, () => this.source.coordinates(run));
  }

  private tell(change: Change): void {
    this.heard.get(change)?.forEach((react) => react());
  }
}

/** What was asked for before, or is asked for now; an answer that failed is asked for again the next time. */
function kept<K, V>(answers: Map<K, Promise<V>>, key: K, ask: () => Promise<V>): Promise<V> {
  const known = answers.get(key) ?? ask();
  answers.set(key, known);
  known.catch(() => answers.delete(key));
  return known;
}
