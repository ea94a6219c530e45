// The sky of a draft: its first step, with the paths of its flows.

import { App } from "./app";
import type { City } from "./cities";
import { el, need } from "./dom";
import { read } from "./frame";
import { attach } from "./input";
import { Labels } from "./labels";
import { legend } from "./legend";
import { PALETTES } from "./palette";
import { Stage } from "./stage";
import type { DraftPlan } from "./types";
import { type View } from "./views";

const OFFERED: View[] = ["globe", "map", "topology"];

interface Drawn {
  app: App;
  stage: Stage;
  labels: Labels;
  nodes: string;
}

function bytes(hex: string): ArrayBuffer {
  const all = new Uint8Array(hex.length / 2);
  for (let i = 0; i < all.length; i++) all[i] = parseInt(hex.slice(2 * i, 2 * i + 2), 16);
  return all.buffer;
}

export class Preview {
  cities: City[] = [];
  private drawn: Drawn | null = null;
  private view: View = "globe";

  /** `ground` is called with the latitude and longitude of a click on the ground, `ready` when the cities are known. */
  constructor(
    private readonly ground: (lat: number, lon: number) => void,
    private readonly ready: () => void,
  ) {
    for (const view of OFFERED) need(`#view-${view}`).addEventListener("click", () => this.look(view));
    new ResizeObserver(() => this.drawn?.stage.resize()).observe(need("#picture"));
    const draw = () => {
      const { drawn } = this;
      if (drawn?.stage.draw(0, null)) drawn.labels.draw();
      if (drawn && !this.cities.length && drawn.stage.cities.length) {
        this.cities = drawn.stage.cities;
        this.ready();
      }
      requestAnimationFrame(draw);
    };
    requestAnimationFrame(draw);
    this.show(null);
  }

  private look(view: View): void {
    this.view = view;
    for (const one of OFFERED) need(`#view-${one}`).setAttribute("aria-pressed", String(one === view));
    if (!this.drawn) return;
    this.drawn.stage.view = view;
    Object.assign(this.drawn.stage.flat, { x: 0, y: 0, zoom: 1 });
    this.drawn.stage.dirty = true;
  }

  /** A picture for other nodes than the last: textures and shapes have the size of their number. */
  private begin(world: DraftPlan["world"], nodes: string): Drawn {
    const before = this.drawn?.stage;
    const canvas = el("canvas", { id: "stage", tabIndex: 0, "aria-label": need("#stage").getAttribute("aria-label") ?? "" });
    need("#stage").replaceWith(canvas);
    const app = new App(world);
    const stage = new Stage(canvas, world, app.links, PALETTES[0]);
    if (before) {
      Object.assign(stage.eye, before.eye);
      before.end();
    }
    stage.view = this.view;
    attach(stage, app, () => {}, () => {}, this.ground);
    const labels = new Labels(need("#labels"), stage, app);
    stage.resize();
    return { app, stage, labels, nodes };
  }

  /** Shows a plan; without one, the bare globe. */
  show(plan: DraftPlan | null): void {
    const world = plan?.world ?? NOTHING;
    const nodes = JSON.stringify([world.nodes, world.constellations]);
    if (this.drawn?.nodes !== nodes) this.drawn = this.begin(world, nodes);
    const { app, stage } = this.drawn;
    if (plan) {
      const frame = read(bytes(plan.step_hex));
      app.links.apply({ ...frame, whole: true });
      stage.positions(frame.now ?? frame.then, frame.then, frame.sun, (frame.thenNs - frame.tNs) / 1e9);
      stage.relink(() => false);
      const { path } = stage.palette;
      const hops = plan.flows.flatMap((flow) => flow.nodes.slice(1).map((to, i) => ({ a: app.numbers.get(flow.nodes[i]) ?? 0, b: app.numbers.get(to) ?? 0, colour: path, width: 2.2, dash: 0 })));
      stage.mark(hops);
    } else stage.positions(new Float32Array(0), new Float32Array(0), [1, 0, 0], 1);
    legend(need("#legend"), stage.palette, stage, world);
    this.look(this.view);
  }
}

/** What is shown before there is a plan. */
const NOTHING: DraftPlan["world"] = {
  constel: "", mode: "plan", name: "", file: "", description: "", start_ms: 0, step_ns: 1e9, duration_ns: 1e9, max_lateness_ns: 0,
  networks: [], may_write: false, may_shell: false, nodes: [], link_kinds: [], constellations: [], flows: [], warnings: [],
};
