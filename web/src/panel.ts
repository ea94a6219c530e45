// The picked node, link or path. The texts are those of the command line.

import { get } from "./api";
import type { App } from "./app";
import { unknownDelays } from "./byhand";
import { chart } from "./charts";
import { el, need, patch, table } from "./dom";
import { Hands } from "./hands";
import { light, type Palette } from "./palette";
import { skyPlot } from "./skyplot";
import type { Stage } from "./stage";
import type { EdgeShown, LinkView, NodeState, Paths, Routes, SeriesView, TrackView } from "./types";
import { count, effects, fixed, ms, rate, seconds } from "./words";

/** Least time between two curves of the same pair. */
const SERIES_EVERY_MS = 10_000;

type Walk = { from: string; to: string; delay_ns: number; from_port: string; to_port: string }[];

export class Panel {
  private readonly body = need<HTMLElement>("#inspect");
  private busy = false;
  private again = false;
  private series: { view: string; key: string; at: number; of: SeriesView; box: HTMLElement } | null = null;
  private last = "";
  private routes: Routes | null = null;
  private readonly hands: Hands;
  /** The state of the link that was shown last, for people who do not see it change. */
  private state = { link: "", up: false };

  constructor(
    private readonly app: App,
    private readonly stage: Stage,
    private readonly palette: () => Palette,
    private readonly shell: (node: string) => void,
    private readonly say: (words: string) => void,
  ) {
    this.hands = new Hands(app, say, () => void this.refresh());
    app.on("pick", () => {
      this.routes = null;
      void this.refresh();
    });
    app.on("palette", () => void this.refresh());
    const changed = () => app.state !== this.last && void this.refresh();
    app.on("step", changed);
    app.on("time", changed);
    app.on("events", changed);
    // Counters increase within a step, and changes by hand show at once.
    setInterval(() => app.isLive && app.pick.nodes.length && !this.busy && !document.hidden && void this.refresh(), 1000);
  }

  /** Sends one request at a time, and shows the reply however long it takes, unless something else is picked by then. */
  async refresh(): Promise<void> {
    const { app, stage } = this;
    const { nodes } = app.pick;
    stage.picked = [0, 1].map((i) => app.numbers.get(nodes[i]) ?? -1) as [number, number];
    stage.dirty = true;
    if (this.busy) {
      this.again = true;
      return;
    }
    this.busy = true;
    do {
      this.again = false;
      await this.show();
    } while (this.again);
    this.busy = false;
  }

  private async show(): Promise<void> {
    const { app, stage } = this;
    const { pick } = app;
    const { nodes, path } = pick;
    this.last = app.state;
    if (!nodes.length) {
      stage.mark([]);
      stage.fly(null);
      stage.cover([]);
      this.overview();
      return;
    }
    try {
      const parts = nodes.length === 1 ? await this.node(nodes[0]) : path ? await this.path(nodes[0], nodes[1]) : await this.link(nodes[0], nodes[1]);
      if (app.pick !== pick) return;
      this.put(`${nodes.join(" ")}${path ? " path" : ""}`, parts);
    } catch (error) {
      if (app.pick === pick) this.put("refused", [el("p", { class: "bad" }, String((error as Error).message))]);
    }
  }

  /** Shows these parts. What another view had is gone; what the same view has is changed in place, under the reader's focus and pointer. */
  private put(view: string, parts: (Node | null)[]): void {
    patch(this.body, el("div", { "data-key": view }, ...parts));
  }

  private overview(): void {
    const { world } = this.app;
    this.put("overview", [
      el("h2", {}, world.name),
      world.description ? el("p", {}, world.description) : null,
      table(
        ["Kind", "Number"],
        [
          ...world.constellations.map((one) => [one.name, `${count(one.satellites)} satellites${one.mask_deg !== undefined && one.mask_deg !== null ? `, mask ${one.mask_deg}°` : ""}`]),
          ["nodes on the ground", count(world.nodes.filter((node) => node.constellation === undefined && node.kind !== "spacecraft").length)],
          ["links now", el("span", { id: "link-count" }, count(this.app.links.all.size))],
        ],
      ),
      ...world.warnings.map((words) => el("p", { class: "warn" }, words)),
      el("h3", {}, "Use"),
      el("p", { class: "hint" }, "Click a node or a link. “Path from here” on a node’s page, then a second node, shows the path between the two; so does Shift and a click. Drag to turn; the wheel or two fingers zoom. The key ? lists the keys."),
      world.flows.length ? el("h3", {}, "Flows of the scenario") : null,
      world.flows.length
        ? table(
            ["Flow", "From", "To"],
            world.flows.map((flow) => [el("button", { class: "name", onclick: () => this.app.choose([flow.from, flow.to], true) }, flow.name), flow.from, flow.to]),
          )
        : null,
    ]);
  }

