// Curves (uPlot).

import uPlot from "uplot";
import { el } from "./dom";
import type { Palette } from "./palette";

export interface Curve {
  name: string;
  values: (number | null)[];
  colour?: string;
  points?: boolean;
}

/** A chart over lab time; a click shows that instant. */
export function chart(...of: Parameters<typeof living>): HTMLElement {
  return living(...of).box;
}

/** The same, and how to give it other values of the same curves. */
export function living(
  title: string,
  unit: string,
  t: number[],
  curves: Curve[],
  palette: Palette,
  go: (t: number) => void,
  wide = 360,
): { box: HTMLElement; set: (t: number[], values: (number | null)[][]) => void } {
  const box = el("figure", { class: "chart", role: "img", "aria-label": `${title}, ${unit}, over lab time` }, el("figcaption", {}, `${title} (${unit})`));
  const colours = [palette.kinds[0], palette.kinds[1], palette.kinds[3], palette.good];
  const plot = new uPlot(
    {
      width: wide,
      height: 150,
      scales: { x: { time: false } },
      axes: [
        { stroke: "#9fb3c8", grid: { stroke: "#1c2b3b" }, ticks: { stroke: "#1c2b3b" }, size: 26, values: (_, all) => all.map((s) => `${s} s`) },
        { stroke: "#9fb3c8", grid: { stroke: "#1c2b3b" }, ticks: { stroke: "#1c2b3b" }, size: 48 },
      ],
      legend: { live: true },
      series: [
        { label: "t", value: (_, v) => (v === null ? "" : `${v.toFixed(1)} s`) },
        ...curves.map((curve, i) => ({
          label: curve.name,
          stroke: curve.colour ?? colours[i % colours.length],
          width: 1.5,
          points: { show: curve.points ?? false, size: 4 },
          spanGaps: false,
          value: (_: uPlot, v: number | null) => (v === null ? "none" : v.toPrecision(5)),
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
    box,
  );
  return { box, set: (t, values) => plot.setData([t, ...values] as uPlot.AlignedData) };
}
