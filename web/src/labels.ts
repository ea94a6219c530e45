// Names over the picture: of nodes on the ground, and of picked nodes.

import type { App } from "./app";
import { el } from "./dom";
import type { Stage } from "./stage";
import { groups, label as words } from "./together";

const MOST = 70;
/** Craft of a swarm that are nearer on the picture are one dot. */
const ONE_DOT_PX = 10;
/** More craft than that are labelled only when they are picked. */
const CRAFT = 200;

export class Labels {
  private readonly pool: HTMLElement[] = [];

  /** Craft of a swarm: few enough to be labelled. */
  private readonly swarm: ReadonlySet<number>;

  constructor(
    private readonly layer: HTMLElement,
    private readonly stage: Stage,
    private readonly app: App,
    private readonly grounds: number[] = stage.world.nodes.flatMap((node, i) => (node.constellation === undefined && node.kind !== "spacecraft" ? [i] : [])),
  ) {
    const craft = stage.world.nodes.flatMap((node, i) => (node.kind === "spacecraft" ? [i] : []));
    this.swarm = new Set(craft.length <= CRAFT ? craft : []);
  }

  draw(): void {
    const { stage, app } = this;
    const picked = new Set(app.pick.nodes.map((name) => app.numbers.get(name) ?? -1));
    const few = stage.world.nodes.length <= 40 ? stage.world.nodes.map((_, i) => i) : [];
    const all = [...picked, ...this.grounds, ...few].filter((i, at, all) => i >= 0 && all.indexOf(i) === at);
    const wanted: [string, [number, number] | null, boolean][] = [];
    for (const i of all) if (!this.swarm.has(i)) wanted.push([stage.world.nodes[i].name, stage.screen(i), picked.has(i)]);
    const craft = [...this.swarm].flatMap((i) => {
      const at = stage.screen(i);
      return at ? [{ name: stage.world.nodes[i].name, x: at[0], y: at[1] }] : [];
    });
    for (const group of groups(craft, ONE_DOT_PX)) wanted.push([words(group), [group[0].x, group[0].y], group.some((one) => app.pick.nodes.includes(one.name))]);
    const taken: [number, number, number][] = [];
    let used = 0;
    for (const [name, at, isPicked] of wanted) {
      if (used >= MOST) break;
      if (!at) continue;
      const wide = 6.4 * name.length + 10;
      const clash = taken.some(([x, y, w]) => Math.abs(y - at[1]) < 14 && at[0] < x + w && x < at[0] + wide);
      if (clash && !isPicked) continue;
      taken.push([at[0], at[1], wide]);
      const label = (this.pool[used] ??= this.layer.appendChild(el("span", { class: "label" })));
      if (label.textContent !== name) label.textContent = name;
      label.classList.toggle("picked", isPicked);
      label.style.transform = `translate(${(at[0] + 8).toFixed(1)}px, ${(at[1] - 8).toFixed(1)}px)`;
      label.hidden = false;
      used++;
    }
    for (let i = used; i < this.pool.length; i++) this.pool[i].hidden = true;
  }
}
