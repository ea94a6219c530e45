// The page: creates its parts, and draws when something has changed.

import "@xterm/xterm/css/xterm.css";
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { Refused, get, session, socket } from "./api";
import { App, type Happened, type LabRow } from "./app";
import { chart } from "./charts";
import { flagged, flowCharts, flowVerdict } from "./curves";
import { el, fill, need } from "./dom";
import { health as judge } from "./health";
import { attach, type Hit } from "./input";
import { Labels } from "./labels";
import { LiveCharts } from "./livecharts";
import { Networks } from "./networks";
import { help } from "./keys";
import { light, PALETTES, type Palette } from "./palette";
import { EventList, Panel } from "./panel";
import { Rules } from "./rules";
import { key } from "./frame";
import { SHADES, type Shade, Stage, type View } from "./stage";
import { Tables } from "./tables";
import { type Tab, Tabs } from "./tabs";
import { Terminals } from "./terminal";
import { Timeline } from "./timeline";
import type { Columns, FlowRow, LinkLoad, PlaneReport, RunView, Timeline as TimelineView, World } from "./types";
import { count, seconds, utc } from "./words";

const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;

async function enter(): Promise<World | null> {
  const token = /^#[\w-]{32}$/.test(location.hash) ? location.hash.slice(1) : "";
  // The token is good once: it must not stay in the address, nor in the history.
  if (token) history.replaceState(null, "", "/");
  try {
    await session(token);
    return await get<World>("world");
  } catch (error) {
    const words = error instanceof Refused ? error.message : "no response from the server: is `constel web` still running?";
    fill(need("#door"), el("h1", {}, "Constel"), el("p", { id: "refused" }, words));
    return null;
  }
}

function fromHash(): Map<string, string> {
  return new Map(new URLSearchParams(location.hash.slice(1)).entries());
}

class Page {
  private readonly app: App;
  private readonly stage: Stage;
  private readonly timeline: Timeline;
  private readonly labels: Labels;
  /** Of a running lab. */
  charts: LiveCharts | null = null;
  private palette: Palette = PALETTES[0];
  private readonly terminals = new Terminals();
  private frames = 0;

  constructor(private readonly world: World) {
    this.app = new App(world);
    const kept = localStorage.getItem("palette");
    this.palette = PALETTES.find((one) => one.name === kept) ?? PALETTES[0];
    this.stage = new Stage(need("#stage"), world, this.app.links, this.palette);
    this.timeline = new Timeline(this.app, () => this.palette, (text, x, y) => this.tip(text, x, y));
    this.labels = new Labels(need("#labels"), this.stage, this.app);
    new Panel(this.app, this.stage, () => this.palette, (node) => this.terminals.start(node), (words) => this.say(words));
    const events = new EventList(this.app);
    const tables = new Tables(this.app);
    this.tabs(events, tables);
    this.bar();
    this.search();
    this.playing();
    attach(this.stage, this.app, (hit, x, y) => this.hover(hit, x, y), () => this.remember());
    this.app.on("step", () => this.stepped());
    this.app.on("pick", () => this.remember());
    this.app.on("lab", () => this.verdict());
    this.app.on("loads", () => {
      this.stage.loads = this.app.loads;
      if (this.stage.shade === "load") this.stage.stale();
    });
    const { clock } = this.app;
    const asked = fromHash();
    this.recall(asked);
    if (world.mode === "lab" && !asked.has("t")) clock.live = true;
    this.connect();
    if (world.mode === "run") {
      void this.timelineSoFar();
      void this.results();
      this.app.on("palette", () => void this.results());
    }
    new ResizeObserver(() => this.stage.resize()).observe(need("#stage"));
    this.stage.resize();
    this.app.tell("pick");
    let last = performance.now();
    const draw = (now: number) => {
      const dt = Math.min(0.25, (now - last) / 1e3);
      last = now;
      if (clock.tick(dt)) this.timed();
      this.app.failed();
      this.stage.relink((link) => this.app.isFailed(link));
      if (this.stage.draw(clock.mix, calm ? null : now / 40)) {
        this.labels.draw();
        this.frames++;
      }
      this.timeline.draw();
      requestAnimationFrame(draw);
    };
    requestAnimationFrame(draw);
    this.timed();
    // For tests and measurements; the page does not use it.
    Object.assign(window, { constel: { app: this.app, stage: this.stage, page: this, count: () => this.frames } });
  }

