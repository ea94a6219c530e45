// Where names go over the picture: beside their points, within the picture, and not over each other. No browser is needed.

export type Place = [number, number];

export interface Named {
  name: string;
  /** The point, pixels; null: it is not on the picture. */
  at: Place | null;
  is: "" | "picked" | "city" | "axis";
}

export interface Placed {
  name: string;
  is: Named["is"];
  /** The left end of the name, or its right end if it is `left` of its point. */
  x: number;
  y: number;
  isLeft: boolean;
}

/** The gap between a point and its name, pixels. */
const GAP = 8;
/** Widths of a letter of the page's font in units of its size: names are measured by their number, since a browser measures slowly. */
const LETTER = { "": 0.51, city: 0.47, axis: 0.5, picked: 0.62 };

/**
 * Places at most `most` names on a picture, earlier ones first. A name that would end outside of the picture goes to the left of its point. One that would
 * lie over another is left out, except names of picked nodes, which move up or down. `em` is the size of the page's text, pixels.
 */
export function placed(wanted: Named[], [w, h]: Place, em: number, most: number): Placed[] {
  const taken: { from: number; to: number; y: number }[] = [];
  const high = 1.08 * em;
  const found: Placed[] = [];
  for (const { name, at, is } of wanted) {
    if (found.length >= most) break;
    if (!at || at[0] < 0 || at[0] > w || at[1] < 0 || at[1] > h) continue;
    const gap = is === "axis" ? 0 : GAP;
    const wide = LETTER[is] * em * name.length + GAP;
    const isLeft = at[0] + gap + wide > w && at[0] - gap - wide >= 0;
    const from = isLeft ? at[0] - gap - wide : at[0];
    const to = isLeft ? at[0] : at[0] + gap + wide;
    const clashes = (y: number) => taken.some((other) => Math.abs(other.y - y) < high && from < other.to && other.from < to);
    const middle = Math.min(Math.max(at[1], high / 2), h - high / 2);
    const free = (is === "picked" ? [0, high, -high] : [0]).map((by) => middle + by).find((one) => !clashes(one));
    if (free === undefined && is !== "picked") continue;
    const y = free ?? middle;
    taken.push({ from, to, y });
    found.push({ name, is, x: isLeft ? at[0] - gap : at[0] + gap, y, isLeft });
  }
  return found;
}
