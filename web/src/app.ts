// State that all parts of the page share: the world, the instant, the picked nodes, and the listeners to changes of these.

import { absentPorts, failedLinks, failedNodes } from "./byhand";
import { type Link, Links, key } from "./frame";
import { Rate } from "./rate";
import { Clock } from "./time";
import type { EdgeShown, LinkLoad, PlaneReport, Shown, World } from "./types";

/** The state of a lab: its row of `constel list`. */
export type LabRow = { lab: Shown["lab"]; state: Shown["state"]; t_ns?: number | null };

/** An event, whatever its kind: `crates/api/src/event.rs`. */
export interface Happened {
  seq: number;
  t_ns?: number | null;
  wall: string;
  kind: string;
  [field: string]: unknown;
}

const BY_HAND = new Set(["link-set", "nodes-set", "member-left", "member-joined", "delays-set"]);

export interface Pick {
  /** One node, or two for a link or a path. */
  nodes: string[];
  /** Whether two nodes are the ends of a path. */
  path: boolean;
}

export class App {
  readonly links = new Links();
  readonly clock: Clock;
  readonly numbers = new Map<string, number>();
  private readonly names: string[];
  events: Happened[] = [];
  /** Changes by hand, all of them, however long ago. */
  private readonly byHand: Happened[] = [];
  /** Lab time to which events are known, seconds, and whether that is all. */
  known = { until: 0, complete: false };
  pick: Pick = { nodes: [], path: false };
  lab: { row: LabRow | null; health: PlaneReport | null; ended: boolean } = { row: null, health: null, ended: false };
  /** The used share of each link's rate, by `key` of its ports. Empty unless the page requests it from a running lab. */
  loads: ReadonlyMap<string, number> = new Map();
  private readonly listeners = new Map<string, Set<() => void>>();

  constructor(readonly world: World) {
    this.names = world.nodes.map((node) => node.name);
    this.names.forEach((name, i) => this.numbers.set(name, i));
    this.clock = new Clock(world.step_ns / 1e9, world.duration_ns / 1e9, this.links, () => this.tell("step"));
  }

  /** `step`, `time`, `pick`, `events`, `lab`, `loads`, `palette`. */
  on(what: string, listener: () => void): void {
    if (!this.listeners.has(what)) this.listeners.set(what, new Set());
    this.listeners.get(what)?.add(listener);
  }

  tell(what: string): void {
    for (const listener of this.listeners.get(what) ?? []) listener();
  }

  get step(): number {
    return Math.floor(this.clock.t / this.clock.stepS + 1e-6);
  }

  /** Whether the present of a running lab is shown, so that requests go to the lab itself. */
  get isLive(): boolean {
    return this.world.mode === "lab" && this.clock.live && !this.lab.ended;
  }

  /** The node at which a path begins whose end is the next picked node. */
  from: string | null = null;

  choose(nodes: string[], path = false): void {
    const { from } = this;
    this.from = null;
    if (from && nodes.length === 1 && nodes[0] !== from) [nodes, path] = [[from, nodes[0]], true];
    this.pick = { nodes: nodes.slice(0, 2), path: path && nodes.length === 2 };
    this.tell("pick");
  }

  weighed(links: LinkLoad[]): void {
    this.loads = new Map(links.map(({ a, b, load }) => [key(a, b), load]));
    this.tell("loads");
  }

  /** Adds a second node to the picked one: the ends of a path. */
  extend(node: string): void {
    const [first] = this.pick.nodes;
    if (!first || first === node) this.choose([node]);
    else this.choose([first, node], true);
  }

  hear(events: Happened[]): void {
    for (const event of events) {
      this.events.push(event);
      if (BY_HAND.has(event.kind)) this.byHand.push(event);
    }
    if (this.events.length > 60000) this.events.splice(0, 10000);
    this.failedAt = -1;
    this.tell("events");
  }

  /** The changes by hand up to the instant shown. A lab's clock in the page is up to half a second behind its events. */
  changesByHand(): Happened[] {
    const until = this.clock.t + (this.isLive ? 0.6 : 1e-6);
    return this.byHand.filter((event) => (event.t_ns ?? 0) / 1e9 <= until);
  }

  /** The number of all changes by hand so far, whatever instant is shown. */
  get allByHand(): number {
    return this.byHand.length;
  }

  /** The instant that is shown, as questions have it: its step, and the lab time up to which changes by hand are in force. */
  get moment(): { step: number; t_ns: number } {
    return { step: this.step, t_ns: Math.round(this.clock.t * 1e9) };
  }

