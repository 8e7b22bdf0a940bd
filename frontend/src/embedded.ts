// A report file answers from the arrays inside it (frontend/DATA.md).

import MiniSearch from "minisearch";
import type { Column, Meta, Neighbours, NodeFacts, Plan, RunMeta, Source, Subgraph } from "./data";
import { number } from "./dom";

interface Packed {
  dtype: "u8" | "u16" | "u32";
  length: number;
  step?: number;
  data: string;
}

type Numbers = Uint8Array | Uint16Array | Uint32Array;

const LARGEST = { u8: 0xff, u16: 0xffff, u32: 0xffffffff };

export class EmbeddedSource implements Source {
  private readonly told: Meta = JSON.parse(block("meta"));
  private readonly packed: Record<string, Packed> = JSON.parse(block("arrays"));
  private readonly plans: Record<string, Plan> = JSON.parse(block("plans"));
  private readonly unpacked = new Map<string, Promise<Numbers>>();
  private readonly indexes = new Map<number, Promise<Index>>();
  private readonly drawn = new Map<number, Promise<Map<number, number>>>();

  meta(): Promise<Meta> {
    return Promise.resolve(this.told);
  }

  async coordinates(run: number): Promise<Float32Array> {
    const [x, y] = await Promise.all([this.array(`${run}/x`), this.array(`${run}/y`)]);
    const placed = new Float32Array(2 * x.length);
    for (let row = 0; row < x.length; row++) {
      placed[2 * row] = (x[row]! / 65535) * 2 - 1;
      placed[2 * row + 1] = (y[row]! / 65535) * 2 - 1;
    }
    return placed;
  }

  async column(run: number, name: string): Promise<Column> {
    const place = this.run(run).columns.findIndex((column) => column.name === name);
    const about = this.run(run).columns[place];
    if (!about) throw new Error(`there is no column ${name}`);
    const [key, packed] = [`${run}/column/${place}`, this.packed[`${run}/column/${place}`]!];
    const steps = await this.array(key);
    const none = LARGEST[packed.dtype];
    if (about.kind === "category") {
      return { kind: "category", codes: Int32Array.from(steps, (code) => (code === none ? -1 : code)) };
    }
    const step = packed.step ?? 1;
    return { kind: "number", values: Float32Array.from(steps, (each) => (each === none ? NaN : about.low + each * step)) };
  }

  async ids(run: number, rows: readonly number[]): Promise<string[]> {
    const all = await this.index(run);
    return rows.map((row) => all.ids[row] ?? "");
  }

  async find(run: number, sought: string, limit: number): Promise<number[]> {
    const { ids, search } = await this.index(run);
    const wanted = sought.trim().toLowerCase();
    if (!wanted) return [];
    const found: number[] = [];
    const seen = new Set<number>();
    const take = (row: number) => {
      if (!seen.has(row) && found.length < limit) found.push(row);
      seen.add(row);
    };
    for (let row = 0; row < ids.length; row++) if (ids[row]!.toLowerCase() === wanted) take(row);
    for (let row = 0; row < ids.length && found.length < limit; row++) {
      if (ids[row]!.toLowerCase().startsWith(wanted)) take(row);
    }
    for (let row = 0; row < ids.length && found.length < limit; row++) {
      if (ids[row]!.toLowerCase().includes(wanted)) take(row);
    }
    // Words in another order, or with a letter wrong.
    if (found.length < limit) for (const hit of search().search(sought)) take(hit.id as number);
    return found;
  }

  async node(run: number, row: number): Promise<NodeFacts> {
    const about = this.run(run);
    const [{ ids }, degrees, steps] = await Promise.all([
      this.index(run),
      this.array(`${run}/degrees`),
      Promise.all(about.columns.map((_, place) => this.array(`${run}/column/${place}`))),
    ]);
    const attributes: NodeFacts["attributes"] = [];
    const weights: NodeFacts["weights"] = [];
    about.columns.forEach((column, i) => {
      const packed = this.packed[`${run}/column/${i}`]!;
      const step = steps[i]![row]!;
      const none = step === LARGEST[packed.dtype];
      const value = none ? NaN : column.low + step * (packed.step ?? 1);
      if (column.name === "lambda" || column.name.startsWith("channel:")) {
        const name = column.name === "lambda" ? "λ" : column.name.slice("channel:".length);
        weights.push({ name, value });
      } else {
        const said = column.kind === "number" ? number(value, 6) : none ? "unknown" : column.names[step]!;
        attributes.push({ name: column.title, value: said });
      }
    });
    return {
      row,
      id: ids[row] ?? "",
      degree: degrees[row] ?? 0,
      attributes,
      weights,
      inGraph: await this.inGraph(run, row, ids, degrees[row] ?? 0),
      inEmbedding: await this.inEmbedding(run, row, ids),
      subgraph: await this.subgraph(run, row, ids),
    };
  }

  plan(run: number, a: number, b: number): Promise<Plan> {
    const found = this.plans[`${run}/${a}/${b}`];
    return found ? Promise.resolve(found) : Promise.reject(new Error("a report keeps the pairs of its list alone"));
  }

