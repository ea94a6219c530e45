// Changes of a running lab by hand: links, nodes, flows, captures. Without `--write` there are none.

import { capture, change } from "./api";
import type { App } from "./app";
import { save } from "./charts";
import { el } from "./dom";
import type { LinkView } from "./types";

/** Changes of nodes: request, button, what has happened. */
const NODE_CHANGES: [string, string, string][] = [
  ["fail", "Fail", "all of its links are down; its programs go on"],
  ["heal", "Heal", "its links work again"],
  ["stop", "Stop", "its processes are killed and its links are down"],
  ["start", "Start", "its programs start again and its links work"],
  ["restart", "Restart", "its processes are killed and its programs start again"],
  ["pause", "Pause", "its processes stand still"],
  ["resume", "Resume", "its processes go on"],
];

const number = (form: HTMLFormElement, name: string): number | undefined => {
  const text = (form.elements.namedItem(name) as HTMLInputElement).value;
  return text === "" ? undefined : Number(text);
};

export class Hands {
  constructor(
    private readonly app: App,
    private readonly say: (words: string) => void,
    private readonly refresh: () => void,
  ) {}

  private get may(): boolean {
    return this.app.world.may_write && this.app.isLive;
  }

  private async carryOut(order: Record<string, unknown>, done: string): Promise<void> {
    try {
      await change(order);
      this.say(done);
    } catch (error) {
      this.say(`refused: ${(error as Error).message}`);
    }
    this.app.links.version++;
    this.refresh();
  }

  /** Changes of a link. The time in the form, if there is one, holds for the failure and for the settings. */
  link({ a, b }: LinkView): (Node | null)[] {
    if (!this.may) return [];
    const form = (event: Event) => (event.currentTarget as HTMLElement).closest("form") as HTMLFormElement;
    const set = (order: Record<string, unknown>, done: string) => this.carryOut({ verb: "set-link", a, b, wait: true, ...order }, `${a}–${b}: ${done}`);
    const within = (form: HTMLFormElement) => {
      const seconds = number(form, "for");
      return seconds ? { order: { for_ns: Math.round(seconds * 1e9) }, words: ` for ${seconds} s` } : { order: {}, words: "" };
    };
    const fail = (event: Event) => {
      const { order, words } = within(form(event));
      void set({ effects: { down: true }, ...order }, `failed${words}`);
    };
    const submit = (event: Event) => {
      event.preventDefault();
      const own = event.currentTarget as HTMLFormElement;
      const [delay, rate, loss] = ["delay", "rate", "loss"].map((name) => number(own, name));
      const wanted: Record<string, unknown> = {};
      if (delay !== undefined) wanted.delay_ns = Math.round(delay * 1e6);
      if (rate !== undefined) wanted.rate_bps = Math.round(rate * 1e6);
      if (loss !== undefined) wanted.loss = { random: { ratio: loss / 100 } };
      if (!Object.keys(wanted).length) {
        this.say("give a delay, a rate or a loss");
        return;
      }
      const { order, words } = within(own);
      void set({ effects: wanted, ...order }, `set${words}`);
    };
    const field = (name: string, unit: string, title = name) => el("label", {}, title, el("input", { name, type: "number", step: "any", min: "0", placeholder: unit }), unit);
    return [
      el(
        "form",
        { class: "impair", onsubmit: submit },
        el("button", { id: "fail", type: "button", onclick: fail }, "Fail"),
        el("button", { id: "heal", type: "button", onclick: () => void set({ effects: { down: false } }, "healed") }, "Heal"),
        el("button", { type: "button", onclick: () => void set({ effects: {}, reset: true }, "reset to the scenario’s values") }, "Reset"),
        field("delay", "ms"),
        field("rate", "Mbit/s"),
        field("loss", "%"),
        field("for", "s", "for"),
        el("button", {}, "Set"),
      ),
    ];
  }

