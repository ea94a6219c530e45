// Great circles: what a link between two directions is on the map.

export type Vector = [number, number, number];

const dot = (a: Vector, b: Vector): number => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
const cross = (a: Vector, b: Vector): Vector => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
const unit = (a: Vector): Vector => {
  const length = Math.hypot(...a);
  return [a[0] / length, a[1] / length, a[2] / length];
};

/** The point of the shorter great circle from one direction to another that is nearest to a third, as a direction. */
export function nearest(from: Vector, to: Vector, point: Vector): Vector {
  const [a, b, c] = [unit(from), unit(to), unit(point)];
  const normal = cross(a, b);
  // Without a plane the two are one point.
  if (Math.hypot(...normal) < 1e-9) return a;
  const n = unit(normal);
  const away = dot(c, n);
  const foot: Vector = [c[0] - away * n[0], c[1] - away * n[1], c[2] - away * n[2]];
  if (Math.hypot(...foot) > 1e-9 && dot(cross(a, foot), n) >= 0 && dot(cross(foot, b), n) >= 0) return unit(foot);
  return dot(c, a) > dot(c, b) ? a : b;
}