  private async inGraph(run: number, row: number, ids: string[], total: number): Promise<Neighbours> {
    const [counts, kept, steps] = await Promise.all(
      ["counts", "rows", "cosines"].map((part) => this.array(`${run}/graph/${part}`)),
    ) as [Numbers, Numbers, Numbers];
    let start = 0;
    for (let before = 0; before < row; before++) start += counts[before]!;
    const end = start + (counts[row] ?? 0);
    const rows = Array.from(kept.subarray(start, end));
    const cosines = Array.from(steps.subarray(start, end), cosine);
    return { rows, ids: rows.map((each) => ids[each] ?? ""), cosines, total };
  }

  private async inEmbedding(run: number, row: number, ids: string[]): Promise<Neighbours> {
    const [near, cosines] = await Promise.all([this.array(`${run}/near/rows`), this.array(`${run}/near/cosines`)]);
    const each = near.length / Math.max(this.run(run).nodes, 1);
    const rows = Array.from(near.subarray(row * each, (row + 1) * each));
    const values = Array.from(cosines.subarray(row * each, (row + 1) * each), cosine);
    return { rows, ids: rows.map((one) => ids[one] ?? ""), cosines: values, total: rows.length };
  }

  private async subgraph(run: number, row: number, ids: string[]): Promise<Subgraph | null> {
    const place = (await this.places(run)).get(row);
    if (place === undefined) return null;
    const [rows, bits] = await Promise.all([this.array(`${run}/subgraphs/rows`), this.array(`${run}/subgraphs/edges`)]);
    const size = this.run(run).subgraphs.size;
    const nodes = [...rows.subarray(place * (size - 1), (place + 1) * (size - 1)), row];
    const stride = Math.ceil((size * (size - 1)) / 16);
    const edges: [number, number][] = [];
    let bit = 0;
    for (let i = 0; i < size; i++) {
      for (let j = i + 1; j < size; j++, bit++) {
        if ((bits[place * stride + (bit >> 3)]! >> (7 - (bit & 7))) & 1) edges.push([i, j]);
      }
    }
    return { rows: nodes, ids: nodes.map((one) => ids[one] ?? ""), edges };
  }

  /** Where among the kept subgraphs that of a row is. */
  private places(run: number): Promise<Map<number, number>> {
    let known = this.drawn.get(run);
    if (!known) {
      known = this.array(`${run}/subgraphs/filled`).then((filled) => {
        const places = new Map<number, number>();
        filled.forEach((has, row) => has && places.set(row, places.size));
        return places;
      });
      this.drawn.set(run, known);
    }
    return known;
  }

  private index(run: number): Promise<Index> {
    let known = this.indexes.get(run);
    if (!known) {
      known = Promise.all([this.array(`${run}/ids`), this.array(`${run}/ids/lengths`)]).then(
        ([bytes, lengths]) => new Index(bytes as Uint8Array, lengths),
      );
      this.indexes.set(run, known);
    }
    return known;
  }

  private run(run: number): RunMeta {
    const found = this.told.runs[run];
    if (!found) throw new Error(`there is no run ${run}`);
    return found;
  }

  private array(name: string): Promise<Numbers> {
    let known = this.unpacked.get(name);
    if (!known) {
      const packed = this.packed[name];
      known = packed ? unpack(packed) : Promise.reject(new Error(`the page has no ${name}`));
      this.unpacked.set(name, known);
    }
    return known;
  }
}

class Index {
  readonly ids: string[] = [];
  private made: MiniSearch | null = null;

  constructor(bytes: Uint8Array, lengths: Numbers) {
    const decoder = new TextDecoder("utf-8", { ignoreBOM: true }); // an id may begin with that sign
    let start = 0;
    for (const length of lengths) {
      this.ids.push(decoder.decode(bytes.subarray(start, start + length)));
      start += length;
    }
    this.search = this.search.bind(this);
  }

  /** Made when it is first asked for: most searches are answered by how an id begins. */
  search(): MiniSearch {
    if (!this.made) {
      this.made = new MiniSearch({ fields: ["text"], searchOptions: { prefix: true, fuzzy: 0.2, combineWith: "AND" } });
      this.made.addAll(this.ids.map((id, row) => ({ id: row, text: id.slice(0, 200) })));
    }
    return this.made;
  }
}

function cosine(step: number): number {
  return (step / 255) * 2 - 1;
}

async function unpack(packed: Packed): Promise<Numbers> {
  const text = atob(packed.data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const planes = new Uint8Array(await new Response(stream).arrayBuffer());
  if (packed.dtype === "u8") return planes;
  const n = packed.length;
  if (packed.dtype === "u16") return Uint16Array.from({ length: n }, (_, i) => planes[i]! | (planes[n + i]! << 8));
  const wide = new Uint32Array(n);
  for (let i = 0; i < n; i++) {
    wide[i] = (planes[i]! | (planes[n + i]! << 8) | (planes[2 * n + i]! << 16) | (planes[3 * n + i]! << 24)) >>> 0;
  }
  return wide;
}

function block(id: string): string {
  return document.getElementById(id)?.textContent ?? "null";
}
