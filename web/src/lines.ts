// Lines between nodes, as the picture draws them.

import * as THREE from "three";
import * as S from "./shaders";

/** Lines between nodes: one draw call, whatever their number. */
export class Lines {
  readonly mesh: THREE.Mesh;
  private geometry = Lines.shape();
  private room = 0;
  count = 0;

  constructor(uniforms: Record<string, THREE.IUniform>, order: number, depth: boolean) {
    const material = new THREE.RawShaderMaterial({
      glslVersion: THREE.GLSL3,
      uniforms,
      vertexShader: S.LINK_VERTEX,
      fragmentShader: S.LINK_FRAGMENT,
      transparent: true,
      depthWrite: false,
      depthTest: depth,
      side: THREE.DoubleSide,
    });
    this.mesh = new THREE.Mesh(this.geometry, material);
    this.mesh.frustumCulled = false;
    this.mesh.renderOrder = order;
  }

  /** The shape of which each line is an instance: a quad, then two strips of pieces for the map, where lines bend and may come in on the other side. */
  private static shape(): THREE.InstancedBufferGeometry {
    const shape = new THREE.InstancedBufferGeometry();
    const corners: number[] = [];
    const index: number[] = [];
    const strip = (pieces: number, copy: number) => {
      const first = corners.length / 3;
      for (let i = 0; i <= pieces; i++) corners.push(i / pieces, -1, copy, i / pieces, 1, copy);
      for (let at = first; at < first + 2 * pieces; at += 2) index.push(at, at + 1, at + 2, at + 2, at + 1, at + 3);
    };
    strip(1, 0);
    strip(S.PIECES, 0);
    strip(S.PIECES, 1);
    shape.setAttribute("corner", new THREE.BufferAttribute(new Float32Array(corners), 3));
    shape.setIndex(index);
    shape.instanceCount = 0;
    return shape;
  }

  /** Whether lines are drawn in pieces, or as one quad each. */
  bend(pieces: boolean): void {
    if (pieces) this.geometry.setDrawRange(6, 12 * S.PIECES);
    else this.geometry.setDrawRange(0, 6);
  }

  put(count: number, write: (i: number, ends: Float32Array, tint: Float32Array, style: Float32Array) => void): void {
    if (count > this.room || this.room === 0) {
      this.room = Math.max(64, Math.ceil(count * 1.3));
      // A shape remembers how many instances its first attributes had room for: a larger one is another.
      this.geometry.dispose();
      this.geometry = Lines.shape();
      this.mesh.geometry = this.geometry;
      for (const [name, size] of [["ends", 2], ["tint", 4], ["style", 2]] as const) {
        const attribute = new THREE.InstancedBufferAttribute(new Float32Array(this.room * size), size);
        this.geometry.setAttribute(name, attribute.setUsage(THREE.DynamicDrawUsage));
      }
    }
    const of = (name: string) => this.geometry.getAttribute(name) as THREE.InstancedBufferAttribute;
    const [ends, tint, style] = ["ends", "tint", "style"].map((name) => of(name).array as Float32Array);
    for (let i = 0; i < count; i++) write(i, ends, tint, style);
    for (const name of ["ends", "tint", "style"]) of(name).needsUpdate = true;
    this.geometry.instanceCount = count;
    this.count = count;
  }
}
