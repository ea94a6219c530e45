// Mouse, touch and keys on the picture.

import type { App } from "./app";
import { nearest } from "./arcs";
import { Stage } from "./stage";

const NEAR = 12;

export interface Hit {
  node?: number;
  link?: [number, number];
}

/** What is under a point of the canvas. */
export function hit(stage: Stage, x: number, y: number): Hit {
  let [best, node] = [NEAR * NEAR, -1];
  const places = stage.world.nodes.map((_, i) => stage.screen(i));
  places.forEach((place, i) => {
    if (!place) return;
    // Nodes on the ground are drawn above satellites.
    const far = (place[0] - x) ** 2 + (place[1] - y) ** 2 - (stage.world.nodes[i].constellation === undefined ? 20 : 0);
    if (far < best) [best, node] = [far, i];
  });
  if (node >= 0) return { node };
  let link: [number, number] | undefined;
  best = 36;
  const under = stage.under(x, y);
  for (const one of stage.table.all.values()) {
    const [p, q] = [places[one.a], places[one.b]];
    if (!p || !q) continue;
    let at: [number, number];
    if (stage.view === "map" && under) at = stage.onMap(nearest(stage.at(one.a).toArray(), stage.at(one.b).toArray(), under));
    else {
      const [dx, dy] = [q[0] - p[0], q[1] - p[1]];
      const share = Math.min(1, Math.max(0, ((x - p[0]) * dx + (y - p[1]) * dy) / Math.max(1e-6, dx * dx + dy * dy)));
      at = [p[0] + share * dx, p[1] + share * dy];
    }
    const far = (at[0] - x) ** 2 + (at[1] - y) ** 2;
    if (far < best) [best, link] = [far, [one.a, one.b]];
  }
  return link ? { link } : {};
}

/** `ground` is called with the latitude and longitude of a click that meets no node and no link. */
export function attach(stage: Stage, app: App, hover: (hit: Hit, x: number, y: number) => void, moved: () => void, ground?: (latDeg: number, lonDeg: number) => void): void {
  const canvas = stage.canvas;
  const touches = new Map<number, [number, number]>();
  let [dragged, apart] = [0, 0];
  const move = (dx: number, dy: number) => {
    stage.let();
    if (stage.view === "swarm" && stage.swarm) {
      const { turn } = stage.swarm;
      turn.lon = (turn.lon - 0.4 * dx) % 360;
      turn.lat = Math.min(89, Math.max(-89, turn.lat + 0.4 * dy));
    } else if (stage.view === "globe") {
      const scale = (0.16 * (stage.eye.far - 0.8)) / 1.6;
      stage.eye.lon = ((stage.eye.lon - dx * scale + 540) % 360) - 180;
      stage.eye.lat = Math.min(89, Math.max(-89, stage.eye.lat + dy * scale));
    } else {
      const scale = 2 * Math.min(1 / 3.25, 1) * stage.flat.zoom;
      stage.flat.x = Math.min(3.2, Math.max(-3.2, stage.flat.x - (dx / canvas.clientWidth) * (4 / scale)));
      stage.flat.y = Math.min(1.8, Math.max(-1.8, stage.flat.y + (dy / canvas.clientWidth) * (4 / scale)));
    }
    stage.dirty = true;
    moved();
  };
  const zoom = (by: number) => {
    stage.let();
    if (stage.view === "globe") stage.eye.far = Math.min(24, Math.max(1.12, 1 + (stage.eye.far - 1) * by));
    else stage.flat.zoom = Math.min(30, Math.max(0.7, stage.flat.zoom / by));
    stage.dirty = true;
    moved();
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    touches.set(event.pointerId, [event.offsetX, event.offsetY]);
    dragged = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = touches.get(event.pointerId);
    if (!before) {
      hovering(event.offsetX, event.offsetY);
      return;
    }
    const [dx, dy] = [event.offsetX - before[0], event.offsetY - before[1]];
    touches.set(event.pointerId, [event.offsetX, event.offsetY]);
    if (touches.size === 1) {
      dragged += Math.abs(dx) + Math.abs(dy);
      if (dragged > 4) move(dx, dy);
      return;
    }
    const [p, q] = [...touches.values()];
    const now = Math.hypot(p[0] - q[0], p[1] - q[1]);
    if (apart > 0 && now > 0) zoom(apart / now);
    apart = now;
    dragged += 10;
  });
  const up = (event: PointerEvent) => {
    const was = touches.delete(event.pointerId);
    apart = 0;
    if (!was || dragged > 4 || event.type !== "pointerup") return;
    const found = hit(stage, event.offsetX, event.offsetY);
    const name = (i: number) => stage.world.nodes[i].name;
    if (found.node !== undefined) {
      if (event.shiftKey || event.ctrlKey || event.metaKey) app.extend(name(found.node));
      else app.choose([name(found.node)]);
    } else if (found.link) app.choose(found.link.map(name));
    else if (ground) {
      const under = stage.under(event.offsetX, event.offsetY);
      if (under) ground((Math.asin(under[2]) * 180) / Math.PI, (Math.atan2(under[1], under[0]) * 180) / Math.PI);
    } else app.choose([]);
  };
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", up);
  let last = 0;
  const hovering = (x: number, y: number) => {
    if (performance.now() - last < 60) return;
    last = performance.now();
    hover(hit(stage, x, y), x, y);
  };
  canvas.addEventListener("pointerleave", () => hover({}, 0, 0));
  canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      zoom(Math.exp(Math.sign(event.deltaY) * Math.min(60, Math.abs(event.deltaY)) * 0.002));
    },
    { passive: false },
  );
  canvas.addEventListener("keydown", (event) => {
    const by: Record<string, () => void> = {
      ArrowLeft: () => move(40, 0),
      ArrowRight: () => move(-40, 0),
      ArrowUp: () => move(0, 40),
      ArrowDown: () => move(0, -40),
      "+": () => zoom(0.85),
      "=": () => zoom(0.85),
      "-": () => zoom(1.18),
      Escape: () => app.choose([]),
    };
    if (!by[event.key]) return;
    event.preventDefault();
    by[event.key]();
  });
}
