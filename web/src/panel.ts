// What is picked: a node, a link and why, a path and its optimum. The words are those of the command line.

import { change, get } from "./api";
import type { App, Happened } from "./app";
import { chart } from "./charts";
import { add, el, fill, need, table } from "./dom";
import type { Palette } from "./palette";
import { skyPlot } from "./skyplot";
import type { Stage } from "./stage";
import type { EdgeShown, LinkView, NodeNow, Paths, Routes, SeriesView, TrackView } from "./types";
import { count, effects, event as said, ms, rate, seconds } from "./words";

type Walk = { from: string; to: string; delay_ns: number; from_port: string; to_port: string }[];

export class Panel {
  private readonly body = need<HTMLElement>("#inspect");
  private busy = false;
  private again = false;
  /** The link that is shown: its parts change in place, so that buttons and fields stay where they are. */
  private shown: { key: string; state: HTMLElement; why: HTMLElement; rest: HTMLElement } | null = null;
  private series: { key: string; of: SeriesView } | null = null;
  private lastStep = -1;
  private routes: Routes | null = null;

  constructor(
    private readonly app: App,
    private readonly stage: Stage,
    private readonly palette: () => Palette,
    private readonly shell: (node: string) => void,
    private readonly say: (words: string) => void,
  ) {
    app.on("pick", () => {
      this.routes = null;
      this.lastStep = -1;
      void this.refresh();
    });
    app.on("palette", () => void this.refresh());
    app.on("step", () => {
      if (app.step !== this.lastStep) void this.refresh();
    });
    // Counters go on within a step, and what a hand did shows at once.
    setInterval(() => app.isLive && app.pick.nodes.length && !this.busy && !document.hidden && void this.refresh(), 1000);
  }