  private connect(): void {
    const wire = socket("socket");
    const { app } = this;
    wire.onopen = () => {
      document.body.classList.remove("lost");
      if (app.clock.live) app.clock.follow();
      app.clock.attach(wire);
      this.wire = wire;
      this.weigh();
    };
    wire.onmessage = ({ data }) => {
      if (typeof data !== "string") {
        app.clock.take(data as ArrayBuffer);
        return;
      }
      const told = JSON.parse(data);
      if (told.op === "events") app.hear(told.events as Happened[]);
      else if (told.op === "now") {
        const row = told.lab as LabRow | null;
        app.lab = { row, health: told.health as PlaneReport | null, ended: told.ended };
        app.clock.told(row?.t_ns ?? null, row?.state === "running" && !told.ended);
        app.tell("lab");
      } else if (told.op === "loads") {
        if (this.weighs) app.weighed(told.links as LinkLoad[]);
      } else if (told.op === "refused") {
        app.clock.refused();
        this.say(told.error);
      }
    };
    wire.onclose = () => {
      app.clock.lost();
      this.wire = null;
      this.weighs = false;
      document.body.classList.add("lost");
      setTimeout(() => this.connect(), 2000);
    };
  }

  private wire: WebSocket | null = null;
  private weighs = false;

  /** Requests the load of links from the server while links are coloured by it and the lab's present is shown. */
  private weigh(): void {
    const wanted = this.stage.shade === "load" && this.app.isLive;
    if (wanted === this.weighs || !this.wire) return;
    this.weighs = wanted;
    this.wire.send(JSON.stringify({ op: "loads", wanted }));
    if (!wanted) this.app.weighed([]);
  }

  private async timelineSoFar(): Promise<void> {
    const { app } = this;
    for (;;) {
      try {
        const more = await get<TimelineView>("events", { from: app.events.length });
        app.known = { until: more.until_ns / 1e9, complete: more.complete };
        app.hear(more.events as unknown as Happened[]);
        if (more.complete) return;
      } catch {
        return;
      }
      await new Promise((done) => setTimeout(done, 700));
    }
  }

  private began = false;

  /** Starts the work that must not delay the first step. */
  private begun(): void {
    if (this.began) return;
    this.began = true;
    // The server computes a scenario's events on request, with the processors that the first step needs too.
    if (this.world.mode === "plan") void this.timelineSoFar();
  }

  private stepped(): void {
    const { frame, now } = this.app.clock;
    if (frame && now) {
      this.stage.positions(now, frame.then, frame.sun);
      this.begun();
      this.app.failed();
      this.stage.relink((link) => this.app.isFailed(link));
      const links = document.querySelector("#link-count");
      if (links) links.textContent = count(this.app.links.all.size);
    }
    this.timed();
  }

  private timed(): void {
    const { clock } = this.app;
    this.weigh();
    this.app.tell("time");
    need("#lab-time").textContent = seconds(clock.t);
    need("#utc").textContent = utc(this.world.start_ms + clock.t * 1e3);
    const live = this.world.mode === "lab";
    const what = !live ? (this.world.mode === "plan" ? "computed" : "replayed") : clock.live ? "live" : clock.t > clock.labT ? "computed" : "as it was";
    const badge = need("#when");
    if (badge.textContent !== what) {
      badge.textContent = what;
      badge.dataset.when = what;
    }
    need<HTMLButtonElement>("#play").textContent = clock.playing ? "❚❚" : "▶";
    need<HTMLButtonElement>("#live").classList.toggle("on", clock.live);
  }

