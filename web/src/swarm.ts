// Craft of a formation, drawn relative to one of them.

import type * as THREE from "three";
import type { Vector } from "./arcs";
import { formation, picture, relative, roundLength } from "./relative";
import type { World } from "./types";

/** Half of the picture's width and height, and the longest axis, in the coordinates of the views that do not follow the Earth. */
const [WIDE, HIGH, AXIS] = [2.7, 1.2, 0.9];

export class Swarm {
  /** The angles of the eye, degrees. */
  readonly turn = { lon: 25, lat: 18 };
  /** Length of the drawn axes, kilometres. */
  axisKm = 1;
  /** Ends of the axes on the picture: along the track, radial, across the orbit. */
  axes: [number, number][] = [];
  chief: number;
  /** Coordinates a kilometre; 0: not yet known. */
  private scale = 0;

  private constructor(
    private readonly craft: number[],
    private readonly names: string[],
    readonly places: THREE.DataTexture,
  ) {
    this.chief = craft[0];
  }

  /** `null` unless there are two spacecraft. */
  static of(world: World, places: THREE.DataTexture): Swarm | null {
    const craft = world.nodes.flatMap((node, i) => (node.kind === "spacecraft" ? [i] : []));
    return craft.length > 1 ? new Swarm(craft, world.nodes.map((node) => node.name), places) : null;
  }

  /** Places the craft of the chief's formation. The picked craft is the chief; otherwise the chief stays. */
  place(picked: number, at: (node: number) => Vector, now: THREE.DataTexture, then: THREE.DataTexture, spanS: number, unitKm: number): void {
    if (this.craft.includes(picked)) this.chief = picked;
    const own = this.craft.filter((node) => formation(this.names[node]) === formation(this.names[this.chief]));
    const read = (texture: THREE.DataTexture) => Array.from((texture.image.data as Float32Array).subarray(4 * this.chief, 4 * this.chief + 3)) as Vector;
    // The axes turn with the orbit, by a degree in a quarter of a minute: those of the step do for the time until the next.
    const [first, later] = [read(now), read(then)];
    const chief = at(this.chief);
    const shift: Vector = [first[0] - chief[0], first[1] - chief[1], first[2] - chief[2]];
    const others = own.map((node) => at(node).map((one, i) => one + shift[i]) as Vector);
    const offsets = relative(first, later, spanS, others).map((one) => one.map((part) => part * unitKm) as Vector);
    const flat = offsets.map((one) => picture(one, this.turn.lon, this.turn.lat));
    const most = (axis: 0 | 1) => Math.max(...flat.map((one) => Math.abs(one[axis])), 1e-6);
    const fit = Math.min(WIDE / most(0), HIGH / most(1));
    // The scale stays while the craft fit, so that their motion can be seen.
    if (!this.scale || fit < this.scale || fit > 2.5 * this.scale) this.scale = fit / 1.1;
    const { scale } = this;
    const data = this.places.image.data as Float32Array;
    data.fill(0);
    own.forEach((node, i) => data.set([flat[i][0] * scale, flat[i][1] * scale, 0, 1], 4 * node));
    this.places.needsUpdate = true;
    this.axisKm = roundLength(AXIS / scale);
    const axis = this.axisKm;
    const draw = (offset: Vector): [number, number] => {
      const [x, y] = picture(offset, this.turn.lon, this.turn.lat);
      return [x * scale, y * scale];
    };
    this.axes = [draw([axis, 0, 0]), draw([0, axis, 0]), draw([0, 0, axis])];
  }
}
