// The future track of a satellite.

import * as THREE from "three";
import * as S from "./shaders";

export class Track {
  readonly line: THREE.Line;

  constructor(private readonly uniforms: Record<string, THREE.IUniform>) {
    const material = new THREE.RawShaderMaterial({
      glslVersion: THREE.GLSL3,
      uniforms,
      vertexShader: S.TRACK_VERTEX,
      fragmentShader: S.TRACK_FRAGMENT,
      transparent: true,
      depthWrite: false,
    });
    this.line = new THREE.Line(new THREE.BufferGeometry(), material);
    this.line.renderOrder = 3;
    this.line.visible = false;
  }

  /** Shows a track of points, three numbers each; null for none. */
  show(itrfKm: number[] | null, unitKm: number, tone: [number, number, number]): void {
    this.line.visible = !!itrfKm && itrfKm.length > 3;
    if (!itrfKm || itrfKm.length < 6) return;
    const n = itrfKm.length / 3;
    const at = Float32Array.from(itrfKm, (km) => km / unitKm);
    const before = new Float32Array(at.length);
    before.set(at.subarray(0, 3));
    before.set(at.subarray(0, at.length - 3), 3);
    const shape = this.line.geometry;
    shape.setAttribute("position", new THREE.BufferAttribute(at, 3));
    shape.setAttribute("before", new THREE.BufferAttribute(before, 3));
    shape.setAttribute("share", new THREE.BufferAttribute(Float32Array.from({ length: n }, (_, i) => i / n), 1));
    this.uniforms.uTint.value.set(...tone);
  }
}