  private verdict(): void {
    const { row, health, ended } = this.app.lab;
    const chip = need("#verdict");
    if (ended) {
      chip.textContent = "the lab is down";
      chip.className = "chip";
      return;
    }
    const { words, isGood } = judge(health, this.world.max_lateness_ns);
    const text = [row?.state ?? "", ...words].filter(Boolean).join(" · ");
    if (chip.textContent !== text) chip.textContent = text;
    chip.className = `chip ${isGood === null ? "" : isGood ? "good" : "bad"}`;
    chip.title = `Lateness of frames (99th percentile; the scenario allows ${(this.world.max_lateness_ns / 1e6).toFixed(3)} ms), and frames dropped by the emulator. The run's verdict follows at its end.`;
  }

  private async results(): Promise<void> {
    const { summary, manifest } = await get<RunView>("run");
    const chip = need("#verdict");
    const trusted = summary?.verdict.trustworthy;
    const failed = summary?.software?.failed ?? false;
    const verdict = trusted ? "trustworthy" : "NOT trustworthy";
    chip.textContent = trusted === undefined ? "the run did not finish" : failed ? `software FAILED · ${verdict}` : verdict;
    chip.className = `chip ${trusted && !failed ? "good" : "bad"}`;
    const failures = (summary?.software?.failures ?? []).map((failure) => failure.reason);
    const reasons = [...failures, ...(summary?.verdict.reasons ?? [])];
    chip.title = reasons.join("\n") || "The measurements of this run are trustworthy.";
    const body = need("#results");
    const parts: HTMLElement[] = [el("h2", {}, `Seed ${manifest.seed}, driver ${manifest.driver.name}`), ...reasons.map((why) => el("p", { class: "warn" }, why))];
    fill(body, ...parts);
    for (const flow of summary?.flows ?? []) parts.push(await this.flowResults(flow));
    // A run that did not finish has no summary, but may have samples.
    if (!summary) for (const flow of this.world.flows) parts.push(...(await this.flowCurves(flow.name, true)));
    const machine = await this.columns("machine");
    const at = machine?.columns[machine.names.indexOf("t_s")] ?? [];
    const busy = (machine?.columns[machine.names.indexOf("processor_ratio")] ?? []).map((one) => (one === null ? null : 100 * one));
    if (busy.length) parts.push(chart("The machine’s processors", "%", at.map((one) => one ?? 0), [{ name: "busy", values: busy }], this.palette, (t) => this.app.clock.scrub(t)));
    fill(body, ...parts);
  }

  /** A flow of a run: whether it is affected and why, and its curves. */
  private async flowResults(flow: FlowRow): Promise<HTMLElement> {
    const { words, is } = flowVerdict(flow);
    const status = flow.status === "ok" ? "" : `${flow.status === "failed" ? "FAILED" : "cut short"}${flow.reason ? `: ${flow.reason}` : ""}`;
    return el(
      "section",
      { class: "flow", "data-flow": flow.name },
      el("h3", {}, flow.name, el("small", {}, ` ${[flow.kind, `${flow.from}${flow.to ? ` → ${flow.to}` : ""}`, flagged(flow)].filter(Boolean).join(", ")}`)),
      status ? el("p", { class: "bad" }, status) : null,
      el("p", { class: `verdict ${is}` }, words),
      ...(flow.samples ? await this.flowCurves(flow.name, !!(flow.path_rtt || flow.bound_rtt)) : []),
    );
  }

  private async flowCurves(flow: string, hasPaths: boolean): Promise<HTMLElement[]> {
    const samples = await this.columns(flow);
    if (!samples?.columns[0]?.length) return [];
    const paths = hasPaths ? await this.columns(flow, { paths: 1 }) : null;
    const charts = flowCharts(samples, paths).map(({ unit, t, curves }) => chart(`${flow}: ${unit === "ms" ? "delay" : "throughput"}`, unit, t, curves, this.palette, (at) => this.app.clock.scrub(at)));
    return hasPaths && !paths ? [...charts, el("p", { class: "warn" }, "The lower bound is not drawn: `paths.csv` cannot be read.")] : charts;
  }

