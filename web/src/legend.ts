// What the colours of links mean.

import { el, fill } from "./dom";
import type { Palette } from "./palette";
import type { Stage } from "./stage";
import type { World } from "./types";
import type { Shade } from "./views";

/** The ends of a scale, as text. */
function ends(shade: Shade, [low, high]: [number, number]): [string, string] {
  switch (shade) {
    case "delay":
      return [`${low} ms`, `${high} ms`];
    case "rate":
      return ["0", "10 Gbit/s"];
    case "loss":
      return ["0 %", "11 %"];
    default:
      return ["0 %", "100 % of the rate, over two seconds"];
  }
}

export function legend(box: Element, palette: Palette, stage: Stage, world: World): void {
  const spot = (colour: string, words: string, shape = "line") => el("span", { class: "key" }, el("i", { class: shape, style: `background:${colour}` }), words);
  // Links of a plan cannot be failed by hand.
  const hand = world.mode === "plan" ? null : spot(palette.bad, "failed by hand");
  if (stage.shade === "kind") {
    const there = new Set([...stage.table.all.values()].map((link) => link.kind));
    const kinds = world.link_kinds.flatMap((kind, i) => (there.has(i) ? [spot(palette.kinds[i], kind)] : []));
    const ground = world.nodes.some((node) => (node.constellation ?? null) === null && node.kind !== "spacecraft");
    fill(box, ...kinds, hand, ground ? spot(palette.kinds[1], "on the ground", "diamond") : null);
    return;
  }
  const [low, high] = ends(stage.shade, stage.delays.limits);
  const title = { delay: "one-way delay", rate: "rate", loss: "loss", load: "load" }[stage.shade];
  fill(box, el("span", { class: "key" }, `${title}: ${low}`, el("i", { class: "scale", style: `background:linear-gradient(90deg,${palette.scale.join(",")})` }), high), hand);
}
