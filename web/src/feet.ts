// The areas on the ground that satellites cover, above their stations' mask.

import * as THREE from "three";

/** As many as the shader of the Earth has. */
const MOST = 4;

export interface Foot {
  node: number;
  maskDeg: number;
}

export class Feet {
  private all: Foot[] = [];

  constructor(private readonly uniforms: Record<string, THREE.IUniform>) {}

  cover(feet: Foot[]): void {
    this.all = feet.slice(0, MOST);
  }

  /** Moves the areas below their satellites: directions, and the cosine of the angle seen from the Earth's centre. */
  put(at: (node: number) => THREE.Vector3, colour: [number, number, number]): void {
    const feet = this.uniforms.uFoot.value as THREE.Vector4[];
    feet.forEach((foot, i) => {
      const of = this.all[i];
      const p = of ? at(of.node) : null;
      if (!of || !p || !Number.isFinite(p.x)) {
        foot.set(0, 0, 1, -2);
        return;
      }
      const radius = p.length();
      const mask = (of.maskDeg * Math.PI) / 180;
      const angle = Math.acos(Math.min(1, Math.cos(mask) / radius)) - mask;
      p.normalize();
      foot.set(p.x, p.y, p.z, Math.cos(angle));
    });
    this.uniforms.uFootColour.value.set(...colour);
  }
}
