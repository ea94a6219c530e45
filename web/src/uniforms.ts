// The values that all shaders of the picture share.

import * as THREE from "three";

export function uniforms(now: THREE.DataTexture, then: THREE.DataTexture, grid: THREE.DataTexture): Record<string, THREE.IUniform> {
  const empty = new THREE.DataTexture(new Uint8Array(4), 1, 1);
  empty.needsUpdate = true;
  const none = () => new THREE.Vector4(0, 0, 1, -2);
  return {
    uNow: { value: now },
    uThen: { value: then },
    uGrid: { value: grid },
    uSpan: { value: 1 },
    uMix: { value: 0 },
    uView: { value: 0 },
    uCamera: { value: new THREE.Matrix4() },
    uMapCentre: { value: new THREE.Vector2() },
    uMapScale: { value: new THREE.Vector2(1, 1) },
    uViewport: { value: new THREE.Vector2(1, 1) },
    uWidth: { value: 1.3 },
    uMarch: { value: 0 },
    uSize: { value: 5 },
    uPicked: { value: [-1, -1] },
    uLand: { value: empty },
    uSun: { value: new THREE.Vector3(1, 0, 0) },
    uEye: { value: new THREE.Vector3(3, 0, 0) },
    uFoot: { value: [none(), none(), none(), none()] },
    uFootColour: { value: new THREE.Vector3(0.4, 0.7, 1) },
    uTint: { value: new THREE.Vector3(1, 1, 1) },
  };
}
