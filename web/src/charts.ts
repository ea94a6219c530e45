// Curves (uPlot): with zoom, and saved as CSV and PNG.

import uPlot from "uplot";
import { csv, type Curve, type Drawn, type Value, zoomed } from "./curves";
import { el } from "./dom";
import { onPaper, type Palette, rem, shade } from "./palette";

/** A chart over lab time; a click shows that instant, a drag zooms. */
export function chart(...of: Parameters<typeof living>): HTMLElement {
  return living(...of).box;
}

/** The size of a chart before it has a place in the page, and its height there, in `rem`. */
const [WIDE, HIGH] = [27.7, 12.4];

const DASHES = [[], [7, 3], [2, 3], [10, 3, 2, 3]];

/** How a curve is drawn. Curves differ by their dashes and points too, never by their colour alone. */
function style({ style }: Curve, i: number): uPlot.Series {
  if (style === "points") return { paths: () => null, points: { show: true, size: 7, width: 2 } };
  const line = { width: 1.5, dash: DASHES[(i + Math.floor(i / 4)) % DASHES.length], points: { show: false } };
  return style === "steps" ? { ...line, paths: uPlot.paths.stepped?.({ align: 1 }) } : line;
}

function download(href: string, title: string, ending: string): void {
  const name = title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
  el("a", { href, download: `${name}.${ending}` }).click();
}

