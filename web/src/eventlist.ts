// The events around the instant that is shown.

import type { App, Happened } from "./app";
import { el, need, patch } from "./dom";
import { detail, numberOfEvents, seconds, title } from "./words";

/** The list of events around the instant: in the order of time, or the latest on top for a running lab. */
export class EventList {
  private readonly body = need<HTMLElement>("#events");
  /** The number of events before the instant when they were last drawn. */
  private before = -1;

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
      { class: t !== null && t > now ? "ahead" : "", "data-key": String(event.seq) },
      el("button", { class: "name", disabled: t === null, onclick: () => t !== null && this.app.clock.scrub(t) }, t === null ? "startup" : seconds(t)),
      " ",
      el("b", {}, title(event.kind)),
      " ",
      detail(event),
    );
  }

  draw(): void {
    if (!this.body.offsetParent) return;
    const now = this.app.clock.t + 1e-6;
    const all = this.app.events;
    let at = all.findIndex((event) => (event.t_ns ?? -1) / 1e9 > now);
    if (at < 0) at = all.length;
    const shown = all.slice(Math.max(0, at - 150), at + 60);
    const { known, world, clock, lab } = this.app;
    const isLive = world.mode === "lab";
    patch(this.body, el("ol", { class: "events" }, ...(isLive ? shown.reverse() : shown).map((event) => this.row(event, now))));
    // In a long list the events around the instant stay in view.
    if (!isLive && at !== this.before) (this.body.querySelector("li.ahead") ?? this.body.querySelector("li:last-child"))?.scrollIntoView({ block: "nearest" });
    this.before = at;
    // A lab's log is complete up to the present, however long ago the last event was.
    const started = !isLive || typeof lab.row?.t_ns === "number";
    const until = isLive ? Math.max(known.until, clock.labT) : known.until;
    // The page drops old events; their numbers go on.
    const number = Math.max(all.length, all.at(-1)?.seq ?? 0);
    need("#event-count").textContent = numberOfEvents(number, world.mode === "plan", known.complete ? "all" : started ? until : "not started");
  }
}
