// A WebGL scatter of all rows, which a mouse or a keyboard can look around in.

import createScatterplot from "regl-scatterplot";
import type { Theme } from "./colours";
import type { Colouring } from "./colouring";
import { el } from "./dom";

type Plot = ReturnType<typeof createScatterplot>;

const BACKGROUND: Record<Theme, string> = { light: "#fdfdfc", dark: "#12151b" };
const MARK: Record<Theme, string> = { light: "#111418", dark: "#ffffff" };

export interface Heard {
  hover(row: number | null): void;
  select(rows: number[]): void;
  open?(row: number): void;
}

export class Scatter {
  readonly element: HTMLElement;
  private readonly canvas = el("canvas", { tabindex: 0, role: "application", "aria-roledescription": "map" });
  private plot: Plot | null = null;
  private coordinates: Float32Array = new Float32Array(0);
  private marked: number | null = null;
  private drawing: Promise<void> = Promise.resolve();
  private asked = 0;
  private readonly resized = new ResizeObserver(() => this.resize());

  constructor(
    label: string,
    private readonly heard: Heard,
  ) {
    this.canvas.setAttribute("aria-label", label);
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.element = el("div", { class: "scatter" }, this.canvas);
  }

  /** Draw when what is being drawn is done; of several that wait, the last alone. */
  draw(coordinates: Float32Array, colours: Colouring, theme: Theme): Promise<void> {
    const mine = ++this.asked;
    this.drawing = this.drawing.then(() => (mine === this.asked ? this.paint(coordinates, colours, theme) : undefined));
    return this.drawing;
  }

  private async paint(coordinates: Float32Array, colours: Colouring, theme: Theme): Promise<void> {
    this.coordinates = coordinates;
    const rows = coordinates.length / 2;
    const { width, height } = this.element.getBoundingClientRect();
    if (!this.plot) {
      if (!el("canvas").getContext("webgl")) throw new Error("The map cannot be drawn: this browser has no WebGL, or it is switched off.");
      this.plot = createScatterplot({
        canvas: this.canvas,
        width: Math.max(width, 50),
        height: Math.max(height, 50),
        spatialIndexUseWorker: false,
        lassoInitiator: false,
        pointSizeSelected: 7,
        pointOutlineWidth: 2,
        deselectOnDblClick: false,
        cameraDistance: 1.08,
      });
      this.plot.subscribe("pointOver", (row: number) => this.heard.hover(row));
      this.plot.subscribe("pointOut", () => this.heard.hover(null));
      this.plot.subscribe("select", ({ points }: { points: number[] }) => this.heard.select(points));
      this.plot.subscribe("deselect", () => this.heard.select([]));
      this.resized.observe(this.element);
    }
    const size = rows > 50_000 ? 2 : rows > 10_000 ? 3 : rows > 2_000 ? 4.5 : rows > 300 ? 6 : 10;
    this.plot.set({
      backgroundColor: BACKGROUND[theme],
      colorBy: "valueA",
      pointColor: colours.colours,
      pointColorActive: MARK[theme],
      pointColorHover: MARK[theme],
      lassoColor: MARK[theme],
      pointSize: size,
      opacity: rows > 20_000 ? 0.65 : 0.85,
    });
    const x = new Float32Array(rows);
    const y = new Float32Array(rows);
    for (let row = 0; row < rows; row++) {
      x[row] = coordinates[2 * row]! * 0.95;
      y[row] = coordinates[2 * row + 1]! * 0.95;
    }
    await this.plot.draw({ x, y, valueA: colours.codes }, { zDataType: "categorical", select: this.marked ?? [] });
    this.element.dataset.points = String((this.plot.get("points") as unknown[]).length);
  }

  mark(row: number | null): void {
    this.marked = row;
    if (!this.plot || !this.element.dataset.points) return;
    if (row === null) this.plot.deselect({ preventEvent: true });
    else this.plot.select([row], { preventEvent: true });
  }

  show(rows: number[] | null): void {
    if (rows === null) this.plot?.unfilter({ preventEvent: true });
    else this.plot?.filter(rows, { preventEvent: true });
  }

  setLasso(on: boolean): void {
    this.plot?.set({ mouseMode: on ? "lasso" : "panZoom" });
  }

  home(): void {
    this.plot?.reset({ preventEvent: true });
  }

  zoom(factor: number): void {
    if (!this.plot) return;
    const [x, y] = this.plot.get("cameraTarget") as [number, number];
    const distance = (this.plot.get("cameraDistance") as number) * factor;
    void this.plot.zoomToLocation([x, y], Math.min(Math.max(distance, 0.005), 4), { transition: true, transitionDuration: 150 });
  }

  resize(): void {
    const { width, height } = this.element.getBoundingClientRect();
    if (width > 50 && height > 50) this.plot?.set({ width, height });
  }

  private key(event: KeyboardEvent): void {
    const steps: Record<string, [number, number]> = {
      ArrowLeft: [-1, 0],
      ArrowRight: [1, 0],
      ArrowUp: [0, 1],
      ArrowDown: [0, -1],
    };
    const step = steps[event.key];
    if (step) this.hop(step);
    else if (event.key === "+" || event.key === "=") this.zoom(0.7);
    else if (event.key === "-") this.zoom(1.4);
    else if (event.key === "0") this.home();
    else if (event.key === "Enter" && this.marked !== null) this.heard.open?.(this.marked);
    else return;
    event.preventDefault();
  }

  /** Go from the marked node to the nearest one in a direction; from none, to the one nearest to the middle. */
  private hop([dx, dy]: [number, number]): void {
    const from = this.marked;
    const [x, y] = from === null ? [0, 0] : [this.coordinates[2 * from]!, this.coordinates[2 * from + 1]!];
    let best = -1;
    let least = Infinity;
    for (let row = 0; row < this.coordinates.length / 2; row++) {
      if (row === from) continue;
      const [px, py] = [this.coordinates[2 * row]! - x, this.coordinates[2 * row + 1]! - y];
      const along = px * dx + py * dy;
      const across = Math.abs(px * dy) + Math.abs(py * dx);
      if (from !== null && along <= across) continue;
      const far = px * px + py * py;
      if (far < least) [least, best] = [far, row];
    }
    if (best >= 0) this.heard.select([best]);
  }
}