  private name(node: string, title = node): HTMLElement {
    return el("button", { class: "name", onclick: () => this.app.choose([node]) }, title);
  }

  private async node(name: string): Promise<(Node | null)[]> {
    const { app, stage } = this;
    const i = app.numbers.get(name);
    const row = i === undefined ? undefined : app.world.nodes[i];
    const now = await get<NodeState>("node", { node: name, ...app.moment });
    const flies = (row?.constellation ?? null) !== null;
    const mask = row?.constellation !== undefined && row.constellation !== null ? (app.world.constellations[row.constellation]?.mask_deg ?? null) : null;
    stage.cover(flies && mask !== null && i !== undefined ? [{ node: i, maskDeg: mask }] : []);
    if (flies) void get<TrackView>("track", { node: name, step: app.step }).then((track) => app.pick.nodes[0] === name && app.pick.nodes.length === 1 && stage.fly(track.itrf_km), () => stage.fly(null));
    else stage.fly(null);
    const far = (edge: NodeState["links"][number]) => edge.to.split("/")[0];
    stage.mark(now.links.map((edge) => ({ a: i ?? 0, b: app.numbers.get(far(edge)) ?? 0, colour: this.palette().path, width: 2, dash: edge.usable ? 0 : 1 })));
    const place = now.latitude_deg === undefined || now.latitude_deg === null ? "no position" : `${fixed(now.latitude_deg, 3)}°, ${fixed(now.longitude_deg ?? 0, 3)}°, ${fixed(now.height_km ?? 0, 1)} km`;
    const buttons = [
      app.world.may_shell ? el("button", { onclick: () => this.shell(name) }, "Terminal") : null,
      el("button", { id: "path-from", onclick: () => this.pathFrom(name) }, "Path from here"),
      app.isLive ? el("button", { onclick: () => void get<Routes>("routes", { node: name }).then((routes) => ((this.routes = routes), this.refresh())) }, "Kernel routes") : null,
    ].filter((one) => one !== null);
    const hasSky = now.mask_deg !== undefined && now.mask_deg !== null;
    return [
      el("h2", {}, name),
      table(
        [],
        [
          ["kind", row?.kind ?? "?"],
          row?.catalogue_name || row?.norad_id ? ["catalogue", [row?.catalogue_name, row?.norad_id && `NORAD ${row.norad_id}`].filter(Boolean).join(", ")] : null,
          row?.seat ? ["shell, plane, slot", row.seat.join(", ")] : null,
          row?.management ? ["management", row.management] : null,
          ["position (WGS84)", place],
          ["lab time", seconds(now.t_ns / 1e9)],
        ].filter((one): one is string[] => one !== null),
      ),
      el("div", { class: "buttons" }, ...buttons),
      app.from === name ? el("p", { class: "why", id: "path-hint" }, "Pick the other end of the path: click it in the picture, or search it.") : null,
      this.hands.node(name),
      this.hands.capture(name),
      el("h3", {}, `Links (${now.links.length})`),
      table(
        ["To", "Kind", "Delay", "Rate", "State"],
        now.links.map((edge) => [
          el("button", { class: "name", onclick: () => app.choose([name, far(edge)]) }, edge.to),
          edge.kind,
          ms(edge.delay_ns),
          rate(edge.rate_bps),
          edge.state,
        ]),
      ),
      hasSky ? el("h3", {}, "Sky") : null,
      hasSky ? this.hands.station(name, null) : null,
      hasSky ? skyPlot(now, this.palette(), (satellite) => app.choose([name, satellite])) : null,
      this.routes ? this.routeTable(this.routes) : null,
    ];
  }

  /** The next picked node is the end of a path from here: as Shift and a click, without a keyboard. */
  private pathFrom(node: string): void {
    this.app.from = node;
    this.say(`${node}: pick the other end of the path`);
    void this.refresh();
  }