  /** Differs if the answers about the instant shown may differ. */
  get state(): string {
    return `${this.step} ${this.changesByHand().length}`;
  }

  /** Finds the links that are failed by hand at the instant shown, and the absent members of networks. */
  failed(): void {
    const t = this.clock.t;
    if (this.failedAt === t) return;
    this.failedAt = t;
    const changes = this.changesByHand();
    this.failedNow = failedLinks(changes);
    this.nodesNow = failedNodes(changes);
    this.absentNow = absentPorts(this.world.networks, this.names, changes);
    const state = [...[...this.failedNow, ...this.nodesNow].sort(), ...this.absentNow].join();
    if (state !== this.failedState) this.links.version++;
    this.failedState = state;
  }

  /** Rates of the picked link, second by second. */
  counts: { link: string; t: number[]; mbps: number[]; queue: number[]; lost: number[] } = { link: "", t: [], mbps: [], queue: [], lost: [] };
  private countedLast = { bytes: new Rate(), offered: new Rate(), lost: new Rate() };

  /** Takes the counters of a link's edges, as they were at a lab time. */
  counted(link: string, edges: EdgeShown[], atS: number): void {
    if (!this.isLive) return;
    if (this.counts.link !== link) {
      this.counts = { link, t: [], mbps: [], queue: [], lost: [] };
      this.countedLast = { bytes: new Rate(), offered: new Rate(), lost: new Rate() };
    }
    const sum = (of: (edge: EdgeShown) => number) => edges.reduce((all, edge) => all + of(edge), 0);
    const counter = (edge: EdgeShown) => edge.counters?.counters;
    const last = this.countedLast;
    const bytes = last.bytes.take(sum((edge) => counter(edge)?.delivered_bytes ?? 0), atS);
    const offered = last.offered.take(sum((edge) => counter(edge)?.offered ?? 0), atS);
    const dropped = (edge: EdgeShown) => Object.entries(counter(edge) ?? {}).reduce((all, [name, value]) => (name.startsWith("dropped") ? all + Number(value) : all), 0);
    const lost = last.lost.take(sum(dropped), atS);
    // After a handover the counters of the new edges start at zero.
    if (bytes === null || offered === null || lost === null) return;
    const { counts } = this;
    counts.t.push(atS);
    counts.mbps.push((bytes * 8) / 1e6);
    counts.queue.push(sum((edge) => edge.counters?.queue_bytes ?? 0));
    counts.lost.push(offered > 0 ? (100 * lost) / offered : 0);
    for (const column of [counts.t, counts.mbps, counts.queue, counts.lost]) if (column.length > 3600) column.splice(0, 600);
  }

  private failedAt = -1;
  private failedNow = new Set<string>();
  /** Nodes that are failed or stopped by hand. */
  nodesNow: ReadonlySet<string> = new Set();
  private absentNow = new Set<number>();
  private failedState = "";

  /** Whether a link is down by hand, or because an end is not in its network. */
  isFailed(link: Link): boolean {
    return this.whyFailed(link) !== null;
  }

  /** Why a link is down by hand; null if it is not. */
  whyFailed(link: Link): "failed by hand" | "member absent" | null {
    if (link.ports.some((port) => this.absentNow.has(port))) return "member absent";
    const [a, b] = [this.names[link.a], this.names[link.b]];
    if (this.nodesNow.has(a) || this.nodesNow.has(b)) return "failed by hand";
    return this.failedNow.has(`${a}-${b}`) || this.failedNow.has(`${b}-${a}`) ? "failed by hand" : null;
  }

  /** Nodes whose name, catalogue name or number is like a text, the best first. */
  search(text: string, most = 12): string[] {
    const wanted = text.trim().toLowerCase();
    if (!wanted) return [];
    const found: [number, string][] = [];
    for (const node of this.world.nodes) {
      const names = [node.name, node.catalogue_name ?? "", node.norad_id ? String(node.norad_id) : ""];
      const ranks = names.map((name) => {
        const own = name.toLowerCase();
        return own === wanted ? 0 : own.startsWith(wanted) ? 1 : own.includes(wanted) ? 2 : 9;
      });
      const rank = Math.min(...ranks);
      if (rank < 9) found.push([rank + (node.constellation === undefined ? 0 : 0.5), node.name]);
    }
    return found.sort((a, b) => a[0] - b[0] || a[1].localeCompare(b[1])).slice(0, most).map(([, name]) => name);
  }
}