  /** A table of results; `null` where there is none, as for a flow without samples. */
  private async columns(of: string, more: Record<string, number> = {}): Promise<Columns | null> {
    try {
      return await get<Columns>("columns", { of, ...more });
    } catch {
      return null;
    }
  }

  private tabs(events: EventList, tables: Tables): void {
    const lab = this.world.mode === "lab";
    const charts = lab ? new LiveCharts(this.app, () => this.palette) : null;
    this.charts = charts;
    const networks = lab && this.world.networks.length ? new Networks(this.app, (words) => this.say(words)) : null;
    const tabs: Tab[] = [
      { name: "inspect", title: "Inspect" },
      { name: "events", title: "Events", open: () => events.draw() },
      { name: "tables", title: "Tables", open: () => tables.draw() },
      ...(charts ? [{ name: "charts", title: "Charts", open: () => void charts.look() }] : []),
      ...(networks ? [{ name: "networks", title: "Networks", open: () => void networks.look() }] : []),
      ...(this.world.mode === "run" ? [{ name: "results", title: "Results" }] : []),
    ];
    const bar = new Tabs(need("#tabs"), tabs);
    this.app.on("pick", () => this.app.pick.nodes.length && bar.open("inspect"));
  }

  private bar(): void {
    const { world, stage } = this;
    need("#name").textContent = world.name;
    need("#mode").textContent = { plan: "plan", lab: "lab", run: "run", box: "box" }[world.mode];
    document.title = `${world.name} – Constel`;
    for (const view of ["globe", "map", "topology"] as View[]) {
      need<HTMLButtonElement>(`#view-${view}`).addEventListener("click", () => this.show(view));
    }
    const shade = need<HTMLSelectElement>("#shade");
    // The load of links is known for a running lab only.
    if (world.mode !== "lab") shade.querySelector("[value=load]")?.remove();
    shade.addEventListener("change", () => {
      stage.reshade(shade.value as Shade);
      this.weigh();
      this.remember();
    });
    const palettes = need<HTMLSelectElement>("#palette");
    fill(palettes, ...PALETTES.map((one) => el("option", { value: one.name, selected: one === this.palette }, one.name)));
    palettes.addEventListener("change", () => {
      this.palette = PALETTES.find((one) => one.name === palettes.value) ?? PALETTES[0];
      localStorage.setItem("palette", this.palette.name);
      stage.palette = this.palette;
      stage.paint();
      this.legend();
      this.app.tell("palette");
      this.timeline.draw(true);
    });
    shade.addEventListener("change", () => this.legend());
    need("#keys").addEventListener("click", () => help(true));
    light.addEventListener("change", () => {
      this.app.tell("palette");
      this.timeline.draw(true);
    });
    need("#share").addEventListener("click", () => {
      this.remember();
      void navigator.clipboard?.writeText(location.href).then(() => this.say("the address of this view is copied; opening it needs a session of this server"));
    });
    this.legend();
    this.show("globe");
  }

  private legend(): void {
    const { palette, stage, world } = this;
    const box = need("#legend");
    const spot = (colour: string, words: string, shape = "line") => el("span", { class: "key" }, el("i", { class: shape, style: `background:${colour}` }), words);
    // Links of a plan cannot be failed by hand.
    const hand = world.mode === "plan" ? null : spot(palette.bad, "failed by hand");
    if (stage.shade === "kind") {
      fill(box, ...world.link_kinds.map((kind, i) => spot(palette.kinds[i], kind)), hand, spot(palette.kinds[1], "on the ground", "diamond"));
      return;
    }
    const ends = { delay: ["0 ms", "25 ms"], rate: ["0", "10 Gbit/s"], loss: ["0 %", "11 %"], load: ["0 %", "100 % of the rate, over two seconds"] }[stage.shade];
    fill(box, el("span", { class: "key" }, ends[0], el("i", { class: "scale", style: `background:linear-gradient(90deg,${palette.scale.join(",")})` }), ends[1]), hand);
  }