  private routeTable(routes: Routes): HTMLElement {
    const rows = routes.routes.slice(0, 300).map((route) => [
      route.to ? this.name(route.to) : route.destination,
      route.hops.map((hop) => `${hop.via ?? hop.gateway ?? ""} ${hop.port ?? ""}`).join(", ") || route.kind,
      route.protocol,
    ]);
    return el("div", {}, el("h3", {}, `Routes (${routes.routes.length})`), table(["To", "Via", "By"], rows));
  }

  private async link(a: string, b: string): Promise<(Node | null)[]> {
    const { app, stage } = this;
    const view = await get<LinkView>("link", { a, b, ...app.moment, live: app.isLive ? 1 : 0 });
    stage.fly(null);
    stage.cover([]);
    const ends = [a, b].map((name) => app.numbers.get(name) ?? 0);
    stage.mark([{ a: ends[0], b: ends[1], colour: view.up ? this.palette().path : this.palette().bad, width: 2.6, dash: view.up ? 0 : 2 }]);
    const live = view.live?.edges ?? [];
    const { state } = this;
    if (state.link === `${a} ${b}` && state.up !== view.up) this.say(`${view.a} – ${view.b} is ${view.up ? "up" : "down"}`);
    this.state = { link: `${a} ${b}`, up: view.up };
    if (typeof view.live?.t_ns === "number") app.counted(`${view.a} – ${view.b}`, live, view.live.t_ns / 1e9);
    return [
      el("h2", {}, this.name(view.a), " – ", this.name(view.b)),
      el("p", { id: "state", class: view.up ? "state good" : "state bad" }, el("b", {}, view.up ? "up" : "down"), view.live ? "" : this.basis()),
      el("p", { id: "why", class: "why" }, view.why),
      this.unknownDelays(),
      el("div", { class: "buttons" }, el("button", { onclick: () => app.choose([a, b], true) }, "Path between the two")),
      ...this.hands.link(view),
      this.attachment(a, b),
      ...(live.length
        ? live.map((edge) => this.edge(edge))
        : view.edges.length
          ? [
              table(
                ["From", "To", "Delay", "Rate"],
                view.edges.map((edge) => [edge.from, edge.to, ms(edge.delay_ns), rate(edge.rate_bps)]),
              ),
            ]
          : []),
    ];
  }

  /** The controls of a station's satellites, on the page of a link between a station and a satellite. */
  private attachment(a: string, b: string): HTMLElement | null {
    const { app } = this;
    const kind = (name: string) => app.world.nodes[app.numbers.get(name) ?? -1]?.kind;
    const [station, satellite] = kind(a) === "ground" ? [a, b] : [b, a];
    return kind(station) === "ground" && kind(satellite) === "satellite" ? this.hands.station(station, satellite) : null;
  }

  /** The basis of answers about an instant that is not a lab's present. */
  private basis(): string {
    return this.app.changesByHand().length ? ", by the scenario and the changes by hand" : ", by the scenario";
  }

  /** An event of many changed delays has their range only. */
  private unknownDelays(): HTMLElement | null {
    const networks = unknownDelays(this.app.changesByHand());
    if (!networks.length || this.app.isLive) return null;
    return el("p", { class: "warn" }, `Delays of ${networks.join(", ")} were set by hand. The log has only their range, so the scenario’s delays are shown.`);
  }

  private edge(edge: EdgeShown): HTMLElement {
    const counters = edge.counters?.counters as unknown as Record<string, unknown> | undefined;
    const counted = Object.entries(counters ?? {}).filter((pair): pair is [string, number] => typeof pair[1] === "number" && pair[1] > 0);
    return el(
      "section",
      {},
      el("h3", {}, `${edge.from} → ${edge.to}`),
      table(
        [],
        [
          ["delay", edge.delay_ns === null || edge.delay_ns === undefined ? "-" : `${ms(edge.delay_ns)}, ${fixed((edge.slope_ns_per_s ?? 0) / 1e3, 2)} µs/s`],
          ["rate", rate(edge.rate_bps)],
          ["queue", `${count(edge.counters?.queue_bytes ?? 0)} of ${count(edge.queue_bytes ?? 0)} bytes, ${count(edge.counters?.held ?? 0)} frames inside`],
          ["set by hand", effects(edge.effects as Record<string, unknown>)],
          ...counted.map(([name, value]) => [name.replace(/_/g, " "), count(value)]),
        ],
      ),
    );
  }

