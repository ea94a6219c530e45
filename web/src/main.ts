// The page: creates its parts, and draws when something has changed.

import "@xterm/xterm/css/xterm.css";
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { parsed, type Viewed, written } from "./address";
import { Refused, get, session, socket } from "./api";
import { App, type Happened, type LabRow } from "./app";
import { build } from "./build";
import { el, fill, need } from "./dom";
import { EventList } from "./eventlist";
import { health as judge } from "./health";
import { hover, tip } from "./hover";
import { attach } from "./input";
import { help } from "./keys";
import { Labels } from "./labels";
import { legend } from "./legend";
import { LiveCharts } from "./livecharts";
import { Networks } from "./networks";
import { light, PALETTES, type Palette } from "./palette";
import { Panel } from "./panel";
import { Results } from "./results";
import { Rules } from "./rules";
import { Search } from "./search";
import { Stage } from "./stage";
import { Tables } from "./tables";
import { type Tab, Tabs } from "./tabs";
import { Terminals } from "./terminal";
import { Timeline } from "./timeline";
import type { LinkLoad, PlaneReport, Timeline as TimelineView, World } from "./types";
import { type Shade, type View, VIEWS } from "./views";
import { count, seconds, utc } from "./words";

/** Least time between two pictures where there is no graphics card, milliseconds. */
const SOFTWARE_MS = 100;

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
    this.timeline = new Timeline(this.app, () => this.palette, tip, (words) => this.say(words));
    this.labels = new Labels(need("#labels"), this.stage, this.app);
    new Panel(this.app, this.stage, () => this.palette, (node) => this.terminals.start(node), (words) => this.say(words));
    const events = new EventList(this.app);
    const tables = new Tables(this.app);
    this.tabs(events, tables);
    this.bar();
    this.keys(new Search(this.app, (node) => this.show([node]), (words) => this.say(words)));
    this.playing();
    attach(this.stage, this.app, (hit, x, y) => hover(this.app, this.stage.canvas, hit, x, y), () => {
      this.following = false;
      this.remember();
    });
    this.app.on("step", () => this.stepped());
    this.app.on("pick", () => {
      const { nodes, path } = this.app.pick;
      // Both ends of a path are in view, until the reader turns the picture.
      this.following = path;
      if (path) this.show(nodes);
      this.remember();
    });
    this.app.on("lab", () => this.verdict());
    this.app.on("loads", () => {
      this.stage.loads = this.app.loads;
      if (this.stage.shade === "load") this.stage.stale();
    });
    const { clock } = this.app;
    const asked = parsed(location.hash, (node) => this.app.numbers.has(node));
    this.recall(asked);
    if (world.mode === "lab" && asked.t === undefined) clock.live = true;
    this.connect();
    if (world.mode === "run") {
      void this.timelineSoFar();
      const results = new Results(this.app, () => this.palette);
      void results.draw();
      this.app.on("palette", () => void results.draw());
    }
    new ResizeObserver(() => this.stage.resize()).observe(need("#stage"));
    this.stage.resize();
    const { following } = this;
    this.app.tell("pick");
    // An address that has the eye keeps it.
    this.following = following;
    let last = performance.now();
    let drawn = -SOFTWARE_MS;
    const draw = (now: number) => {
      const dt = Math.min(0.25, (now - last) / 1e3);
      last = now;
      if (clock.tick(dt)) this.timed();
      this.app.failed();
      this.stage.relink((link) => this.app.isFailed(link));
      // Without a graphics card drawing takes the processors that the rest of the page needs.
      const rests = !this.stage.card && now - drawn < SOFTWARE_MS;
      if (!rests && this.stage.draw(clock.mix, calm ? null : now / 40)) {
        drawn = now;
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
      this.stage.positions(now, frame.then, frame.sun, (frame.thenNs - frame.tNs) / 1e9);
      this.begun();
      this.app.failed();
      this.stage.relink((link) => this.app.isFailed(link));
      const links = document.querySelector("#link-count");
      if (links) links.textContent = count(this.app.links.all.size);
      const { nodes } = this.app.pick;
      if (this.following && !this.stage.sees(this.numbers(nodes))) this.show(nodes);
      const kinds = [...new Set([...this.app.links.all.values()].map((link) => link.kind))].sort().join();
      if (kinds !== this.kinds) {
        this.kinds = kinds;
        this.legend();
      }
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
    const play = need<HTMLButtonElement>("#play");
    play.textContent = clock.playing ? "❚❚" : "▶";
    play.setAttribute("aria-label", clock.playing ? "pause" : "play");
    const now = need<HTMLButtonElement>("#live");
    now.classList.toggle("on", clock.live);
    now.setAttribute("aria-pressed", String(clock.live));
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
    for (const view of VIEWS) need(`#view-${view}`).addEventListener("click", () => this.look(view));
    need("#view-swarm").hidden = !stage.swarm;
    const trails = need("#trails");
    const pressed = () => trails.setAttribute("aria-pressed", String(stage.trailing));
    trails.addEventListener("click", () => ((stage.trailing = !stage.trailing), pressed()));
    pressed();
    const builder = need("#build");
    builder.hidden = world.mode !== "plan";
    builder.addEventListener("click", () => {
      clearTimeout(this.remembering);
      location.hash = "build";
      location.reload();
    });
    stage.rescaled = () => stage.shade === "delay" && this.legend();
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
    this.look("globe");
  }

  /** Kinds of links that are there, which the legend has. */
  private kinds = "";

  private legend(): void {
    legend(need("#legend"), this.palette, this.stage, this.world);
  }

  private look(view: View): void {
    if (view === "swarm" && !this.stage.swarm) return;
    this.stage.view = view;
    this.stage.dirty = true;
    if (view === "topology" || view === "swarm") Object.assign(this.stage.flat, { x: 0, y: 0, zoom: 1 });
    for (const other of VIEWS) need(`#view-${other}`).setAttribute("aria-pressed", String(other === view));
    this.remember();
  }

  /** Whether both ends of the picked path are kept in view. */
  private following = false;

  private numbers(nodes: string[]): number[] {
    return nodes.map((node) => this.app.numbers.get(node) ?? -1).filter((i) => i >= 0);
  }

  /** Turns the picture so that these nodes are in view. */
  private show(nodes: string[]): void {
    this.stage.show(this.numbers(nodes), calm);
  }

  private keys(search: Search): void {
    document.addEventListener("keydown", (event) => {
      const target = event.target as Element;
      const writing = target.closest?.("input, textarea, select, .terminal, dialog");
      if (writing || event.ctrlKey || event.metaKey || event.altKey) return;
      const by: Record<string, () => void> = {
        "/": () => search.focus(),
        " ": () => need<HTMLButtonElement>("#play").click(),
        g: () => this.look("globe"),
        m: () => this.look("map"),
        t: () => this.look("topology"),
        s: () => this.look("swarm"),
        o: () => need<HTMLButtonElement>("#trails").click(),
        n: () => this.timeline.jump(1),
        p: () => this.timeline.jump(-1),
        "?": () => help(true),
      };
      if (!by[event.key] || (event.key === " " && target.closest?.("button"))) return;
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

  private remembering = 0;

  private remember(): void {
    clearTimeout(this.remembering);
    this.remembering = window.setTimeout(() => {
      const { view, shade, eye, flat } = this.stage;
      const { clock, pick } = this.app;
      history.replaceState(null, "", `#${written({ view, shade, t: clock.live ? null : clock.t, pick, eye, flat })}`);
    }, 300);
  }

  private recall(of: Partial<Viewed>): void {
    const { stage, app } = this;
    if (of.view) this.look(of.view);
    const shade = need<HTMLSelectElement>("#shade");
    if (of.shade && shade.querySelector(`[value=${of.shade}]`)) {
      shade.value = of.shade;
      stage.reshade(of.shade);
      this.legend();
    }
    if (of.t !== undefined && of.t !== null) app.clock.t = of.t;
    if (of.pick) app.choose(of.pick.nodes, of.pick.path);
    if (of.eye) Object.assign(stage.eye, of.eye);
    if (of.flat) Object.assign(stage.flat, of.flat);
    if (of.eye || of.flat) this.following = false;
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
  else if (world.mode === "plan" && (!world.file || location.hash === "#build")) build(world);
  else new Page(world);
  document.body.dataset.ready = "1";
});