  private show(view: View): void {
    this.stage.view = view;
    this.stage.dirty = true;
    if (view === "topology") Object.assign(this.stage.flat, { x: 0, y: 0, zoom: 1 });
    for (const other of ["globe", "map", "topology"]) need(`#view-${other}`).setAttribute("aria-pressed", String(other === view));
    this.remember();
  }

  private search(): void {
    const field = need<HTMLInputElement>("#search");
    const list = need<HTMLElement>("#found");
    const close = () => ((list.hidden = true), field.setAttribute("aria-expanded", "false"));
    const pick = (name: string) => {
      const before = field.value.trim();
      const [, second] = before.split(/\s*(?:->|→|>)\s*/);
      if (second !== undefined && this.app.pick.nodes.length) this.app.extend(name);
      else this.app.choose([name]);
      this.turnTo(name);
      field.value = "";
      close();
    };
    field.addEventListener("input", () => {
      const found = this.app.search(field.value.split(/\s*(?:->|→|>)\s*/).pop() ?? "");
      fill(list, ...found.map((name) => el("li", { role: "option" }, el("button", { onclick: () => pick(name) }, name, el("small", {}, this.world.nodes[this.app.numbers.get(name) ?? 0].catalogue_name ?? "")))));
      list.hidden = !found.length;
      field.setAttribute("aria-expanded", String(found.length > 0));
    });
    field.addEventListener("keydown", (event) => {
      if (event.key === "Escape") close();
      if (event.key === "Enter") {
        const [first] = this.app.search(field.value.split(/\s*(?:->|→|>)\s*/).pop() ?? "");
        if (first) pick(first);
        else this.say("no node has that name or number");
      }
      if (event.key === "ArrowDown") list.querySelector("button")?.focus();
    });
    document.addEventListener("keydown", (event) => {
      const writing = (event.target as Element).closest?.("input, textarea, select, .terminal");
      if (writing || event.ctrlKey || event.metaKey || event.altKey) return;
      const by: Record<string, () => void> = {
        "/": () => field.focus(),
        " ": () => need<HTMLButtonElement>("#play").click(),
        g: () => this.show("globe"),
        m: () => this.show("map"),
        t: () => this.show("topology"),
        n: () => this.timeline.jump(1),
        p: () => this.timeline.jump(-1),
        "?": () => help(true),
      };
      if (!by[event.key] || (event.key === " " && (event.target as Element).closest?.("button"))) return;
      event.preventDefault();
      by[event.key]();
    });
  }

  private playing(): void {
    const { clock } = this.app;
    need("#play").addEventListener("click", () => {
      if (clock.live) clock.live = false;
      else clock.playing = !clock.playing;
      if (clock.playing && clock.t >= clock.durationS) clock.scrub(0);
      this.timed();
    });
    const live = need<HTMLButtonElement>("#live");
    live.hidden = this.world.mode !== "lab";
    live.addEventListener("click", () => (clock.follow(), this.timed()));
    const speed = need<HTMLSelectElement>("#speed");
    clock.speed = Number(speed.value);
    speed.addEventListener("change", () => (clock.speed = Number(speed.value)));
    need("#before").addEventListener("click", () => this.timeline.jump(-1));
    need("#after").addEventListener("click", () => this.timeline.jump(1));
  }

  /** Turns the picture so that a node is in front. */
  private turnTo(name: string): void {
    const p = this.stage.at(this.app.numbers.get(name) ?? 0);
    if (!Number.isFinite(p.x) || p.lengthSq() === 0) return;
    const [lon, lat] = [(Math.atan2(p.y, p.x) * 180) / Math.PI, (Math.asin(p.z / p.length()) * 180) / Math.PI];
    Object.assign(this.stage.eye, { lon, lat: Math.max(-80, Math.min(80, lat)) });
    this.stage.dirty = true;
  }

