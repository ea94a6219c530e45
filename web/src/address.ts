// The view as an address, so that it can be shared and comes back with the next load. No browser is needed.

import type { Pick } from "./app";
import type { Eye } from "./aim";
import { SHADES, type Shade, type View, VIEWS } from "./views";

export interface Viewed {
  view: View;
  shade: Shade;
  /** Lab time, seconds; null while a lab's present is followed. */
  t: number | null;
  pick: Pick;
  eye: Eye;
  flat: { x: number; y: number; zoom: number };
}

const numbers = (all: number[]) => all.map((one) => one.toFixed(2)).join(" ");

/** The part of an address after `#`. */
export function written({ view, shade, t, pick, eye, flat }: Viewed): string {
  const of = new URLSearchParams({ view });
  if (shade !== "kind") of.set("links", shade);
  if (t !== null) of.set("t", t.toFixed(1));
  if (pick.nodes.length) of.set(pick.path ? "path" : "pick", pick.nodes.join(" "));
  of.set("eye", view === "globe" ? numbers([eye.lon, eye.lat, eye.far]) : numbers([flat.x, flat.y, flat.zoom]));
  return of.toString();
}

/** The view of an address, as far as it has one. Nodes that are not `known` are left out. */
export function parsed(hash: string, isKnown: (node: string) => boolean): Partial<Viewed> {
  const of = new URLSearchParams(hash.replace(/^#/, ""));
  const found: Partial<Viewed> = {};
  const [view, shade] = [VIEWS.find((one) => one === of.get("view")), SHADES.find((one) => one === of.get("links"))];
  if (view) found.view = view;
  if (shade) found.shade = shade;
  const eye = (of.get("eye") ?? "").split(" ").map(Number);
  if (eye.length === 3 && eye.every(Number.isFinite)) {
    if ((view ?? "globe") === "globe") found.eye = { lon: eye[0], lat: eye[1], far: eye[2] };
    else found.flat = { x: eye[0], y: eye[1], zoom: eye[2] };
  }
  const t = Number(of.get("t"));
  if (of.has("t") && Number.isFinite(t) && t >= 0) found.t = t;
  const picked = of.get("path") ?? of.get("pick");
  if (picked !== null) {
    const nodes = picked.split(" ").filter(isKnown).slice(0, 2);
    found.pick = { nodes, path: of.has("path") && nodes.length === 2 };
  }
  return found;
}