/** Saves bytes as a file. */
export function save(parts: BlobPart[], type: string, title: string, ending: string): void {
  const url = URL.createObjectURL(new Blob(parts, { type }));
  download(url, title, ending);
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** Axes and curves of a chart. `text` is the size of its words in pixels. */
function options(drawn: Drawn, palette: Palette, size: { width: number; height: number }, text: number): uPlot.Options {
  const { unit, curves } = drawn;
  const colours = [palette.kinds[0], palette.kinds[1], palette.kinds[3], palette.good].map(onPaper);
  const lines = curves.filter((curve) => curve.style !== "points");
  const [ink, line] = [shade("--soft"), shade("--line")];
  const axis = { stroke: ink, font: `${text}px system-ui, sans-serif`, labelFont: `${text}px system-ui, sans-serif`, labelSize: 1.4 * text, grid: { stroke: line }, ticks: { stroke: line } };
  return {
    ...size,
    scales: { x: { time: false } },
    axes: [
      { ...axis, label: "lab time (s)", labelGap: 0, size: 2.2 * text, values: (_, all) => all.map((s) => String(Number(s.toPrecision(8)))) },
      { ...axis, label: unit, size: 4.2 * text },
    ],
    legend: { live: true },
    series: [
      { label: "lab time", value: (_, v) => (v === null || v === undefined ? "-" : `${v.toFixed(1)} s`) },
      ...curves.map((curve) => ({
        label: curve.name,
        stroke: curve.style === "points" ? onPaper(palette.bad) : colours[lines.indexOf(curve) % colours.length],
        ...style(curve, lines.indexOf(curve)),
        spanGaps: false,
        value: (_: uPlot, v: number | null) => (v === null || v === undefined ? "-" : v.toPrecision(5)),
      })),
    ],
  };
}

const aligned = (t: number[], values: Value[][]): uPlot.AlignedData => [t, ...values] as uPlot.AlignedData;

/** Saves a chart as a picture of 1200 pixels with its title, axes and names of curves. */
function picture(title: string, name: string, drawn: Drawn, palette: Palette, range: [number, number] | null): void {
  const [wide, high, text, head] = [1200, 520, 22, 48];
  const { curves } = drawn;
  const ratio = window.devicePixelRatio || 1;
  const made = options(drawn, palette, { width: wide / ratio, height: high / ratio }, text / ratio);
  const finished = (own: uPlot) => {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [wide, head + high + 34 * curves.length + 16];
    const pen = canvas.getContext("2d");
    if (!pen) return;
    pen.fillStyle = shade("--panel");
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.drawImage(own.ctx.canvas, 0, head, wide, high);
    pen.fillStyle = shade("--text");
    pen.font = "600 24px system-ui, sans-serif";
    pen.fillText(title, 16, 32);
    pen.font = "22px system-ui, sans-serif";
    curves.forEach((curve, i) => {
      const y = head + high + 34 * i + 20;
      const { stroke, dash, points } = own.series[i + 1];
      pen.strokeStyle = typeof stroke === "function" ? String(stroke(own, i + 1)) : String(stroke);
      pen.lineWidth = 4;
      pen.setLineDash((dash ?? []).map((one) => 2 * one));
      pen.beginPath();
      if (curve.style === "points" && points) pen.arc(56, y - 7, 7, 0, 7);
      else {
        pen.moveTo(16, y - 7);
        pen.lineTo(96, y - 7);
      }
      pen.stroke();
      pen.fillText(`${curve.name} (${drawn.unit})`, 112, y);
    });
    download(canvas.toDataURL("image/png"), name, "png");
    own.destroy();
  };
  made.legend = { show: false };
  made.hooks = { draw: [(own) => queueMicrotask(() => finished(own))] };
  if (range) made.scales = { x: { time: false, range: () => range } };
  new uPlot(made, aligned(drawn.t, curves.map((curve) => curve.values)), el("div", {}));
}

/** A chart, and the function that gives it other values of the same curves. */
export function living(
  title: string,
  unit: string,
  t: number[],
  curves: Curve[],
  palette: Palette,
  go: (t: number) => void,
): { box: HTMLElement; set: (t: number[], values: Value[][]) => void } {
  const drawn: Drawn = { unit, t, curves };
  /** The part of the time that is shown; null: all of it. */
  let range: [number, number] | null = null;
  const text = 0.84 * rem();
  const place = el("div", { role: "img", "aria-label": `${title}, ${unit}, over lab time` });
  function extent(): [number, number] {
    return [drawn.t[0] ?? 0, drawn.t.at(-1) ?? 1];
  }
  const zoom = (by: number) => {
    const to = zoomed(range ?? extent(), extent(), by) ?? extent();
    if (to[1] > to[0]) plot.setScale("x", { min: to[0], max: to[1] });
  };
  const button = (label: string, words: string, act: () => void, is = "") => el("button", { class: is, "aria-label": `${words}: ${title}`, title: words, onclick: act }, label);
  const all = button("all", "show all of it", () => zoom(Infinity));
  all.disabled = true;
  const buttons = el(
    "span",
    { class: "tools" },
    button("+", "zoom in", () => zoom(0.5)),
    button("−", "zoom out", () => zoom(2)),
    all,
    button("CSV", "save as CSV", () => save([csv(drawn)], "text/csv", title, "csv"), "csv"),
    button("PNG", "save as PNG", () => picture(`${title} (${unit})`, title, drawn, palette, range), "png"),
  );
  const plot = new uPlot(
    {
      ...options(drawn, palette, { width: WIDE * rem(), height: HIGH * rem() }, text),
      hooks: {
        ready: [
          (own) =>
            own.over.addEventListener("click", () => {
              const at = own.posToVal(own.cursor.left ?? 0, "x");
              if (Number.isFinite(at)) go(at);
            }),
        ],
        // A drag, and a double click for all of it again.
        setScale: [
          (own, key) => {
            const { min, max } = own.scales.x;
            if (key !== "x" || min === undefined || max === undefined || min === null || max === null) return;
            range = zoomed([min, max], extent(), 1);
            all.disabled = range === null;
          },
        ],
      },
    },
    aligned(t, curves.map((curve) => curve.values)),
    place,
  );
  const caption = el("figcaption", {}, el("span", {}, `${title} (${unit})`), buttons);
  // A chart is as wide as its caption, which follows the window. The height of the caption does not depend on the plot, so this ends.
  new ResizeObserver(([{ contentRect }]) => {
    if (contentRect.width) plot.setSize({ width: Math.floor(contentRect.width), height: HIGH * rem() });
  }).observe(caption);
  const box = el("figure", { class: "chart", "data-whole": "" }, caption, place);
  const set = (now: number[], values: Value[][]) => {
    drawn.t = now;
    drawn.curves = drawn.curves.map((curve, i) => ({ ...curve, values: values[i] }));
    const kept = range;
    plot.setData(aligned(now, values), kept === null);
    if (kept) plot.setScale("x", { min: kept[0], max: kept[1] });
  };
  return { box, set };
}
