// Cities that the picture names: more, the nearer the eye is. No browser is needed.

import type { Vector } from "./arcs";
import { slug } from "./draft";

/** Name, latitude and longitude in degrees, and its other name if it has one; the largest first. */
export type City = [string, number, number, string?];

/** The city with a name, whatever its case and accents; else the largest whose name begins with these words, as "New York" of "New York Newark". */
export function find(cities: readonly City[], text: string): City | null {
  const wanted = slug(text);
  const exact = cities.find(([name, , , other]) => slug(name) === wanted || (other && slug(other) === wanted));
  return exact ?? cities.find(([name]) => slug(name).startsWith(`${wanted}-`)) ?? null;
}

/** How many of the largest cities are named, for the globe by the eye's distance in Earth's radii, else by the zoom. */
export function named(view: string, far: number, zoom: number): number {
  const close = view === "globe" ? 2.4 / Math.max(0.05, far - 1) : view === "map" ? zoom * 1.2 : 0;
  if (close < 2) return 0;
  return close < 4 ? 60 : close < 7 ? 400 : 1000;
}

/** The direction of a city from the Earth's centre. */
export function direction([, latDeg, lonDeg]: City): Vector {
  const [lat, lon] = [(latDeg * Math.PI) / 180, (lonDeg * Math.PI) / 180];
  return [Math.cos(lat) * Math.cos(lon), Math.cos(lat) * Math.sin(lon), Math.sin(lat)];
}
