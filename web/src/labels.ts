// Names over the picture: of what stands, and of what is picked.

import type { App } from "./app";
import { el } from "./dom";
import type { Stage } from "./stage";

const MOST = 70;

export class Labels {
  private readonly pool: HTMLElement[] = [];

  constructor(
    private readonly layer: HTMLElement,
    private readonly stage: Stage,
    private readonly app: App,
    private readonly grounds: number[] = stage.world.nodes.flatMap((node, i) => (node.constellation === undefined && node.kind !== "spacecraft" ? [i] : [])),
  ) {}

  draw(): void {
    const { stage, app } = this;
    const picked = new Set(app.pick.nodes.map((name) => app.numbers.get(name) ?? -1));
    const few = stage.world.nodes.length <= 40 ? stage.world.nodes.map((_, i) => i) : [];
    const wanted = [...picked, ...this.grounds, ...few].filter((i, at, all) => i >= 0 && all.indexOf(i) === at);
    const taken: [number, number, number][] = [];
    let used = 0;
    for (const i of wanted) {
      if (used >= MOST) break;
      const at = stage.screen(i);
      if (!at) continue;
      const name = stage.world.nodes[i].name;
      const wide = 6.4 * name.length + 10;
      const clash = taken.some(([x, y, w]) => Math.abs(y - at[1]) < 14 && at[0] < x + w && x < at[0] + wide);
      if (clash && !picked.has(i)) continue;
      taken.push([at[0], at[1], wide]);
      const label = (this.pool[used] ??= this.layer.appendChild(el("span", { class: "label" })));
      if (label.textContent !== name) label.textContent = name;
      label.classList.toggle("picked", picked.has(i));
      label.style.transform = `translate(${(at[0] + 8).toFixed(1)}px, ${(at[1] - 8).toFixed(1)}px)`;
      label.hidden = false;
      used++;
    }
    for (let i = used; i < this.pool.length; i++) this.pool[i].hidden = true;
  }
}
