// Scores: how they were made, in words; accuracies with their intervals beside what nothing was trained for; mistakes.

import type { App } from "./app";
import type { Interval, Probe, ScoreRow, Scores } from "./data";
import { el, fitted, number, percent, replace, section, svg, table, text } from "./dom";

export function scoresView(app: App): HTMLElement {
  const made = el("div", { class: "scores-view" });

  function show(): void {
    if (app.view !== "scores") return;
    const { scores, unscored } = app.meta;
    const { probe } = app.about;
    replace(
      made,
      scores
        ? section("Accuracy", ...scores.protocol.map((words) => el("p", {}, words)), ladder(scores.rows), accuracyTable(scores.rows))
        : section("No scores", el("p", {}, text(unscored ?? "", 600))),
      scores && differences(scores),
      ...(probe ? mistakes(app, probe) : []),
    );
  }

  for (const change of ["view", "run", "theme"] as const) app.on(change, show);
  return made;
}

const NAMES = { run: "run", untrained: "nothing trained", majority: "most frequent class" };

/** Means as dots, intervals as bars, raw values as ticks. */
function ladder(rows: ScoreRow[]): SVGElement {
  const [wide, name, row] = [900, 290, 34];
  // The most frequent class is often far below: then an arrow says so, and the others have the room.
  const shown = rows.filter(({ kind }) => kind !== "majority");
  const ends = shown.flatMap(({ accuracy, values }) => [accuracy.mean, accuracy.low ?? accuracy.mean, accuracy.high ?? accuracy.mean, ...values]);
  const low = Math.max(0, Math.min(...ends) - 0.03);
  const high = Math.min(1, Math.max(...ends) + 0.03);
  const x = (value: number) => name + ((value - low) / (high - low || 1)) * (wide - name - 90);
  const height = rows.length * row + 40;
  const drawn = svg("svg", { viewBox: `0 0 ${wide} ${height}`, class: "ladder", role: "img", "aria-label": `Accuracies: ${rows.map((each) => `${each.method.slice(0, 60)} ${percent(each.accuracy.mean)}`).join(", ")}` });
  const step = high - low > 0.4 ? 0.1 : high - low > 0.12 ? 0.05 : 0.01;
  for (let tick = Math.ceil(low / step) * step; tick <= high + 1e-9; tick += step) {
    drawn.append(
      svg("line", { class: "grid", x1: x(tick), x2: x(tick), y1: 4, y2: height - 26 }),
      svg("text", { class: "tick", x: x(tick), y: height - 8, "text-anchor": "middle" }, `${Math.round(100 * tick)} %`),
    );
  }
  rows.forEach(({ method, kind, accuracy, values }, i) => {
    const y = 20 + i * row;
    const short = fitted(method, name - 24, `${kind === "run" ? 650 : 400} 13px`);
    const title = short === method ? null : svg("title", {}, method.slice(0, 2000));
    drawn.append(svg("text", { x: name - 14, y: y + 4, "text-anchor": "end", class: kind }, title, short));
    for (const value of values) drawn.append(svg("line", { class: "raw", x1: x(value), x2: x(value), y1: y - 6, y2: y + 6 }));
    if (accuracy.low !== null && accuracy.high !== null) {
      drawn.append(svg("line", { class: `bar ${kind}`, x1: x(accuracy.low), x2: x(accuracy.high), y1: y, y2: y }));
    }
    const below = accuracy.mean < low;
    drawn.append(
      below
        ? svg("path", { class: `dot ${kind}`, d: `M${name},${y} l10,-6 v12 z` })
        : svg("circle", { class: `dot ${kind}`, cx: x(accuracy.mean), cy: y, r: 6 }),
      svg("text", { x: wide - 76, y: y + 4, class: `value ${kind}` }, percent(accuracy.mean, 2)),
    );
  });
  return drawn;
}

function accuracyTable(rows: ScoreRow[]): HTMLElement {
  return table(
    ["graph", "what", "kind", "accuracy", "interval", "macro F1", "published"],
    rows.map((row) => [
      text(row.graph, 30),
      [text(row.method, 70), row.beaten && el("strong", { title: "It does not beat what nothing was trained for" }, " †")],
      NAMES[row.kind],
      percent(row.accuracy.mean, 2),
      interval(row.accuracy),
      percent(row.macroF1, 2),
      row.published === null ? "–" : `${row.published.toFixed(2)} %`,
    ]),
    rows.some((row) => row.beaten) ? "Accuracy on test nodes; † does not beat what nothing was trained for" : "Accuracy on test nodes",
    [3, 5, 6],
  );
}