  /** Changes of a node. Hosts that only have cables may be refused; the reason is shown. */
  node(name: string): HTMLElement | null {
    if (!this.may) return null;
    const button = ([order, title, done]: [string, string, string]) =>
      el("button", { "data-change": order, title: `${title}: ${done}`, onclick: () => void this.carryOut({ verb: "set-nodes", nodes: [name], change: order, wait: true }, `${name}: ${done}`) }, title);
    return el("div", { class: "buttons", role: "group", "aria-label": `change ${name}` }, ...NODE_CHANGES.map(button));
  }

  /** The satellites of a station: with a satellite, that the station uses it; in any case that it uses none, or those of its policy again. */
  station(station: string, satellite: string | null): HTMLElement | null {
    if (!this.may) return null;
    const button = (id: string, title: string, change: Record<string, unknown>, done: string) =>
      el("button", { id, title: done, onclick: () => void this.carryOut({ verb: "set-station", stations: [station], change }, `${station}: ${done}`) }, title);
    return el(
      "div",
      { class: "buttons", role: "group", "aria-label": `satellites of ${station}` },
      satellite ? button("attach", "Attach", { kind: "attach", satellite }, `it uses ${satellite} while it can`) : null,
      button("detach", "Detach", { kind: "detach" }, "it uses no satellite"),
      button("by-policy", "By policy", { kind: "policy" }, "its policy chooses again"),
    );
  }

  /** Saves the frames of a node for some seconds as pcapng, which Wireshark opens. */
  capture(of: string): HTMLElement | null {
    if (!this.may) return null;
    const submit = (event: Event) => {
      event.preventDefault();
      const form = event.currentTarget as HTMLFormElement;
      const seconds = number(form, "for") ?? 10;
      const filter = (form.elements.namedItem("filter") as HTMLInputElement).value.trim();
      this.say(`${of}: capturing for ${seconds} s`);
      capture({ of, for_s: seconds, ...(filter ? { filter } : {}) }).then(
        (bytes) => {
          save([bytes], "application/vnd.tcpdump.pcap", `${this.app.world.name} ${of}`, "pcapng");
          this.say(`${of}: the capture is saved, ${bytes.byteLength.toLocaleString("en-GB")} bytes`);
        },
        (error) => this.say(`refused: ${(error as Error).message}`),
      );
    };
    return el(
      "form",
      { class: "impair capture", onsubmit: submit },
      el("label", {}, el("input", { name: "for", type: "number", min: "1", max: "60", value: "10", "aria-label": "seconds of the capture" }), "s"),
      el("label", {}, "only ", el("input", { name: "filter", placeholder: "protocol: udp", "aria-label": "filter of the capture", class: "long" })),
      el("button", { class: "capture", title: "save the frames as pcapng, for Wireshark" }, "Capture"),
    );
  }

  /** Starts a flow between two nodes. Its measurements are under Charts. */
  flow(from: string, to: string): HTMLElement | null {
    if (!this.may) return null;
    const tool = el("select", { name: "tool", "aria-label": "the flow's tool" }, el("option", { value: "ping" }, "ping"), el("option", { value: "tcp" }, "TCP (iperf3)"));
    const time = el("input", { name: "for", type: "number", min: "1", max: "600", value: "30", "aria-label": "seconds" });
    const submit = (event: Event) => {
      event.preventDefault();
      const field = (name: string) => ((event.currentTarget as HTMLFormElement).elements.namedItem(name) as HTMLInputElement).value;
      const flow = { tool: field("tool"), from, to, for_s: Number(field("for")) };
      change({ flow }).then(
        () => this.say(`${from} → ${to}: the flow has started; its chart is under Charts`),
        (error) => this.say(`refused: ${(error as Error).message}`),
      );
    };
    return el("form", { class: "impair", id: "flow-form", onsubmit: submit }, el("label", {}, "Flow ", tool), el("label", {}, time, "s"), el("button", { id: "start-flow" }, "Start a flow"));
  }
}
