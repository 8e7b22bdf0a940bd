// From a column to a colour for each row, and to the legend that explains it.

import { classColours, MISSING, ramp, type Theme } from "./colours";
import type { Column, ColumnMeta } from "./data";

export interface Colouring {
  /** Place in `colours` of each row; 0 says that there is nothing to say. */
  codes: Int32Array;
  colours: string[];
  about: ColumnMeta | null;
}

export function colouring(about: ColumnMeta | null, column: Column | null, rows: number, theme: Theme): Colouring {
  if (!about || !column) {
    return { codes: new Int32Array(rows).fill(1), colours: [MISSING[theme], classColours(1, theme)[0]!], about: null };
  }
  if (column.kind === "category") {
    const colours = [MISSING[theme], ...classColours(about.names.length, theme)];
    return { codes: column.codes.map((code) => code + 1), colours, about };
  }
  const colours = [MISSING[theme], ...ramp(theme)];
  const steps = colours.length - 1;
  const reach = about.high - about.low || 1;
  // Numbers such as degrees crowd at their low end; on a scale of logarithms they can be told apart.
  const logarithmic = isLogarithmic(about);
  const place = (value: number) =>
    logarithmic ? Math.log1p(value - about.low) / Math.log1p(reach) : (value - about.low) / reach;
  const codes = Int32Array.from(column.values, (value) =>
    Number.isNaN(value) ? 0 : 1 + Math.min(steps - 1, Math.floor(place(value) * steps)),
  );
  return { codes, colours, about };
}

export function isLogarithmic(about: ColumnMeta): boolean {
  return about.name === "degree" && about.high > 20;
}
