// A swarm seen from one of its craft: along its track, away from the Earth, and across the orbit. No browser is needed.

import type { Vector } from "./arcs";

/** The Earth's rotation, radians a second. */
const SPIN = 7.2921159e-5;

const dot = (a: Vector, b: Vector): number => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
const cross = (a: Vector, b: Vector): Vector => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
const unit = (a: Vector): Vector => {
  const size = Math.hypot(...a);
  return [a[0] / size, a[1] / size, a[2] / size];
};

/**
 * Offsets from a chief: along its track, radially outwards, across its orbit. Positions are ITRF in any unit; `then` is the chief's position
 * `spanS` seconds later, from which its direction of flight in space follows.
 */
export function relative(now: Vector, then: Vector, spanS: number, others: Vector[]): Vector[] {
  const turn = SPIN * spanS;
  const later: Vector = [then[0] * Math.cos(turn) - then[1] * Math.sin(turn), then[0] * Math.sin(turn) + then[1] * Math.cos(turn), then[2]];
  const radial = unit(now);
  const across = unit(cross(now, later));
  const along = cross(across, radial);
  return others.map((p) => {
    const d: Vector = [p[0] - now[0], p[1] - now[1], p[2] - now[2]];
    return [dot(d, along), dot(d, radial), dot(d, across)];
  });
}

/** The orthographic picture of an offset for an eye turned by two angles, degrees: to the right, upwards. At 0, 0 it looks across the orbit. */
export function picture([along, radial, across]: Vector, lonDeg: number, latDeg: number): [number, number] {
  const [l, p] = [(lonDeg * Math.PI) / 180, (latDeg * Math.PI) / 180];
  const right = along * Math.cos(l) - across * Math.sin(l);
  const towards = along * Math.sin(l) + across * Math.cos(l);
  return [right, radial * Math.cos(p) - towards * Math.sin(p)];
}

/** The largest of 1, 2, 5, 10 and so on that is not above a length. */
export function roundLength(most: number): number {
  if (!(most > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return power * (most / power >= 5 ? 5 : most / power >= 2 ? 2 : 1);
}

/** A craft's formation: its name without its number. */
export const formation = (name: string): string => name.replace(/-?\d+$/, "");