  /** One question at a time: whatever the server takes to answer, the answer is shown, unless something else is picked by then. */
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
    this.lastStep = app.step;
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
      const scroll = this.body.scrollTop;
      if (parts) fill(this.body, ...parts);
      this.body.scrollTop = scroll;
    } catch (error) {
      if (app.pick === pick) fill(this.body, el("p", { class: "bad" }, String((error as Error).message)));
    }
  }

  private overview(): void {
    const { world } = this.app;
    fill(
      this.body,
      el("h2", {}, world.name),
      world.description ? el("p", {}, world.description) : null,
      table(
        ["What", "How many"],
        [
          ...world.constellations.map((one) => [one.name, `${count(one.satellites)} satellites${one.mask_deg !== undefined && one.mask_deg !== null ? `, mask ${one.mask_deg}°` : ""}`]),
          ["on the ground", count(world.nodes.filter((node) => node.constellation === undefined && node.kind !== "spacecraft").length)],
          ["links now", el("span", { id: "link-count" }, count(this.app.links.all.size))],
        ],
      ),
      ...world.warnings.map((words) => el("p", { class: "warn" }, words)),
      el("h3", {}, "How"),
      el("p", { class: "hint" }, "Click a node or a link. Click a second node with Shift for the path between the two. Drag to turn, wheel to zoom."),
      world.flows.length ? el("h3", {}, "Flows of the scenario") : null,
      world.flows.length
        ? table(
            ["Flow", "From", "To"],
            world.flows.map((flow) => [el("button", { class: "name", onclick: () => this.app.choose([flow.from, flow.to], true) }, flow.name), flow.from, flow.to]),
          )
        : null,
    );
  }

  private name(node: string, title = node): HTMLElement {
    return el("button", { class: "name", onclick: () => this.app.choose([node]) }, title);
  }

  private nodeShown: { key: string; top: HTMLElement; rest: HTMLElement } | null = null;

  private async node(name: string): Promise<(Node | null)[] | null> {
    const { app, stage } = this;
    const i = app.numbers.get(name);
    const row = i === undefined ? undefined : app.world.nodes[i];
    const now = await get<NodeNow>("node", { node: name, step: app.step });
    const flies = row?.constellation !== undefined;
    const mask = row?.constellation !== undefined && row.constellation !== null ? (app.world.constellations[row.constellation]?.mask_deg ?? null) : null;
    stage.cover(flies && mask !== null && i !== undefined ? [{ node: i, maskDeg: mask }] : []);
    if (flies) void get<TrackView>("track", { node: name, step: app.step }).then((track) => app.pick.nodes[0] === name && app.pick.nodes.length === 1 && stage.fly(track.itrf_km), () => stage.fly(null));
    else stage.fly(null);
    const far = (edge: NodeNow["links"][number]) => edge.to.split("/")[0];
    stage.mark(now.links.map((edge) => ({ a: i ?? 0, b: app.numbers.get(far(edge)) ?? 0, colour: this.palette().path, width: 2, dash: edge.usable ? 0 : 1 })));
    const place = now.latitude_deg === undefined || now.latitude_deg === null ? "no position" : `${now.latitude_deg.toFixed(3)}°, ${now.longitude_deg?.toFixed(3)}°, ${now.height_km?.toFixed(1)} km`;
    const key = `${name} ${app.isLive}`;
    const known = this.nodeShown?.key === key && this.body.contains(this.nodeShown.top);
    if (!known || !this.nodeShown) this.nodeShown = { key, top: el("div", {}), rest: el("div", {}) };
    const { top, rest } = this.nodeShown;
    const buttons = el("div", { class: "buttons" });
    if (app.world.may_shell) add(buttons, [el("button", { onclick: () => this.shell(name) }, "Terminal")]);
    if (app.isLive) add(buttons, [el("button", { onclick: () => void get<Routes>("routes", { node: name }).then((routes) => ((this.routes = routes), this.refresh())) }, "Routes of its kernel")]);
    fill(
      top,
      el("h2", {}, name),
      table(
        [],
        [
          ["kind", row?.kind ?? "?"],
          row?.catalogue_name || row?.norad_id ? ["catalogue", [row?.catalogue_name, row?.norad_id && `NORAD ${row.norad_id}`].filter(Boolean).join(", ")] : null,
          row?.seat ? ["shell, plane, slot", row.seat.join(", ")] : null,
          row?.management ? ["management", row.management] : null,
          ["where (WGS84)", place],
          ["at", seconds(now.t_ns / 1e9)],
        ].filter((one): one is string[] => one !== null),
      ),
    );
    fill(
      rest,
      el("h3", {}, `Links (${now.links.length})`),
      table(
        ["To", "Kind", "Delay", "Rate"],
        now.links.map((edge) => [
          el("button", { class: "name", onclick: () => app.choose([name, far(edge)]) }, edge.to),
          edge.kind,
          ms(edge.delay_ns),
          rate(edge.rate_bps),
        ]),
      ),
      now.mask_deg !== undefined && now.mask_deg !== null ? el("h3", {}, "Its sky") : null,
      now.mask_deg !== undefined && now.mask_deg !== null ? skyPlot(now, this.palette(), (satellite) => app.choose([name, satellite])) : null,
      this.routes ? this.routeTable(this.routes) : null,
    );
    return known ? null : [top, buttons.childElementCount ? buttons : null, rest];
  }

  private routeTable(routes: Routes): HTMLElement {
    const rows = routes.routes.slice(0, 300).map((route) => [
      route.to ? this.name(route.to) : route.destination,
      route.hops.map((hop) => `${hop.via ?? hop.gateway ?? ""} ${hop.port ?? ""}`).join(", ") || route.kind,
      route.protocol,
    ]);
    return el("div", {}, el("h3", {}, `Routes (${routes.routes.length})`), table(["To", "Via", "By"], rows));
  }

  private async link(a: string, b: string): Promise<(Node | null)[] | null> {
    const { app, stage } = this;
    const view = await get<LinkView>("link", { a, b, step: app.step, live: app.isLive ? 1 : 0 });
    stage.fly(null);
    stage.cover([]);
    const ends = [a, b].map((name) => app.numbers.get(name) ?? 0);
    stage.mark([{ a: ends[0], b: ends[1], colour: view.up ? this.palette().path : this.palette().bad, width: 2.6, dash: view.up ? 0 : 2 }]);
    const live = view.live?.edges ?? [];
    if (typeof view.live?.t_ns === "number") app.counted(`${view.a} – ${view.b}`, live, view.live.t_ns / 1e9);
    const key = `${view.a} ${view.b} ${app.isLive}`;
    const known = this.shown?.key === key && this.body.contains(this.shown.why);
    if (!known || !this.shown) {
      this.shown = { key, state: el("p", { id: "state" }), why: el("p", { id: "why", class: "why" }), rest: el("div", {}) };
    }
    const { state, why, rest } = this.shown;
    state.className = view.up ? "state good" : "state bad";
    fill(state, el("b", {}, view.up ? "up" : "down"), view.live ? "" : ", by the scenario");
    if (why.textContent !== view.why) why.textContent = view.why;
    fill(
      rest,
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
    );
    if (known) return null;
    return [
      el("h2", {}, this.name(view.a), " – ", this.name(view.b)),
      state,
      why,
      el("div", { class: "buttons" }, el("button", { onclick: () => app.choose([a, b], true) }, "Path between the two"), ...this.hands(view)),
      rest,
    ];
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
          ["delay", edge.delay_ns === null || edge.delay_ns === undefined ? "-" : `${ms(edge.delay_ns)}, ${((edge.slope_ns_per_s ?? 0) / 1e3).toFixed(2)} µs/s`],
          ["rate", rate(edge.rate_bps)],
          ["queue", `${count(edge.counters?.queue_bytes ?? 0)} of ${count(edge.queue_bytes ?? 0)} bytes, ${count(edge.counters?.held ?? 0)} frames inside`],
          ["set by hand", effects(edge.effects as Record<string, unknown>)],
          ...counted.map(([name, value]) => [name.replace(/_/g, " "), count(value)]),
        ],
      ),
    );
  }

  /** Changes of a link by hand. */
  private hands(view: LinkView): (Node | null)[] {
    if (!this.app.world.may_write || !this.app.isLive) return [];
    const { a, b } = view;
    const set = async (order: Record<string, unknown>, done: string) => {
      try {
        await change({ verb: "set-link", a, b, wait: true, ...order });
        this.say(`${a}–${b}: ${done}`);
      } catch (error) {
        this.say(`refused: ${(error as Error).message}`);
      }
      this.app.links.version++;
      void this.refresh();
    };
    const impair = el("form", { class: "impair" });
    const field = (name: string, unit: string) => el("label", {}, name, el("input", { name, type: "number", step: "any", min: "0", placeholder: unit }), unit);
    add(impair, [field("delay", "ms"), field("rate", "Mbit/s"), field("loss", "%"), el("button", {}, "Set")]);
    impair.addEventListener("submit", (event) => {
      event.preventDefault();
      const value = (name: string) => {
        const text = (impair.elements.namedItem(name) as HTMLInputElement).value;
        return text === "" ? undefined : Number(text);
      };
      const [delay, speed, loss] = ["delay", "rate", "loss"].map(value);
      const wanted: Record<string, unknown> = {};
      if (delay !== undefined) wanted.delay_ns = Math.round(delay * 1e6);
      if (speed !== undefined) wanted.rate_bps = Math.round(speed * 1e6);
      if (loss !== undefined) wanted.loss = { random: { ratio: loss / 100 } };
      void set({ effects: wanted }, "set");
    });
    return [
      el("button", { id: "fail", onclick: () => void set({ effects: { down: true } }, "failed") }, "Fail"),
      el("button", { id: "heal", onclick: () => void set({ effects: { down: false } }, "healed") }, "Heal"),
      el("button", { onclick: () => void set({ effects: {}, reset: true }, "as the scenario has it") }, "Reset"),
      impair,
    ];
  }

  private async path(a: string, b: string): Promise<(Node | null)[]> {
    const { app, stage } = this;
    const asked = { from: a, to: b, step: app.step, live: app.isLive ? 1 : 0 };
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
        el("h3", {}, `By the kernels’ tables, ${walk.family}${walk.path ? `, path ${walk.path}` : ""}: `, el("span", { class: walk.arrived ? "good" : "bad" }, walk.arrived ? `${ms(walk.delay_ns ?? 0)}${over}` : walk.end)),
        this.hops(walk.hops),
      );
    });
    const seen = series ? chart("Least delay over the scenario", "ms", series.t_s, [{ name: "least delay", values: series.delay_ms }], palette, (t) => app.clock.scrub(t)) : null;
    return [
      el("h2", {}, this.name(a), " → ", this.name(b)),
      app.world.may_write && app.isLive ? this.flowForm(a, b) : null,
      paths.optimum
        ? el("p", {}, el("b", { id: "path-delay" }, ms(paths.optimum.delay_ns)), ` one way at least, ${paths.optimum.hops.length} links, at ${seconds(paths.t_ns / 1e9)}`)
        : el("p", { class: "bad" }, `no path at ${seconds(paths.t_ns / 1e9)}`),
      ...walks,
      el("h3", {}, "Least delay, link by link"),
      this.hops(paths.optimum?.hops ?? []),
      seen,
      series ? el("p", { class: "hint" }, `The path changes ${series.changed.length} times. Click the curve to see an instant.`) : null,
    ];
  }

  private flow: { key: string; form: HTMLElement } | null = null;

  /** Starts a flow between two nodes; what it measures is under Charts. */
  private flowForm(from: string, to: string): HTMLElement {
    const key = `${from} ${to}`;
    if (this.flow?.key === key) return this.flow.form;
    const tool = el("select", { name: "tool", "aria-label": "the flow's tool" }, el("option", { value: "ping" }, "ping"), el("option", { value: "tcp" }, "TCP (iperf3)"));
    const time = el("input", { name: "for", type: "number", min: "1", max: "600", value: "30", "aria-label": "seconds" });
    const form = el("form", { class: "impair", id: "flow-form" }, el("label", {}, "Flow ", tool), el("label", {}, time, "s"), el("button", { id: "start-flow" }, "Start a flow"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const flow = { tool: tool.value, from, to, for_s: Number(time.value) };
      change({ flow }).then(
        () => this.say(`${from} → ${to}: the flow has begun; it is drawn under Charts`),
        (error) => this.say(`refused: ${(error as Error).message}`),
      );
    });
    this.flow = { key, form };
    return form;
  }

  private hops(walk: Walk): HTMLElement {
    let sum = 0;
    return table(
      ["From", "To", "Delay", "Sum"],
      walk.map((hop) => [this.name(hop.from, `${hop.from}/${hop.from_port}`), this.name(hop.to, `${hop.to}/${hop.to_port}`), ms(hop.delay_ns), ms((sum += hop.delay_ns))]),
    );
  }

  private async seriesOf(a: string, b: string): Promise<SeriesView | null> {
    const key = `${a} ${b}`;
    if (this.series?.key === key) return this.series.of;
    try {
      const of = await get<SeriesView>("series", { from: a, to: b });
      this.series = { key, of };
      return of;
    } catch {
      return null;
    }
  }
}

