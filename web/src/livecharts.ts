// Curves of a running lab: lateness of frames, the machine, the picked link, flows.

import { get } from "./api";
import type { App } from "./app";
import { living } from "./charts";
import { type Curve, flowCharts } from "./curves";
import { el, need, patch, table } from "./dom";
import { lossRows } from "./flowtable";
import type { Palette } from "./palette";
import { Rate } from "./rate";
import type { Columns, FlowNow } from "./types";

const EVERY_MS = 2000;

type Drawn = ReturnType<typeof living>;

export class LiveCharts {
  private readonly body = need<HTMLElement>("#charts");
  private readonly drawn = new Map<string, Drawn>();
  private late: { t: number[]; p99: number[]; frames: number[] } = { t: [], p99: [], frames: [] };
  private readonly arrived = new Rate();
  private busy = false;
  private readonly flows = el("div", { id: "live-flows" });
  private readonly losses = el("div", { id: "live-losses" });
  private readonly over = new Set<string>();
  private failed = false;

  constructor(
    private readonly app: App,
    private readonly palette: () => Palette,
  ) {
    app.on("lab", () => this.lateness());
    app.on("palette", () => {
      this.drawn.forEach(({ box }) => box.remove());
      this.drawn.clear();
      this.over.clear();
    });
    this.body.append(this.flows, this.losses);
    this.body.append(el("p", { class: "hint" }, "Pick a link to chart its traffic. Flows of the scenario are charted when they have ended; flows started here, at once."));
    setInterval(() => void this.look(), EVERY_MS);
  }

  /** The report of health comes with the lab's time, and repeats until the next sample, some seconds later. */
  private lateness(): void {
    const { health, row } = this.app.lab;
    if (!health) return;
    const rate = this.arrived.take(health.totals.counters.delivered, health.at_ns / 1e9);
    const t = (row?.t_ns ?? 0) / 1e9;
    if (rate === null || t <= (this.late.t.at(-1) ?? 0)) return;
    this.late.t.push(t);
    this.late.p99.push((health.lateness?.p99_ns ?? 0) / 1e3);
    this.late.frames.push(rate);
    if (this.late.t.length > 3600) for (const column of [this.late.t, this.late.p99, this.late.frames]) column.splice(0, 600);
  }

  private put(key: string, title: string, unit: string, t: number[], curves: Curve[]): void {
    const known = this.drawn.get(key);
    if (known) return known.set(t, curves.map((curve) => curve.values));
    const made = living(title, unit, t, curves, this.palette(), (at) => this.app.clock.scrub(at));
    made.box.dataset.chart = key;
    this.drawn.set(key, made);
    this.body.append(made.box);
  }

  /** Updates the charts while they are visible. */
  async look(): Promise<void> {
    if (this.busy || document.hidden || !this.body.offsetParent) return;
    this.busy = true;
    try {
      await this.draw();
      this.failed = false;
    } catch (error) {
      if (!this.failed) this.body.append(el("p", { class: "bad" }, String((error as Error).message)));
      this.failed = true;
    }
    this.busy = false;
  }

  /** The scenario's flows and their state, and the frames that were lost so far. */
  private tables(): void {
    const { app } = this;
    const { flows } = app.world;
    const state = (name: string) => {
      const own = app.events.filter((event) => event.flow === name);
      const ended = own.find((event) => event.kind === "flow-ended");
      if (ended) return ended.exit === 0 ? "ended" : `ended with exit code ${ended.exit}`;
      return own.some((event) => event.kind === "flow-started") ? "runs" : "waits";
    };
    // A single word is not broken, however narrow its column.
    const whole = (words: string) => el("span", { class: words.includes(" ") ? "" : "num" }, words);
    const name = ({ name, from, to }: (typeof flows)[number]) => el("button", { class: "name", onclick: () => app.choose([from, to], true) }, name);
    if (flows.length) patch(this.flows, table(["Flow", "From, to", "State"], flows.map((flow) => [name(flow), `${flow.from} → ${flow.to}`, whole(state(flow.name))]), "Flows of the scenario"));
    const lost = app.lab.health ? lossRows(app.lab.health) : [];
    patch(this.losses, lost.length ? table(["Frames lost so far, all links", "Number"], lost) : el("p", { class: "hint" }, "No frame was lost on any link so far."));
  }

  private async draw(): Promise<void> {
    const { app } = this;
    this.tables();
    const machine = await get<Columns>("columns", { of: "machine" });
    const column = (name: string) => machine.columns[machine.names.indexOf(name)] ?? [];
    // Seconds since the run began: some pass before lab time zero.
    const [t, busy] = [column("t_s").map((one) => one ?? 0), column("processor_ratio").map((one) => (one === null ? null : 100 * one))];
    if (t.length) this.put("machine", "The machine’s processors, since the run began", "%", t, [{ name: "busy", values: busy }]);
    const { late } = this;
    if (late.t.length) {
      this.put("late", "Lateness of frames, 99th percentile", "µs", late.t, [{ name: "p99", values: late.p99 }]);
      this.put("frames", "Frames delivered", "frames/s", late.t, [{ name: "frames", values: late.frames }]);
    }
    const { link, t: at, mbps, queue, lost } = app.counts;
    for (const key of [...this.drawn.keys()]) {
      if (!key.startsWith("link ") || key.endsWith(` ${link}`)) continue;
      this.drawn.get(key)?.box.remove();
      this.drawn.delete(key);
    }
    if (at.length) {
      this.put(`link carried ${link}`, `${link}, both directions: throughput`, "Mbit/s", at, [{ name: "throughput", values: mbps }]);
      this.put(`link queue ${link}`, `${link}, both directions: queue`, "bytes", at, [{ name: "queue", values: queue }]);
      this.put(`link lost ${link}`, `${link}, both directions: lost`, "% of frames", at, [{ name: "lost", values: lost }]);
    }
    if (app.world.may_write) for (const flow of await get<FlowNow[]>("flows")) this.flow(flow);
    await this.ended();
  }

  private flow({ id, tool, from, to, samples, words, ended }: FlowNow): void {
    const unit = tool === "ping" ? "ms" : "Mbit/s";
    const name = tool === "ping" ? "round trip" : "throughput";
    const key = `flow ${id}`;
    if (samples.length) this.put(key, `${from} → ${to}, ${name}, since its start`, unit, samples.map((_, i) => i / 2), [{ name, values: samples }]);
    else if (ended && !this.over.has(key)) this.body.append(el("p", { class: "bad" }, `${from} → ${to}: ${words.join(" ") || "no measurements"}`));
    if (ended) this.over.add(key);
  }

  /** Charts flows of the scenario that have ended since the last call. */
  private async ended(): Promise<void> {
    for (const event of this.app.events) {
      const name = String(event.flow);
      if (event.kind !== "flow-ended" || this.over.has(name)) continue;
      this.over.add(name);
      try {
        const samples = await get<Columns>("columns", { of: name });
        const paths = await get<Columns>("columns", { of: name, paths: 1 }).catch(() => null);
        for (const { unit, t, curves } of flowCharts(samples, paths)) this.put(`${name} ${unit}`, name, unit, t, curves);
      } catch {
        // A flow without samples has no table.
      }
    }
  }
}