  private hover(hit: Hit, x: number, y: number): void {
    const name = (i: number) => this.world.nodes[i].name;
    const canvas = this.stage.canvas;
    canvas.style.cursor = hit.node !== undefined || hit.link ? "pointer" : "grab";
    const at = canvas.getBoundingClientRect();
    let words = "";
    if (hit.node !== undefined) {
      const node = this.world.nodes[hit.node];
      words = [node.name, node.catalogue_name].filter(Boolean).join(" · ");
    } else if (hit.link) {
      const link = this.app.links.between(...hit.link);
      const load = link && this.app.loads.get(key(...link.ports));
      words = `${name(hit.link[0])} – ${name(hit.link[1])}${link ? ` · ${link.delayMs.toFixed(2)} ms` : ""}${load === undefined ? "" : ` · ${(100 * load).toFixed(load < 0.1 ? 1 : 0)} % loaded`}`;
    }
    this.tip(words, x + at.left, y + at.top);
  }

  private tip(text: string, x: number, y: number): void {
    const tip = need<HTMLElement>("#tip");
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    tip.style.left = `${Math.max(4, Math.min(x + 12, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${Math.max(4, y + 14)}px`;
  }

  private remembering = 0;

  /** The view as an address, so that it can be shared and comes back with the next load. */
  private remember(): void {
    clearTimeout(this.remembering);
    this.remembering = window.setTimeout(() => {
      const { eye, view, flat } = this.stage;
      const { nodes, path } = this.app.pick;
      const of = new URLSearchParams({ view });
      if (this.stage.shade !== "kind") of.set("links", this.stage.shade);
      if (!this.app.clock.live) of.set("t", this.app.clock.t.toFixed(1));
      if (nodes.length) of.set(path ? "path" : "pick", nodes.join(" "));
      of.set("eye", view === "globe" ? [eye.lon, eye.lat, eye.far].map((n) => n.toFixed(2)).join(" ") : [flat.x, flat.y, flat.zoom].map((n) => n.toFixed(2)).join(" "));
      history.replaceState(null, "", `#${of}`);
    }, 300);
  }

  private recall(of: Map<string, string>): void {
    const view = of.get("view");
    if (view === "globe" || view === "map" || view === "topology") this.show(view);
    const shade = need<HTMLSelectElement>("#shade");
    const links = SHADES.find((one) => one === of.get("links") && shade.querySelector(`[value=${one}]`));
    if (links) {
      shade.value = links;
      this.stage.reshade(links);
      this.legend();
    }
    const eye = (of.get("eye") ?? "").split(" ").map(Number);
    if (eye.length === 3 && eye.every(Number.isFinite)) {
      if (this.stage.view === "globe") Object.assign(this.stage.eye, { lon: eye[0], lat: eye[1], far: eye[2] });
      else Object.assign(this.stage.flat, { x: eye[0], y: eye[1], zoom: eye[2] });
    }
    const t = Number(of.get("t"));
    if (of.has("t") && Number.isFinite(t) && t >= 0) this.app.clock.t = t;
    const known = (text: string) => text.split(" ").filter((name) => this.app.numbers.has(name));
    if (of.has("path")) this.app.choose(known(of.get("path") ?? ""), true);
    else if (of.has("pick")) this.app.choose(known(of.get("pick") ?? ""));
  }

  private saying = 0;

  private say(words: string): void {
    const box = need("#say");
    box.textContent = words;
    clearTimeout(this.saying);
    this.saying = window.setTimeout(() => (box.textContent = ""), 6000);
  }
}

function box(world: World): void {
  document.body.classList.add("box");
  need("#name").textContent = world.name;
  need("#mode").textContent = "box";
  document.title = `${world.name} – Constel`;
  new Rules(world, (words) => (need("#say").textContent = words));
}

void enter().then((world) => {
  if (!world) return;
  need("#door").remove();
  need<HTMLElement>("#page").hidden = false;
  if (world.mode === "box") box(world);
  else new Page(world);
  document.body.dataset.ready = "1";
});