/** The list of events; the latest are on top in a lab, those around the instant elsewhere. */
export class EventList {
  private readonly body = need<HTMLElement>("#events");

  constructor(private readonly app: App) {
    let due = false;
    const later = () => {
      if (due) return;
      due = true;
      setTimeout(() => ((due = false), this.draw()), 250);
    };
    app.on("events", later);
    app.on("step", later);
  }

  private row(event: Happened, now: number): HTMLElement {
    const t = event.t_ns === undefined || event.t_ns === null ? null : event.t_ns / 1e9;
    return el(
      "li",
      { class: t !== null && t > now ? "ahead" : "" },
      el("button", { class: "name", disabled: t === null, onclick: () => t !== null && this.app.clock.scrub(t) }, t === null ? "before" : seconds(t)),
      " ",
      el("b", {}, event.kind.replace(/-/g, " ")),
      " ",
      said(event),
    );
  }

  draw(): void {
    if (!this.body.offsetParent) return;
    const now = this.app.clock.t + 1e-6;
    const all = this.app.events;
    let at = all.findIndex((event) => (event.t_ns ?? -1) / 1e9 > now);
    if (at < 0) at = all.length;
    const shown = all.slice(Math.max(0, at - 150), at + 60);
    fill(this.body, el("ol", { class: "events" }, ...shown.reverse().map((event) => this.row(event, now))));
    // A lab's log is complete up to its present, however long ago its last event was.
    const { known, world, clock } = this.app;
    const until = world.mode === "lab" ? Math.max(known.until, clock.labT) : known.until;
    const wall = known.complete ? "" : ` so far (to ${seconds(until)})`;
    need("#event-count").textContent = `${count(all.length)} events${this.app.world.mode === "plan" ? " foretold" : ""}${wall}`;
  }
}
