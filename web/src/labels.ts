// Names over the picture: of nodes on the ground, picked nodes, the satellites at close zoom, cities, planes and slots, and a swarm's axes.

import { Vector3 } from "three";
import type { App } from "./app";
import { direction, named } from "./cities";
import { el, svg } from "./dom";
import { spread } from "./grid";
import type { Stage } from "./stage";
import { rem } from "./palette";
import { type Named, type Place, placed } from "./places";
import { groups, label as words } from "./together";

const MOST = 90;
/** Craft of a swarm that are nearer on the picture are one dot. */
const ONE_DOT_PX = 10;
/** More craft than that are labelled only when they are picked. */
const CRAFT = 200;
/** So few satellites on the picture are labelled. They stay so until there are more by half. */
const FEW = 40;
/** From this zoom on; at 1 all of the Earth is on the picture. */
const CLOSE = 1.4;
/** Of more satellites than that, the page counts those on the picture at close zoom only. */
const COUNTED = 2000;

export class Labels {
  private readonly pool: HTMLElement[] = [];
  /** Craft of a swarm: few enough to be labelled. */
  private readonly swarm: ReadonlySet<number>;
  private readonly grounds: number[];
  private readonly satellites: number[];
  private isClose = false;
  private readonly axes = ["along the track", "away from the Earth", "across the orbit"].map((name) => ({ name, line: svg("line", {}) }));
  private readonly drawing = svg("svg", { class: "axes" });

  constructor(
    private readonly layer: HTMLElement,
    private readonly stage: Stage,
    private readonly app: App,
  ) {
    const { nodes } = stage.world;
    const all = nodes.map((_, i) => i);
    this.grounds = all.filter((i) => (nodes[i].constellation ?? null) === null && nodes[i].kind !== "spacecraft");
    this.satellites = all.filter((i) => (nodes[i].constellation ?? null) !== null && nodes[i].kind !== "spacecraft");
    const craft = all.filter((i) => nodes[i].kind === "spacecraft");
    this.swarm = new Set(craft.length <= CRAFT ? craft : []);
    this.drawing.append(...this.axes.map(({ line }) => line));
    layer.replaceChildren(this.drawing);
  }

  private at(node: number): Place | null {
    const at = this.stage.screen(node);
    const { clientWidth: w, clientHeight: h } = this.layer;
    return at && at[0] > -20 && at[0] < w + 20 && at[1] > -10 && at[1] < h + 10 ? at : null;
  }

  /** The satellites on the picture, if they are few. */
  private close(): [number, Place][] {
    const { stage } = this;
    const zoom = stage.view === "globe" ? 2.9 / Math.max(0.05, stage.eye.far - 1) : stage.flat.zoom;
    const least = this.satellites.length > COUNTED ? 4 : stage.view === "topology" ? 0 : CLOSE;
    if (zoom < least) {
      this.isClose = false;
      return [];
    }
    const most = this.isClose ? 1.5 * FEW : FEW;
    const seen: [number, Place][] = [];
    for (const node of this.satellites) {
      const at = this.at(node);
      if (!at) continue;
      seen.push([node, at]);
      if (seen.length > most) {
        this.isClose = false;
        return [];
      }
    }
    this.isClose = true;
    return seen;
  }

  private nodes(): Named[] {
    const { stage, app } = this;
    const name = (i: number) => stage.world.nodes[i].name;
    const picked = app.pick.nodes.map((name) => app.numbers.get(name) ?? -1).filter((i) => i >= 0);
    const wanted: Named[] = picked.filter((i) => !this.swarm.has(i)).map((i) => ({ name: name(i), at: this.at(i), is: "picked" }));
    for (const i of this.grounds) if (!picked.includes(i)) wanted.push({ name: name(i), at: this.at(i), is: "" });
    const craft = [...this.swarm].flatMap((i) => {
      const at = this.at(i);
      return at ? [{ name: name(i), x: at[0], y: at[1] }] : [];
    });
    for (const group of groups(craft, ONE_DOT_PX)) wanted.push({ name: words(group), at: [group[0].x, group[0].y], is: group.some((one) => app.pick.nodes.includes(one.name)) ? "picked" : "" });
    for (const [i, at] of this.close()) if (!picked.includes(i)) wanted.push({ name: name(i), at, is: "" });
    return wanted;
  }

  private readonly scratch = new Vector3();

  private cities(): Named[] {
    const { stage } = this;
    const most = named(stage.view, stage.eye.far, stage.flat.zoom);
    return stage.cities.slice(0, most).map((city) => ({ name: city[0], at: stage.onScreen(this.scratch.set(...direction(city))), is: "city" }));
  }

  /** Planes below, slots on the left; as many as there is room for. */
  private lines(): Named[] {
    const { stage } = this;
    const [x0, y0] = stage.pixels(0, 0);
    const [x1, y1] = stage.pixels(1, 1);
    const planes = spread(stage.grid.planes, Math.abs(x1 - x0), 84).map(({ at, title }): Named => ({ name: title, at: stage.pixels(at, -1.06), is: "axis" }));
    const slots = spread(stage.grid.slots, Math.abs(y1 - y0), 18).map(({ at, title }): Named => ({ name: title, at: [Math.max(2, stage.pixels(-3.02, at)[0] - 52), stage.pixels(0, at)[1]], is: "axis" }));
    return [...planes, ...slots];
  }

  /** The directions of a swarm's picture, as long as a round number of kilometres. */
  private directions(): Named[] {
    const { stage } = this;
    const { swarm } = stage;
    const isShown = stage.view === "swarm" && swarm !== null;
    this.drawing.toggleAttribute("hidden", !isShown);
    if (!isShown) return [];
    const from = stage.pixels(0, 0);
    return swarm.axes.map(([x, y], i) => {
      const to = stage.pixels(x, y);
      const line = this.axes[i].line;
      for (const [name, value] of [["x1", from[0]], ["y1", from[1]], ["x2", to[0]], ["y2", to[1]]] as const) line.setAttribute(name, value.toFixed(1));
      const length = swarm.axisKm < 1 ? `${swarm.axisKm * 1e3} m` : `${swarm.axisKm} km`;
      return { name: `${this.axes[i].name}, ${length}`, at: to, is: "axis" };
    });
  }

  draw(): void {
    const view = this.stage.view;
    const wanted = [...this.nodes(), ...this.directions(), ...(view === "topology" ? this.lines() : []), ...this.cities()];
    const { clientWidth: w, clientHeight: h } = this.layer;
    const shown = placed(wanted, [w, h], rem(), MOST);
    shown.forEach(({ name, is, x, y, isLeft }, i) => {
      const label = (this.pool[i] ??= this.layer.appendChild(el("span", { class: "label" })));
      if (label.textContent !== name) label.textContent = name;
      if (label.dataset.is !== is) label.dataset.is = is;
      label.dataset.side = isLeft ? "left" : "right";
      label.style.transform = `translate(${x.toFixed(1)}px, ${(y - 8).toFixed(1)}px)${isLeft ? " translateX(-100%)" : ""}`;
      label.hidden = false;
    });
    for (let i = shown.length; i < this.pool.length; i++) this.pool[i].hidden = true;
  }
}
