// `fossil explore` answers on the origin that the page comes from (frontend/DATA.md).

import type { Column, Meta, NodeFacts, Plan, Source, TablePage } from "./data";

export class ServedSource implements Source {
  private told: Promise<Meta> | null = null;

  meta(): Promise<Meta> {
    this.told ??= ask("meta", {});
    return this.told;
  }

  async coordinates(run: number): Promise<Float32Array> {
    return new Float32Array(await bytes("coordinates", { run }));
  }

  async column(run: number, name: string): Promise<Column> {
    const about = (await this.meta()).runs[run]?.columns.find((column) => column.name === name);
    if (!about) throw new Error(`there is no column ${name}`);
    const found = await bytes("column", { run, name });
    if (about.kind === "category") return { kind: "category", codes: new Int32Array(found) };
    return { kind: "number", values: new Float32Array(found) };
  }

  ids(run: number, rows: readonly number[]): Promise<string[]> {
    return rows.length ? ask("ids", { run, rows: rows.join(",") }) : Promise.resolve([]);
  }

  find(run: number, text: string, limit: number): Promise<number[]> {
    return ask("find", { run, text, limit });
  }

  node(run: number, row: number): Promise<NodeFacts> {
    return ask("node", { run, row });
  }

  plan(run: number, a: number, b: number): Promise<Plan> {
    return ask("transport", { run, a, b });
  }

  table(run: number, start: number, count: number, by: string, descending: boolean): Promise<TablePage> {
    return ask("table", { run, start, count, by, descending: Number(descending) });
  }
}

async function answered(what: string, asked: Record<string, string | number>): Promise<Response> {
  const query = new URLSearchParams(Object.entries(asked).map(([name, value]) => [name, String(value)]));
  // Below the page's own address, which holds the token.
  const found = await fetch(`api/${what}?${query}`);
  if (found.ok) return found;
  const told = (await found.json().catch(() => null)) as { error?: string } | null;
  throw new Error(told?.error ?? `${found.status} ${found.statusText}`);
}

async function ask<T>(what: string, asked: Record<string, string | number>): Promise<T> {
  return (await answered(what, asked)).json() as Promise<T>;
}

async function bytes(what: string, asked: Record<string, string | number>): Promise<ArrayBuffer> {
  return (await answered(what, asked)).arrayBuffer();
}
