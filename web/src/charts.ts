// Curves (uPlot).

import uPlot from "uplot";
import { csv, type Curve, type Drawn, type Value } from "./curves";
import { el } from "./dom";
import { onPaper, type Palette, shade } from "./palette";

/** A chart over lab time; a click shows that instant. */
export function chart(...of: Parameters<typeof living>): HTMLElement {
  return living(...of).box;
}

/** How a curve is drawn. Curves differ by their dashes and points too, never by their colour alone. */
function style({ style }: Curve, i: number): uPlot.Series {
  const dashes = [[], [7, 3], [2, 3], [10, 3, 2, 3]];
  if (style === "points") return { paths: () => null, points: { show: true, size: 7, width: 2 } };
  const line = { width: 1.5, dash: dashes[i % dashes.length], points: { show: false } };
  return style === "steps" ? { ...line, paths: uPlot.paths.stepped?.({ align: 1 }) } : line;
}

/** Saves a chart's values as a file. */
function save(title: string, drawn: Drawn): void {
  const url = URL.createObjectURL(new Blob([csv(drawn)], { type: "text/csv" }));
  const name = title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
  el("a", { href: url, download: `${name}.csv` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** A chart, and the function that gives it other values of the same curves. */
export function living(
  title: string,
  unit: string,
  t: number[],
  curves: Curve[],
  palette: Palette,
  go: (t: number) => void,
  wide = 360,
): { box: HTMLElement; set: (t: number[], values: Value[][]) => void } {
  const drawn: Drawn = { unit, t, curves };
  const button = el("button", { class: "csv", "aria-label": `save ${title} as CSV`, title: "save as CSV", onclick: () => save(title, drawn) }, "CSV");
  const picture = el("div", { role: "img", "aria-label": `${title}, ${unit}, over lab time` });
  const box = el("figure", { class: "chart", "data-whole": "" }, el("figcaption", {}, el("span", {}, `${title} (${unit})`), button), picture);
  const colours = [palette.kinds[0], palette.kinds[1], palette.kinds[3], palette.good].map(onPaper);
  const lines = curves.filter((curve) => curve.style !== "points");
  const [text, line] = [shade("--soft"), shade("--line")];
  const plot = new uPlot(
    {
      width: wide,
      height: 150,
      scales: { x: { time: false } },
      axes: [
        { stroke: text, grid: { stroke: line }, ticks: { stroke: line }, size: 26, values: (_, all) => all.map((s) => `${s} s`) },
        { stroke: text, grid: { stroke: line }, ticks: { stroke: line }, size: 48 },
      ],
      legend: { live: true },
      series: [
        { label: "lab time", value: (_, v) => (v === null || v === undefined ? "" : `${v.toFixed(1)} s`) },
        ...curves.map((curve) => ({
          label: curve.name,
          stroke: curve.style === "points" ? onPaper(palette.bad) : colours[lines.indexOf(curve) % colours.length],
          ...style(curve, lines.indexOf(curve)),
          spanGaps: false,
          value: (_: uPlot, v: number | null) => (v === null || v === undefined ? "none" : v.toPrecision(5)),
        })),
      ],
      hooks: {
        ready: [
          (own) => {
            own.over.addEventListener("click", () => {
              const at = own.posToVal(own.cursor.left ?? 0, "x");
              if (Number.isFinite(at)) go(at);
            });
          },
        ],
      },
    },
    [t, ...curves.map((curve) => curve.values)] as uPlot.AlignedData,
    picture,
  );
  const set = (now: number[], values: Value[][]) => {
    drawn.t = now;
    drawn.curves = drawn.curves.map((curve, i) => ({ ...curve, values: values[i] }));
    plot.setData([now, ...values] as uPlot.AlignedData);
  };
  return { box, set };
}
