// The eye above the globe: what it sees of the Earth, and where on the screen.

import * as THREE from "three";
import type { Eye } from "./aim";
import type { Vector } from "./arcs";

/** Half of the angle of the picture from bottom to top, radians. */
export const HALF_ANGLE = (18 * Math.PI) / 180;
/** The Earth hides what is behind a ball of this radius squared: a little smaller than it is, so that places at its edge stay. */
const HIDES = 0.985;

export class Sight {
  readonly camera = new THREE.PerspectiveCamera((2 * HALF_ANGLE * 180) / Math.PI, 1, 0.02, 60);
  private readonly matrix = new THREE.Matrix4();
  private readonly ray = new THREE.Vector3();

  /** `place` is where the eye is, Earth's radii; it is kept up to date. */
  constructor(private readonly place: THREE.Vector3) {}

  /** Width over height of the picture. */
  set aspect(to: number) {
    this.camera.aspect = to;
  }

  /** Turns the camera to the Earth's centre, and writes its matrix. */
  look({ lon, lat, far }: Eye, to: THREE.Matrix4): void {
    const { camera } = this;
    const [east, north] = [(lon * Math.PI) / 180, (lat * Math.PI) / 180];
    this.place.set(Math.cos(north) * Math.cos(east), Math.cos(north) * Math.sin(east), Math.sin(north)).multiplyScalar(far);
    camera.position.copy(this.place);
    camera.up.set(0, 0, 1);
    camera.near = Math.max(0.005, (far - 1) * 0.2);
    camera.lookAt(0, 0, 0);
    camera.updateProjectionMatrix();
    camera.updateMatrixWorld();
    this.matrix.multiplyMatrices(camera.projectionMatrix, camera.matrixWorldInverse);
    to.copy(this.matrix);
  }

  private hides(p: THREE.Vector3): boolean {
    const ray = this.ray.copy(p).sub(this.place);
    const far = ray.length();
    ray.divideScalar(far);
    const along = -this.place.dot(ray);
    if (along <= 0 || along >= far) return false;
    return this.place.lengthSq() - along * along < HIDES;
  }

  /** Where a point (Earth's radii, ITRF) is on a screen of this size, pixels; null: behind the Earth. Changes `p`. */
  screen(p: THREE.Vector3, w: number, h: number): [number, number] | null {
    if (this.hides(p)) return null;
    p.applyMatrix4(this.matrix);
    return Math.abs(p.z) > 1 ? null : [((p.x + 1) / 2) * w, ((1 - p.y) / 2) * h];
  }

  /** The direction from the Earth's centre to the ground at a pixel of a screen of this size; null: beside the Earth. */
  under(x: number, y: number, w: number, h: number): Vector | null {
    const eye = this.camera.position;
    const ray = this.ray.set((2 * x) / w - 1, 1 - (2 * y) / h, 0.5).unproject(this.camera).sub(eye).normalize();
    const along = -eye.dot(ray);
    const rest = 1 - (eye.lengthSq() - along * along);
    if (rest < 0) return null;
    return ray.multiplyScalar(along - Math.sqrt(rest)).add(eye).normalize().toArray() as Vector;
  }
}
