// The sky of a station: north is up, the zenith in the middle, the mask a ring, with the reason for each satellite.

import { el, svg, table } from "./dom";
import { onPaper, type Palette } from "./palette";
import type { NodeState } from "./types";
import { fixed } from "./words";

export function skyPlot(node: NodeState, palette: Palette, choose: (name: string) => void): HTMLElement {
  const [size, middle] = [300, 150];
  const radius = (elevation: number) => ((90 - elevation) / 90) * 128;
  const plot = svg("svg", { viewBox: `0 0 ${size} ${size}`, class: "skyplot", role: "img" });
  plot.append(svg("title", {}, `The sky of ${node.name}: ${node.sky?.length ?? 0} satellites above the horizon`));
  const ring = (elevation: number, extra: Record<string, string | number> = {}) =>
    svg("circle", { cx: middle, cy: middle, r: radius(elevation), class: "ring", ...extra });
  plot.append(svg("circle", { cx: middle, cy: middle, r: radius(0), class: "dome" }), ring(0), ring(30), ring(60));
  if (node.mask_deg !== undefined && node.mask_deg !== null) plot.append(ring(node.mask_deg, { class: "mask" }));
  plot.append(
    svg("line", { x1: middle, y1: middle - 128, x2: middle, y2: middle + 128, class: "ring" }),
    svg("line", { x1: middle - 128, y1: middle, x2: middle + 128, y2: middle, class: "ring" }),
  );
  for (const [word, x, y] of [["N", middle, 14], ["E", size - 10, middle + 4], ["S", middle, size - 5], ["W", 10, middle + 4]] as const) {
    plot.append(svg("text", { x, y, class: "compass" }, word));
  }
  for (const seen of [...(node.sky ?? [])].reverse()) {
    const turn = (seen.azimuth_deg * Math.PI) / 180;
    const [x, y] = [middle + radius(seen.elevation_deg) * Math.sin(turn), middle - radius(seen.elevation_deg) * Math.cos(turn)];
    const usable = seen.elevation_deg >= (node.mask_deg ?? 0);
    const dot = svg("circle", {
      cx: x.toFixed(1),
      cy: y.toFixed(1),
      r: seen.up ? 6 : 3.5,
      fill: seen.up ? onPaper(palette.good) : usable ? onPaper(palette.kinds[0]) : "none",
      stroke: seen.up ? "var(--text)" : onPaper(palette.kinds[0]),
      "stroke-width": seen.up ? 1.5 : 1,
      class: "seen",
      onclick: () => choose(seen.name),
    });
    dot.append(svg("title", {}, `${seen.name}: ${fixed(seen.elevation_deg, 1)}° up, ${seen.range_km.toFixed(0)} km\n${seen.why}`));
    plot.append(dot);
    if (seen.up) plot.append(svg("text", { x: x > 190 ? x - 9 : x + 9, y: y + 4, "text-anchor": x > 190 ? "end" : "start" }, seen.name));
  }
  const rows = (node.sky ?? []).slice(0, 60).map((seen) => [
    el("button", { class: "name", onclick: () => choose(seen.name) }, seen.name),
    `${fixed(seen.elevation_deg, 1)}°`,
    `${fixed(seen.azimuth_deg, 0)}°`,
    el("span", { class: seen.up ? "good" : "" }, seen.why),
  ]);
  return el("div", {}, plot as unknown as Node, table(["Satellite", "Elevation", "Azimuth", "Reason"], rows, "Above the horizon, highest first"));
}
