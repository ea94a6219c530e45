// The time line: the past, the computed future and the present, with events as ticks.

import type { App } from "./app";
import { need } from "./dom";
import { onPaper, type Palette, rem, shade } from "./palette";
import { event as said, seconds } from "./words";

const HIGH = 46;

export class Timeline {
  private readonly canvas = need<HTMLCanvasElement>("#timeline");
  private stale = true;
  private dragging = false;

  constructor(
    private readonly app: App,
    private palette: () => Palette,
    private readonly tip: (text: string, x: number, y: number) => void,
    private readonly say: (words: string) => void,
  ) {
    const at = (event: PointerEvent) => (event.offsetX / this.canvas.clientWidth) * this.end;
    this.canvas.addEventListener("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      this.dragging = true;
      const tick = this.near(event.offsetX);
      app.clock.scrub(tick ? (tick.t_ns ?? 0) / 1e9 : at(event));
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (this.dragging) app.clock.scrub(at(event));
      const tick = this.near(event.offsetX);
      const words = tick ? `${seconds((tick.t_ns ?? 0) / 1e9)}  ${said(tick as unknown as Record<string, unknown>)}` : seconds(at(event));
      this.tip(words, event.clientX, event.clientY - 34);
    });
    for (const end of ["pointerup", "pointercancel"]) this.canvas.addEventListener(end, () => (this.dragging = false));
    this.canvas.addEventListener("pointerleave", () => this.tip("", 0, 0));
    this.canvas.addEventListener("keydown", (event) => {
      const far = event.shiftKey ? 10 : 1;
      const step = app.clock.stepS * far;
      const go: Record<string, () => void> = {
        ArrowLeft: () => app.clock.scrub(Math.max(0, (app.step - far) * app.clock.stepS)),
        ArrowRight: () => app.clock.scrub((app.step + far) * app.clock.stepS),
        Home: () => app.clock.scrub(0),
        End: () => app.clock.scrub(Math.max(0, app.clock.durationS - step)),
        PageUp: () => this.jump(-1),
        PageDown: () => this.jump(1),
      };
      if (!go[event.key]) return;
      event.preventDefault();
      go[event.key]();
    });
    app.on("events", () => (this.stale = true));
    window.addEventListener("resize", () => (this.stale = true));
  }

  /** Shows the previous or the next event, and says which. */
  jump(way: number): void {
    const now = this.app.clock.t * 1e9;
    const all = this.app.events.filter((event) => event.t_ns !== undefined && event.t_ns !== null && TICKS[event.kind as string]);
    const next = way > 0 ? all.find((event) => (event.t_ns ?? 0) > now + 1e6) : [...all].reverse().find((event) => (event.t_ns ?? 0) < now - 1e6);
    if (!next) {
      this.say(way > 0 ? "no later event is known" : "no earlier event");
      return;
    }
    const t = (next.t_ns ?? 0) / 1e9;
    this.app.clock.scrub(t);
    this.say(`${seconds(t)} ${said(next as unknown as Record<string, unknown>)}`);
  }

  private get end(): number {
    return Math.max(this.app.clock.durationS, this.app.clock.t, this.app.clock.labT, 1);
  }

  private near(x: number) {
    const scale = this.canvas.clientWidth / this.end;
    let [best, found] = [5, undefined as (typeof this.app.events)[number] | undefined];
    for (const event of this.app.events) {
      if (event.t_ns === undefined || event.t_ns === null || !TICKS[event.kind as string]) continue;
      const far = Math.abs((event.t_ns / 1e9) * scale - x);
      if (far < best) [best, found] = [far, event];
    }
    return found;
  }

  private back: HTMLCanvasElement | null = null;
  private last = -1;

  draw(force = false): void {
    const { clock } = this.app;
    if (!force && !this.stale && this.last === clock.t) return;
    this.stale ||= force;
    this.last = clock.t;
    const ratio = window.devicePixelRatio || 1;
    const wide = this.canvas.clientWidth;
    if (!wide) return;
    if (this.canvas.width !== Math.round(wide * ratio)) {
      [this.canvas.width, this.canvas.height] = [Math.round(wide * ratio), Math.round(HIGH * ratio)];
      this.stale = true;
    }
    const live = this.app.world.mode === "lab";
    if (this.stale || !this.back || live) this.paint(ratio, wide);
    this.stale = false;
    const pen = this.canvas.getContext("2d");
    if (!pen || !this.back) return;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    pen.drawImage(this.back, 0, 0);
    pen.scale(ratio, ratio);
    const x = (clock.t / this.end) * wide;
    pen.fillStyle = shade("--text");
    pen.fillRect(x - 0.75, 0, 1.5, HIGH - 14);
    pen.beginPath();
    pen.moveTo(x - 5, 0);
    pen.lineTo(x + 5, 0);
    pen.lineTo(x, 7);
    pen.fill();
    this.canvas.setAttribute("aria-valuenow", clock.t.toFixed(1));
    this.canvas.setAttribute("aria-valuemax", this.end.toFixed(0));
    this.canvas.setAttribute("aria-valuetext", seconds(clock.t));
  }

  private paint(ratio: number, wide: number): void {
    const { app } = this;
    const back = (this.back ??= document.createElement("canvas"));
    [back.width, back.height] = [this.canvas.width, this.canvas.height];
    const pen = back.getContext("2d");
    if (!pen) return;
    pen.scale(ratio, ratio);
    const scale = wide / this.end;
    const base = HIGH - 14;
    pen.fillStyle = shade("--raised");
    pen.fillRect(0, 8, wide, base - 8);
    // The past of a lab, or the part of a scenario that is computed.
    const known = (app.world.mode === "lab" ? app.clock.labT : app.known.until) * scale;
    pen.fillStyle = shade("--known");
    pen.fillRect(0, 8, known, base - 8);
    if (app.world.mode === "lab") {
      pen.strokeStyle = shade("--edge");
      pen.beginPath();
      for (let x = known; x < wide; x += 8) {
        pen.moveTo(x, base);
        pen.lineTo(x + 8, 8);
      }
      pen.stroke();
      pen.fillStyle = onPaper(this.palette().good);
      pen.fillRect(known - 1, 8, 2, base - 8);
    }
    for (const event of app.events) {
      const tick = TICKS[event.kind as string];
      if (event.t_ns === undefined || event.t_ns === null || !tick) continue;
      const palette = this.palette();
      pen.fillStyle = onPaper(tick === "bad" ? palette.bad : tick === "good" ? palette.good : tick === "hand" ? palette.kinds[1] : palette.kinds[0]);
      const high = tick === "soft" ? 8 : 16;
      pen.fillRect((event.t_ns / 1e9) * scale - 0.6, base - high, 1.2, high);
    }
    pen.fillStyle = shade("--soft");
    const size = rem();
    pen.font = `${Math.round(size * 0.84)}px system-ui, sans-serif`;
    pen.textAlign = "center";
    const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400];
    const each = steps.find((step) => step * scale > 5.7 * size) ?? 86400;
    for (let t = 0; t <= this.end; t += each) {
      const x = t * scale;
      pen.fillRect(x, base, 1, 3);
      if (x > 14 && x < wide - 14) pen.fillText(seconds(t).replace(/\.0$/, ""), x, HIGH - 1);
    }
  }
}

/** Which events are ticks, and how they look. */
const TICKS: Record<string, string> = {
  handover: "soft",
  failure: "bad",
  repair: "good",
  "link-set": "hand",
  "nodes-set": "hand",
  "daemon-died": "bad",
  "container-ended": "bad",
  "helper-died": "bad",
  "flow-started": "hand",
  "flow-ended": "hand",
  "path-changed": "soft",
  "rules-changed": "hand",
};
