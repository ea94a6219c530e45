// Changes by hand at an instant, from the events up to it.

import type { NetworkView } from "./types";

/** An event with the fields of its kind. */
interface Change {
  kind: string;
  [field: string]: unknown;
}

/** The links that are failed by hand, as `A-B`. */
export function failedLinks(changes: readonly Change[]): Set<string> {
  const now = new Set<string>();
  for (const event of changes) {
    if (event.kind !== "link-set") continue;
    const effects = event.effects as Record<string, unknown> | undefined;
    if (effects?.down === true) now.add(event.link as string);
    else now.delete(event.link as string);
  }
  return now;
}

/** The nodes that are failed or stopped by hand. */
export function failedNodes(changes: readonly Change[]): Set<string> {
  const now = new Set<string>();
  for (const { kind, change, nodes } of changes) {
    if (kind !== "nodes-set") continue;
    for (const node of nodes as string[]) {
      if (change === "fail" || change === "stop") now.add(node);
      else if (change === "heal" || change === "start") now.delete(node);
    }
  }
  return now;
}

/** The ports of members that are absent from their networks: those that start `away`, and those that left. */
export function absentPorts(networks: readonly NetworkView[], names: readonly string[], changes: readonly Change[]): Set<number> {
  const members = networks.flatMap((network) => network.members.map((member) => ({ ...member, key: `${network.name} ${names[member.node]}` })));
  const absent = new Map(members.map((member) => [member.key, member.away]));
  for (const event of changes) {
    if (event.kind === "member-left" || event.kind === "member-joined") absent.set(`${event.network} ${event.node}`, event.kind === "member-left");
  }
  return new Set(members.filter((member) => absent.get(member.key)).map((member) => member.port));
}

/** Networks with delays that were set by hand and that the events do not have one by one, each with their range. */
export function unknownDelays(changes: readonly Change[]): string[] {
  const set = new Map<string, string>();
  for (const event of changes) {
    if (event.kind !== "delays-set") continue;
    const network = event.network as string;
    const known = (event.delays as unknown[] | undefined)?.length ?? 0;
    if (event.reset) set.delete(network);
    else if (known < (event.edges as number)) set.set(network, `${network}${rangeOf(event.range)}`);
  }
  return [...set.values()];
}

function rangeOf(range: unknown): string {
  if (!range) return "";
  const { min_ns, median_ns, max_ns } = range as Record<string, number>;
  const [min, median, max] = [min_ns, median_ns, max_ns].map((ns) => (ns / 1e6).toFixed(3));
  return ` (${min} to ${max} ms, median ${median} ms)`;
}
