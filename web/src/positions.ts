// The positions of all nodes: textures of a step's and of the next step's, between which the shaders interpolate.

import * as THREE from "three";

export const EARTH_KM = 6371;
const WIDE = 256;

/** A texture with four numbers a node. */
export function numbersOf(nodes: number): THREE.DataTexture {
  const high = Math.max(1, Math.ceil(nodes / WIDE));
  const made = new THREE.DataTexture(new Float32Array(4 * WIDE * high), WIDE, high, THREE.RGBAFormat, THREE.FloatType);
  made.needsUpdate = true;
  return made;
}

export class Positions {
  readonly now: THREE.DataTexture;
  readonly then: THREE.DataTexture;

  constructor(nodes: number) {
    [this.now, this.then] = [numbersOf(nodes), numbersOf(nodes)];
  }

  /** Takes the positions of a step and of the next one, ITRF km. */
  put(now: Float32Array, then: Float32Array): void {
    for (const [texture, from] of [[this.now, now], [this.then, then]] as const) {
      const data = texture.image.data as Float32Array;
      for (let i = 0, n = from.length / 3; i < n; i++) {
        data[4 * i] = from[3 * i] / EARTH_KM;
        data[4 * i + 1] = from[3 * i + 1] / EARTH_KM;
        data[4 * i + 2] = from[3 * i + 2] / EARTH_KM;
      }
      texture.needsUpdate = true;
    }
  }

  /** A node's position (Earth's radii) at this share of the step, as the shaders compute it: the radius is interpolated by itself. */
  at(node: number, share: number, out: THREE.Vector3): THREE.Vector3 {
    const [a, b] = [this.now.image.data as Float32Array, this.then.image.data as Float32Array];
    const i = 4 * node;
    out.set(a[i] + (b[i] - a[i]) * share, a[i + 1] + (b[i + 1] - a[i + 1]) * share, a[i + 2] + (b[i + 2] - a[i + 2]) * share);
    const radius = Math.hypot(a[i], a[i + 1], a[i + 2]) * (1 - share) + Math.hypot(b[i], b[i + 1], b[i + 2]) * share;
    return out.setLength(radius);
  }
}
