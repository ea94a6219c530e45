// Craft that are one dot on the picture.

export interface Placed {
  name: string;
  x: number;
  y: number;
}

const NAMES = 6;

/** Groups of craft that are nearer than so many pixels to the first of their group. */
export function groups(craft: Placed[], nearPx: number): Placed[][] {
  const all: Placed[][] = [];
  for (const one of craft) {
    const group = all.find(([first]) => Math.hypot(first.x - one.x, first.y - one.y) < nearPx);
    if (group) group.push(one);
    else all.push([one]);
  }
  return all;
}

/** The label of a group: how many there are, and their names. */
export function label(group: Placed[]): string {
  if (group.length === 1) return group[0].name;
  const names = group.slice(0, NAMES).map((one) => one.name).join(", ");
  return `${group.length} craft: ${names}${group.length > NAMES ? ` and ${group.length - NAMES} more` : ""}`;
}
