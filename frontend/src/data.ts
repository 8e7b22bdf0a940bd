// What the page asks for, whoever answers: the arrays inside a report file (embedded.ts) or `fossil explore` (served.ts).
// The Python side of the same contract is src/fossil/report/contract.py; the words are the same on both sides.
// Rows number the nodes of the page, 0 to `nodes` - 1: all nodes of the run, or those of a sample.

export interface Source {
  meta(): Promise<Meta>;
  /** x and y of every row, 2 · nodes numbers from -1 to 1, x first. */
  coordinates(run: number): Promise<Float32Array>;
  column(run: number, name: string): Promise<Column>;
  ids(run: number, rows: readonly number[]): Promise<string[]>;
  /** Rows whose id holds the text, best first. */
  find(run: number, text: string, limit: number): Promise<number[]>;
  node(run: number, row: number): Promise<NodeFacts>;
  /** The plan between the subgraphs of two rows; rejects where a report has not kept it. */
  plan(run: number, a: number, b: number): Promise<Plan>;
  /** Some rows of the table of all nodes, by a column or, where its name is empty, as the graph has them; a server's alone. */
  table?(run: number, start: number, count: number, by: string, descending: boolean): Promise<TablePage>;
}

export interface TablePage {
  total: number;
  rows: number[];
  ids: string[];
  /** Names of the columns, by which they are asked for, and what people read. */
  columns: string[];
  titles: string[];
  /** A row of cells for each of `rows`. */
  cells: string[][];
}

export interface Meta {
  format: 1;
  version: string;
  /** `explore` solves any pair; a `report` has the pairs of its list. */
  kind: "report" | "explore";
  made: string;
  runs: RunMeta[];
  scores: Scores | null;
  /** Why there are no scores, where there are none. */
  unscored: string | null;
}

export interface RunMeta {
  name: string;
  graph: string;
  method: string;
  seed: number;
  /** Equal where two runs have the same nodes in the same rows. */
  nodesKey: string;
  nodes: number;
  totalNodes: number;
  edges: number;
  directed: boolean;
  features: number;
  width: number;
  layout: string;
  columns: ColumnMeta[];
  /** What the map is coloured by at first: the name of a column, or null. */
  colour: string | null;
  notes: string[];
  findings: string[];
  encoding: { column: string; role: string; how: string; width: number }[];
  audit: { topic: string; text: string }[];
  summary: { name: string; value: string }[];
  /** One series a recorded number, over `epochs`; null where it was not recorded. */
  training: { epochs: number[]; series: { name: string; values: (number | null)[] }[] };
  subgraphs: { size: number; about: string };
  pairs: Pair[];
  pairsAbout: string;
  probe: Probe | null;
  provenance: { name: string; value: string }[];
  settings: { name: string; value: string; usual: string; meaning: string }[];
}

export interface ColumnMeta {
  name: string;
  title: string;
  about: string;
  kind: "category" | "number";
  /** Names of the categories. */
  names: string[];
  counts: number[];
  missing: number;
  low: number;
  high: number;
}

export type Column =
  /** codes: place in `names`, or -1. */
  | { kind: "category"; codes: Int32Array }
  /** NaN where there is none. */
  | { kind: "number"; values: Float32Array };

export interface NodeFacts {
  row: number;
  id: string;
  degree: number;
  attributes: { name: string; value: string }[];
  /** λ, or how far the node trusts each channel; empty where the method has neither. */
  weights: { name: string; value: number }[];
  inGraph: Neighbours;
  inEmbedding: Neighbours;
  subgraph: Subgraph | null;
}

export interface Neighbours {
  rows: number[];
  ids: string[];
  /** Cosine of the two vectors; NaN where it was not kept. */
  cosines: number[];
  /** How many there are, of which `rows` are the first. */
  total: number;
}

export interface Subgraph {
  /** The anchor stands last. */
  rows: number[];
  ids: string[];
  /** Places in `rows`. */
  edges: [number, number][];
}

export interface Pair {
  a: number;
  b: number;
  aId: string;
  bId: string;
  kind: "positive" | "negative";
  about: string;
  value: number;
}

export interface Plan {
  source: Subgraph;
  target: Subgraph;
  /** Labels of the nodes of each side, places in the column `label`; -1 where there is none. */
  sourceLabels: number[];
  targetLabels: number[];
  /** Row by row, source nodes × target nodes. */
  mass: number[];
  alpha: number;
  /** ⟨M, T⟩, the structure term, and their weighted sum. */
  featureCost: number;
  structureCost: number;
  value: number;
  rowError: number;
  columnError: number;
  about: string;
}

export interface Interval {
  mean: number;
  low: number | null;
  high: number | null;
  about: string;
}

export interface Scores {
  protocol: string[];
  rows: ScoreRow[];
  differences: { graph: string; first: string; second: string; difference: Interval; verdict: string }[];
}

export interface ScoreRow {
  graph: string;
  method: string;
  /** `run`, or what nothing was trained for, or the most frequent class. */
  kind: "run" | "untrained" | "majority";
  accuracy: Interval;
  values: number[];
  macroF1: number;
  published: number | null;
  beaten: boolean;
}

export interface Probe {
  about: string;
  classes: string[];
  /** Row by row: true class × answer, test nodes of all splits. */
  confusion: number[];
  byDegree: { bin: string; tested: number; wrong: number }[];
  byAgreement: { bin: string; tested: number; wrong: number }[];
  worst: { row: number; id: string; truth: string; answer: string; tested: number; wrong: number }[];
}