export function interval({ low, high, about }: Interval): string {
  return low === null || high === null ? about : `${percent(low, 2)} to ${percent(high, 2)}, ${about}`;
}

export function differences(scores: Scores): HTMLElement | false {
  if (!scores.differences.length) return false;
  return section(
    "Paired differences",
    el("p", { class: "quiet" }, "The same splits for both, value by value. Where the interval holds zero, these splits do not tell the two apart."),
    table(
      ["graph", "first", "minus", "points", "interval", "verdict"],
      scores.differences.map(({ graph, first, second, difference, verdict }) => [
        text(graph, 30),
        text(first, 60),
        text(second, 60),
        signed(difference.mean),
        difference.low === null || difference.high === null ? difference.about : `${signed(difference.low)} to ${signed(difference.high)}`,
        text(verdict, 120),
      ]),
      "Differences in accuracy, in percentage points",
      [3],
    ),
  );
}

function signed(value: number): string {
  const points = (100 * value).toFixed(2);
  return value > 0 ? `+${points}` : points.replace("-", "−");
}

function mistakes(app: App, probe: Probe): HTMLElement[] {
  return [
    section("What the probe gets wrong", el("p", {}, probe.about), probe.classes.length > 0 && confusion(probe)),
    section(
      "Where it is wrong",
      el("div", { class: "columns two" }, shares("By degree", "degree", probe.byDegree), shares("By how many neighbours share the class", "share", probe.byAgreement)),
    ),
    section(
      "Nodes it gets wrong most often",
      probe.worst.length
        ? table(
            ["node", "its class", "the answer", "wrong"],
            probe.worst.map((each) => [
              each.row >= 0
                ? el("button", { type: "button", class: "link", click: () => (app.select(each.row), app.open("node")) }, text(each.id, 40))
                : text(each.id, 40),
              text(each.truth, 40),
              text(each.answer, 40),
              `${each.wrong} of ${each.tested}`,
            ]),
            "Nodes that the probe gets wrong, worst first",
            [3],
          )
        : el("p", {}, "None."),
    ),
  ];
}

function confusion({ classes, confusion: counts }: Probe): HTMLElement {
  const size = classes.length;
  const totals = classes.map((_, i) => counts.slice(i * size, (i + 1) * size).reduce((sum, each) => sum + each, 0));
  const made = el(
    "table",
    { class: "confusion" },
    el("caption", {}, "Rows: the class of a node. Columns: the answer. Percent of the row; darker is more."),
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "class \\ answer"), ...classes.map((name) => el("th", { scope: "col" }, text(name, 14))))),
    el(
      "tbody",
      {},
      ...classes.map((name, i) =>
        el(
          "tr",
          {},
          el("th", { scope: "row" }, text(name, 24)),
          ...classes.map((_, j) => {
            const count = counts[i * size + j]!;
            const share = count / Math.max(totals[i]!, 1);
            const cell = el("td", { class: i === j ? "right" : "wrong", title: `${number(count)} of ${number(totals[i]!)}` }, count ? (100 * share).toFixed(share < 0.1 ? 1 : 0) : "");
            cell.style.setProperty("--share", share.toFixed(3));
            cell.dataset.strong = String(share > 0.55);
            return cell;
          }),
        ),
      ),
    ),
  );
  return el("div", { class: "table", tabindex: 0, role: "region", "aria-label": "Confusion matrix" }, made);
}

function shares(title: string, head: string, bins: Probe["byDegree"]): HTMLElement {
  return el(
    "div",
    {},
    el("h3", {}, title),
    ...bins.map(({ bin, tested, wrong }) => {
      const bar = el("span", { class: "bar error", "aria-hidden": "true" });
      bar.style.setProperty("--share", String(wrong / Math.max(tested, 1)));
      return el(
        "div",
        { class: "weight", title: `${number(wrong)} of ${number(tested)} answers are wrong` },
        el("span", {}, bin, el("span", { class: "unseen" }, ` ${head}`)),
        bar,
        el("span", { class: "number" }, `${percent(wrong / Math.max(tested, 1))} of ${number(tested)}`),
      );
    }),
  );
}