  private async path(a: string, b: string): Promise<(Node | null)[]> {
    const { app, stage } = this;
    const asked = { from: a, to: b, ...app.moment, live: app.isLive ? 1 : 0 };
    const [paths, series] = await Promise.all([get<Paths>("path", asked), this.seriesOf(a, b)]);
    stage.fly(null);
    stage.cover([]);
    const palette = this.palette();
    const lines = (walk: Walk, colour: string, width: number, dash: number) =>
      walk.map((hop) => ({ a: app.numbers.get(hop.from) ?? 0, b: app.numbers.get(hop.to) ?? 0, colour, width, dash }));
    const kernel = paths.kernel.find((walk) => walk.arrived) ?? paths.kernel[0];
    stage.mark([...lines(paths.optimum?.hops ?? [], palette.optimum, 4, 0), ...(kernel ? lines(kernel.hops, palette.path, 2.2, 2) : [])]);
    const best = paths.optimum?.delay_ns;
    const walks = paths.kernel.map((walk) => {
      const over = walk.delay_ns && best ? ` (+${ms(walk.delay_ns - best)})` : "";
      return el(
        "section",
        {},
        el("h3", {}, `By the kernels’ routes, ${walk.family}${walk.path ? `, path ${walk.path}` : ""}: `, el("span", { class: walk.arrived ? "good" : "bad" }, walk.arrived ? `${ms(walk.delay_ns ?? 0)}${over}` : walk.end)),
        this.hops(walk.hops),
      );
    });
    return [
      el("h2", {}, this.name(a), " → ", this.name(b)),
      this.hands.flow(a, b),
      paths.optimum
        ? el("p", {}, el("b", { id: "path-delay" }, ms(paths.optimum.delay_ns)), ` least one-way delay, ${paths.optimum.hops.length} links, at ${seconds(paths.t_ns / 1e9)}${app.isLive ? "" : this.basis()}`)
        : el("p", { class: "bad" }, `no path at ${seconds(paths.t_ns / 1e9)}${app.isLive ? "" : this.basis()}`),
      this.unknownDelays(),
      ...walks,
      el("h3", {}, "Least delay, link by link"),
      this.hops(paths.optimum?.hops ?? []),
      series?.box ?? null,
      series ? el("p", { class: "hint" }, `The path changes ${series.of.changed.length} times. Click the curve to show an instant.`) : null,
    ];
  }

  private hops(walk: Walk): HTMLElement {
    let sum = 0;
    return table(
      ["From", "To", "Delay", "Sum"],
      walk.map((hop) => [this.name(hop.from, `${hop.from}/${hop.from_port}`), this.name(hop.to, `${hop.to}/${hop.to_port}`), ms(hop.delay_ns), ms((sum += hop.delay_ns))]),
    );
  }

  /** The curve of a pair's least delay, with the changes by hand so far. It is requested again when there are more of them. */
  private async seriesOf(a: string, b: string): Promise<{ of: SeriesView; box: HTMLElement } | null> {
    const { app } = this;
    const view = `series ${a} ${b} ${this.palette().name} ${light.matches}`;
    const key = `${view} ${app.allByHand}`;
    const shown = this.series;
    // A curve costs the server more than any other answer, and a script may change links every second.
    if (shown?.key === key || (shown?.view === view && performance.now() - shown.at < SERIES_EVERY_MS)) {
      // The chart that is shown stays in its place: `patch` finds it by its key.
      return this.body.contains(shown.box) ? { of: shown.of, box: el("figure", { "data-key": shown.key, "data-whole": "" }) } : shown;
    }
    try {
      const of = await get<SeriesView>("series", { from: a, to: b });
      const title = app.allByHand ? "Least delay, by the scenario and the changes by hand" : "Least delay over the scenario";
      const box = chart(title, "ms", of.t_s, [{ name: "least delay", values: of.delay_ms }], this.palette(), (t) => app.clock.scrub(t));
      box.dataset.key = key;
      this.series = { view, key, at: performance.now(), of, box };
      return this.series;
    } catch {
      return null;
    }
  }
}
