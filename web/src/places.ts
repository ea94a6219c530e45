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

/** The gap between a point and its name, pixels. Picked nodes have larger points. */
const GAP = 8;
const PICKED_GAP = 12;
/** Widths of a letter of the page's font in units of its size: names are measured by their number, since a browser measures slowly. */
const LETTER = { "": 0.51, city: 0.47, axis: 0.5, picked: 0.62 };

/**
 * Places at most `most` names on a picture, earlier ones first. A name that would end outside of the picture or lie over another goes to the left of its
 * point. One that has room on no side is left out, except names of picked nodes, which move up or down. `em` is the size of the page's text, pixels.
 */
export function placed(wanted: Named[], [w, h]: Place, em: number, most: number): Placed[] {
  const taken: { from: number; to: number; y: number }[] = [];
  const high = 1.08 * em;
  const found: Placed[] = [];
  for (const { name, at, is } of wanted) {
    if (found.length >= most) break;
    if (!at || at[0] < 0 || at[0] > w || at[1] < 0 || at[1] > h) continue;
    const gap = is === "axis" ? 0 : is === "picked" ? PICKED_GAP : GAP;
    const wide = LETTER[is] * em * name.length + GAP;
    const fitsLeft = at[0] - gap - wide >= 0;
    const fitsRight = at[0] + gap + wide <= w;
    const middle = Math.min(Math.max(at[1], high / 2), h - high / 2);
    const beside = (isLeft: boolean, y: number) => ({ isLeft, y, from: isLeft ? at[0] - gap - wide : at[0], to: isLeft ? at[0] : at[0] + gap + wide });
    const sides = fitsLeft && fitsRight ? [false, true] : [!fitsRight && fitsLeft];
    const places = sides.flatMap((isLeft) => (is === "picked" ? [0, high, -high] : [0]).map((by) => beside(isLeft, middle + by)));
    const clashes = ({ from, to, y }: (typeof places)[number]) => taken.some((other) => Math.abs(other.y - y) < high && from < other.to && other.from < to);
    const free = places.find((one) => !clashes(one)) ?? (is === "picked" ? places[0] : null);
    if (!free) continue;
    taken.push(free);
    found.push({ name, is, x: free.isLeft ? at[0] - gap : at[0] + gap, y: free.y, isLeft: free.isLeft });
  }
  return found;
}
