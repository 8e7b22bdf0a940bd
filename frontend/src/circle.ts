// Where the nodes of a small graph stand: the anchor in the middle, the others around it, pulled by their edges.

import type { Subgraph } from "./data";

const STEPS = 300;

export function onCircle({ rows, edges }: Subgraph): { x: number; y: number }[] {
  const count = rows.length;
  const anchor = count - 1;
  const places = rows.map((_, i) => {
    const angle = (2 * Math.PI * i) / Math.max(count - 1, 1);
    return i === anchor ? { x: 0, y: 0 } : { x: Math.cos(angle), y: Math.sin(angle) };
  });
  // Springs along edges and repulsion between all, as Fruchterman and Reingold have it; few nodes, so all pairs.
  const ideal = 1 / Math.sqrt(count);
  for (let step = 0; step < STEPS; step++) {
    const heat = 0.08 * (1 - step / STEPS);
    const moved = places.map(() => ({ x: 0, y: 0 }));
    for (let i = 0; i < count; i++) {
      for (let j = i + 1; j < count; j++) {
        const [dx, dy] = [places[i]!.x - places[j]!.x, places[i]!.y - places[j]!.y];
        const far = Math.hypot(dx, dy) || 1e-3;
        push(moved, i, j, dx / far, dy / far, (ideal * ideal) / far);
      }
    }
    for (const [i, j] of edges) {
      const [dx, dy] = [places[i]!.x - places[j]!.x, places[i]!.y - places[j]!.y];
      const far = Math.hypot(dx, dy) || 1e-3;
      push(moved, i, j, dx / far, dy / far, -(far * far) / ideal / 4);
    }
    for (let i = 0; i < count; i++) {
      const long = Math.hypot(moved[i]!.x, moved[i]!.y) || 1;
      const far = Math.min(long, heat);
      places[i] = { x: places[i]!.x + (moved[i]!.x / long) * far, y: places[i]!.y + (moved[i]!.y / long) * far };
    }
  }
  return places;
}

function push(moved: { x: number; y: number }[], i: number, j: number, x: number, y: number, force: number): void {
  moved[i]!.x += x * force;
  moved[i]!.y += y * force;
  moved[j]!.x -= x * force;
  moved[j]!.y -= y * force;
}
