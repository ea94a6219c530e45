// Places of the topology: planes from left to right, slots upwards, spacecraft on a ring, nodes on the ground in rows below. No browser is needed.

import type { ConstellationView, NodeView } from "./types";

/** A line of the grid, with its title. */
export interface Line {
  at: number;
  title: string;
}

export interface Grid {
  /** x, y of each node; the map's coordinates: x from -3 to 3. */
  places: [number, number][];
  /** Planes, by their x. */
  planes: Line[];
  /** Slots, by their y. */
  slots: Line[];
}

const LEFT = -3;

export function grid(nodes: readonly NodeView[], constellations: readonly ConstellationView[]): Grid {
  const lanes = new Map<string, { constellation: number; shell: number; plane: number }>();
  let slots = 0;
  const seat = (node: NodeView) => (node.seat && node.constellation !== undefined && node.constellation !== null && node.kind !== "spacecraft" ? node.seat : null);
  const lane = (node: NodeView) => `${node.constellation}/${node.seat?.[0]}/${node.seat?.[1]}`;
  for (const node of nodes) {
    const own = seat(node);
    if (!own) continue;
    if (!lanes.has(lane(node))) lanes.set(lane(node), { constellation: node.constellation ?? 0, shell: own[0], plane: own[1] });
    slots = Math.max(slots, own[2] + 1);
  }
  const numbers = new Map([...lanes.keys()].map((key, i) => [key, i]));
  const wide = Math.max(1, lanes.size);
  // Craft of a swarm are on a ring: in a row, links between neighbours and links over them would look like one chain.
  const craft = nodes.filter((node) => node.kind === "spacecraft").length;
  const width = craft && lanes.size ? 4.2 : 6;
  const ring = lanes.size ? { x: 2.2, size: 0.7 } : { x: 0, size: 1.1 };
  const ground = nodes.filter((node) => !seat(node) && node.kind !== "spacecraft").length;
  // Up to three rows, so that names have room; more where stations would be closer than planes.
  const rows = Math.max(1, Math.min(3, Math.ceil(ground / 9)), Math.ceil(ground / Math.max(wide, 12)));
  const rowGap = rows > 4 ? 0.16 : 0.24;
  const laneX = (i: number) => LEFT + (width * (i + 0.5)) / wide;
  const slotY = (slot: number) => -0.95 + (2.4 * (slot + 0.5)) / Math.max(1, slots);
  let [flying, standing] = [0, 0];
  const places = nodes.map((node): [number, number] => {
    const own = seat(node);
    if (node.kind === "spacecraft") {
      const angle = (2 * Math.PI * flying++) / craft;
      return [ring.x + ring.size * Math.sin(angle), 0.25 + ring.size * Math.cos(angle)];
    }
    if (own) return [laneX(numbers.get(lane(node)) ?? 0), slotY(own[2])];
    const row = Math.floor((standing * rows) / Math.max(1, ground));
    const inRow = Math.ceil(ground / rows);
    const x = LEFT + (6 * ((standing % inRow) + 0.5)) / inRow;
    standing++;
    return [x, -1.22 - rowGap * row];
  });
  // The constellation and the shell are in a title where there are several.
  const shells = new Set([...lanes.values()].map((one) => `${one.constellation}/${one.shell}`)).size;
  const title = (one: { constellation: number; shell: number; plane: number }) =>
    shells < 2 ? `plane ${one.plane}` : `${constellations[one.constellation]?.name ?? one.constellation} ${one.shell}, plane ${one.plane}`;
  return {
    places,
    planes: [...lanes.values()].map((one, i) => ({ at: laneX(i), title: title(one) })),
    slots: Array.from({ length: slots }, (_, slot) => ({ at: slotY(slot), title: `slot ${slot}` })),
  };
}

/** Every second, third, and so on of these lines, so that those that remain are at least so far from each other. */
export function spread(lines: Line[], scale: number, leastPx: number): Line[] {
  if (lines.length < 2) return lines;
  const gap = Math.abs(lines[1].at - lines[0].at) * scale;
  const wanted = leastPx / Math.max(gap, 1e-6);
  const every = [1, 2, 5, 10, 20, 50, 100, 200, 500].find((one) => one >= wanted) ?? 1000;
  return lines.filter((_, i) => i % every === 0);
}
