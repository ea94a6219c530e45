// The instant that is shown: it plays, is scrubbed, or follows a lab. Steps are requested before they are needed.

import { Frame, Links, read } from "./frame";

export class Clock {
  /** Lab time that is shown, seconds. */
  t = 0;
  playing = false;
  /** Seconds of lab time a second. */
  speed = 10;
  /** Follows the lab. */
  live = false;
  frame: Frame | null = null;
  now: Float32Array | null = null;
  bytes: number[] = [];
  /** The latest time reported by the lab, and when it was received. */
  private lab: { t: number; at: number; runs: boolean } | null = null;
  private waiting: Frame[] = [];
  private asked: { step: number; ahead: number } | null = null;
  private wanted: number | null = null;
  private socket: WebSocket | null = null;

  constructor(
    readonly stepS: number,
    readonly durationS: number,
    readonly links: Links,
    private readonly shown: () => void,
  ) {}

  attach(socket: WebSocket): void {
    this.socket = socket;
    this.asked = null;
    this.ask(Math.floor(this.t / this.stepS));
  }

  /** Takes a step from the server. */
  take(buffer: ArrayBuffer): void {
    const frame = read(buffer);
    this.asked = null;
    this.bytes.push(frame.bytes);
    if (this.bytes.length > 400) this.bytes.splice(0, 200);
    this.waiting.push(frame);
    if (this.wanted !== null) {
      const wanted = this.wanted;
      this.wanted = null;
      if (frame.step !== wanted) {
        this.ask(wanted);
        return;
      }
    }
    this.advance(true);
  }

  refused(): void {
    this.asked = null;
    this.wanted = null;
  }

  /** Takes the lab's time; null while its clock is held. */
  told(tNs: number | null, runs: boolean): void {
    this.lab = { t: (tNs ?? 0) / 1e9, at: performance.now(), runs: runs && tNs !== null };
  }

  /** Lab time of a running lab, as far as is known. */
  get labT(): number {
    if (!this.lab) return 0;
    return this.lab.runs ? this.lab.t + (performance.now() - this.lab.at) / 1e3 : this.lab.t;
  }

  scrub(t: number): void {
    this.live = false;
    this.t = Math.max(0, t);
    const step = Math.floor(this.t / this.stepS);
    if (this.covers(this.frame)) this.advance(false);
    else this.ask(step);
    this.shown();
  }

  follow(): void {
    this.live = true;
    this.playing = false;
    this.t = this.labT;
    this.ask(Math.floor(this.t / this.stepS));
  }

  /** Time goes on by so many seconds of the wall; whether anything moves. */
  tick(dt: number): boolean {
    if (this.live) this.t = this.labT;
    else if (this.playing) {
      this.t = Math.min(this.t + dt * this.speed, Math.max(this.durationS, this.t));
      if (this.t >= this.durationS) this.playing = false;
    } else return false;
    this.advance(false);
    return true;
  }

  /** How far between the positions of the step and the later ones, 0 to 1. */
  get mix(): number {
    const frame = this.frame;
    if (!frame) return 0;
    const span = frame.thenNs - frame.tNs;
    return Math.min(1, Math.max(0, (this.t * 1e9 - frame.tNs) / span));
  }

  private covers(frame: Frame | null | undefined): boolean {
    const ns = this.t * 1e9;
    return !!frame && frame.tNs <= ns + 1 && ns < frame.thenNs;
  }

  /** Shows the waiting steps that are due, and requests the next. */
  private advance(come: boolean): void {
    let changed = false;
    while (this.waiting.length && (!this.covers(this.frame) || this.waiting.length > 1)) {
      const next = this.waiting[0];
      // It is for later.
      if (this.waiting.length === 1 && this.frame && this.t * 1e9 < next.tNs && this.covers(this.frame)) break;
      this.waiting.shift();
      this.now = next.now ?? this.frame?.then ?? next.then;
      this.frame = next;
      this.links.apply(next);
      changed = true;
    }
    if (!this.covers(this.frame) && !this.waiting.length) this.ask(Math.floor(this.t / this.stepS));
    else if ((this.playing || this.live) && this.frame && !this.waiting.length && !this.asked) {
      this.ask(Math.round(this.frame.thenNs / 1e9 / this.stepS));
    }
    if (changed || come) this.shown();
  }

  private ask(step: number): void {
    if (this.asked) {
      this.wanted = this.asked.step === step ? null : step;
      return;
    }
    if (this.socket?.readyState !== WebSocket.OPEN) return;
    const quick = this.playing && !this.live ? this.speed : 1;
    // At most some four steps a second.
    const ahead = Math.max(1, Math.ceil(quick / 4 / this.stepS));
    this.asked = { step, ahead };
    this.socket.send(JSON.stringify({ op: "step", step, ahead }));
  }

  /** Forgets the open request: the connection is lost. */
  lost(): void {
    this.socket = null;
    this.asked = null;
    this.waiting = [];
    this.wanted = null;
  }
}
