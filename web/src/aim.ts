// Where the eye must be to see several places at once. No browser is needed.

import type { Vector } from "./arcs";

export interface Eye {
  /** Degrees. */
  lon: number;
  lat: number;
  /** Distance from the Earth's centre, Earth's radii. */
  far: number;
}

const NEAREST = 2.2;
const FARTHEST = 24;
/** Places stay so far from the edge of the picture. */
const MARGIN = 0.82;
/** The Earth is drawn a little smaller than it is, so that places on the ground are seen until they are so far beyond the horizon, radians. */
const BELOW_RAD = 0.07;

const length = (p: Vector): number => Math.hypot(...p);

/**
 * The eye above the middle of places (ITRF, Earth's radii), as near as all of them are in view: above the horizon, and within the picture, whose angles
 * are given from its middle to its nearest edge. `null` if there is no place.
 */
export function aim(places: Vector[], halfAngleRad: number): Eye | null {
  const there = places.filter((p) => p.every(Number.isFinite) && length(p) > 0);
  if (!there.length) return null;
  const sum: Vector = [0, 0, 0];
  for (const p of there) for (const i of [0, 1, 2]) sum[i] += p[i] / length(p);
  // Opposite places have no middle: any place above the great circle between them will do, and the equator is one.
  if (length(sum) < 1e-3) [sum[0], sum[1], sum[2]] = [-there[0][1] || 1, there[0][0], 0];
  const size = length(sum);
  const middle = sum.map((one) => one / size) as Vector;
  let far = NEAREST;
  for (const p of there) {
    const radius = length(p);
    const cos = (p[0] * middle[0] + p[1] * middle[1] + p[2] * middle[2]) / radius;
    const angle = Math.acos(Math.min(1, Math.max(-1, cos)));
    // A place above the ground sets later.
    const horizon = angle - Math.acos(Math.min(1, 1 / radius)) - BELOW_RAD;
    far = Math.max(far, horizon < 1.48 ? 1 / Math.cos(Math.max(0, horizon)) : FARTHEST);
    far = Math.max(far, radius * Math.cos(angle) + (radius * Math.sin(angle)) / Math.tan(halfAngleRad * MARGIN));
  }
  const [lon, lat] = [(Math.atan2(middle[1], middle[0]) * 180) / Math.PI, (Math.asin(middle[2]) * 180) / Math.PI];
  return { lon, lat: Math.max(-80, Math.min(80, lat)), far: Math.min(FARTHEST, far) };
}

/** One piece of the way from an eye to another; the second is whether it has arrived. */
export function towards(from: Eye, to: Eye, share: number): [Eye, boolean] {
  const turn = ((((to.lon - from.lon) % 360) + 540) % 360) - 180;
  const left = Math.max(Math.abs(turn), Math.abs(to.lat - from.lat), 20 * Math.abs(to.far - from.far));
  if (left < 0.3 || share >= 1) return [{ ...to }, true];
  const lon = ((from.lon + turn * share + 540) % 360) - 180;
  return [{ lon, lat: from.lat + (to.lat - from.lat) * share, far: from.far + (to.far - from.far) * share }, false];
}
