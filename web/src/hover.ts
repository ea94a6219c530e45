// What is under the pointer, in a few words beside it.

import type { App } from "./app";
import { need } from "./dom";
import { key } from "./frame";
import type { Hit } from "./input";

/** Shows a text beside a point of the window; an empty text hides it. */
export function tip(text: string, x: number, y: number): void {
  const box = need<HTMLElement>("#tip");
  box.hidden = !text;
  if (!text) return;
  box.textContent = text;
  box.style.left = `${Math.max(4, Math.min(x + 12, innerWidth - box.offsetWidth - 8))}px`;
  box.style.top = `${Math.max(4, y + 14)}px`;
}

/** Shows the name of the node or the link under a point of the picture. */
export function hover({ world, links, loads }: App, canvas: HTMLCanvasElement, hit: Hit, x: number, y: number): void {
  const name = (i: number) => world.nodes[i].name;
  canvas.style.cursor = hit.node !== undefined || hit.link ? "pointer" : "grab";
  const at = canvas.getBoundingClientRect();
  let words = "";
  if (hit.node !== undefined) {
    const node = world.nodes[hit.node];
    words = [node.name, node.catalogue_name].filter(Boolean).join(" · ");
  } else if (hit.link) {
    const link = links.between(...hit.link);
    const load = link && loads.get(key(...link.ports));
    words = `${name(hit.link[0])} – ${name(hit.link[1])}${link ? ` · ${link.delayMs.toFixed(2)} ms` : ""}${load === undefined ? "" : ` · ${(100 * load).toFixed(load < 0.1 ? 1 : 0)} % loaded`}`;
  }
  tip(words, x + at.left, y + at.top);
}
