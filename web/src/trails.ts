// A trail behind each satellite: the last piece of its orbit. Positions and direction of flight are on the GPU already, so a trail costs the page nothing.

import * as THREE from "three";
import * as S from "./shaders";
import type { World } from "./types";

export class Trails {
  readonly mesh: THREE.LineSegments;
  readonly count: number;
  private readonly tones: THREE.InstancedBufferAttribute;
  private readonly places: Map<number, number>;

  constructor(uniforms: Record<string, THREE.IUniform>, world: World) {
    const flying = world.nodes.flatMap((node, i) => (node.kind === "satellite" || node.kind === "spacecraft" ? [i] : []));
    this.places = new Map(flying.map((node, place) => [node, place]));
    this.count = flying.length;
    const shape = new THREE.InstancedBufferGeometry();
    const shares: number[] = [];
    for (let i = 0; i < S.TRAIL_PIECES; i++) {
      const [from, to] = [i / S.TRAIL_PIECES, (i + 1) / S.TRAIL_PIECES];
      shares.push(from, to, to, from);
    }
    shape.setAttribute("share", new THREE.BufferAttribute(new Float32Array(shares), 2));
    shape.setAttribute("number", new THREE.InstancedBufferAttribute(Float32Array.from(flying), 1));
    this.tones = new THREE.InstancedBufferAttribute(new Float32Array(3 * flying.length), 3);
    shape.setAttribute("tone", this.tones);
    shape.setDrawRange(0, shares.length / 2);
    shape.instanceCount = flying.length;
    const material = new THREE.RawShaderMaterial({
      glslVersion: THREE.GLSL3,
      uniforms,
      vertexShader: S.TRAIL_VERTEX,
      fragmentShader: S.TRAIL_FRAGMENT,
      transparent: true,
      depthWrite: false,
    });
    this.mesh = new THREE.LineSegments(shape, material);
    this.mesh.renderOrder = 2;
  }

  /** Sets the colour of a node's trail; nodes on the ground have none. */
  tone(node: number, [r, g, b]: number[]): void {
    const place = this.places.get(node);
    if (place === undefined) return;
    this.tones.setXYZ(place, r, g, b);
    this.tones.needsUpdate = true;
  }
}
