// A shell in a node. The server waits for what the page has shown, so that a program that writes for ever costs nothing.

import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import { socket } from "./api";
import { el, need } from "./dom";

export class Terminals {
  private readonly dock = need<HTMLElement>("#dock");
  private readonly tabs = need<HTMLElement>("#dock-tabs");
  private readonly bodies = need<HTMLElement>("#dock-bodies");
  private open: { node: string; tab: HTMLElement; body: HTMLElement; fit: () => void; close: () => void; focus: () => void }[] = [];

  constructor() {
    window.addEventListener("resize", () => this.open.forEach((one) => !one.body.hidden && one.fit()));
  }

  start(node: string): void {
    const known = this.open.find((one) => one.node === node);
    if (known) return this.show(known);
    this.dock.hidden = false;
    const body = el("div", { class: "terminal" });
    this.bodies.append(body);
    const terminal = new Terminal({ fontSize: 13, scrollback: 5000, theme: { background: "#0a111a" }, screenReaderMode: true });
    const fit = new FitAddon();
    terminal.loadAddon(fit);
    terminal.open(body);
    const wire = socket(`shell?node=${encodeURIComponent(node)}`);
    const say = (message: unknown) => wire.readyState === WebSocket.OPEN && wire.send(JSON.stringify(message));
    let shown = 0;
    let told = 0;
    const size = () => {
      fit.fit();
      say({ op: "size", columns: terminal.cols, rows: terminal.rows });
    };
    wire.onopen = size;
    wire.onmessage = ({ data }) => {
      if (typeof data === "string") {
        const { op, error, code } = JSON.parse(data);
        terminal.writeln(op === "ended" ? `\r\n[ended${code === null ? "" : `, exit code ${code}`}]` : `\r\n[${error}]`);
        return;
      }
      terminal.write(new Uint8Array(data), () => {
        shown += data.byteLength;
        // The rest is acknowledged with the next message: the window is far larger than this.
        if (shown - told > 16384) say({ op: "shown", bytes: (told = shown) });
      });
    };
    wire.onclose = () => terminal.writeln("\r\n[closed]");
    const bytes = new TextEncoder();
    terminal.onData((text) => wire.readyState === WebSocket.OPEN && wire.send(bytes.encode(text)));
    terminal.onResize(({ cols, rows }) => say({ op: "size", columns: cols, rows }));
    const tab = el("span", { class: "tab" });
    const one = {
      node,
      tab,
      body,
      fit: size,
      focus: () => terminal.focus(),
      close: () => {
        wire.close();
        terminal.dispose();
        tab.remove();
        body.remove();
        this.open = this.open.filter((other) => other !== one);
        if (this.open.length) this.show(this.open[0]);
        else this.dock.hidden = true;
      },
    };
    tab.append(el("button", { onclick: () => this.show(one) }, node), el("button", { onclick: one.close, "aria-label": `close the terminal of ${node}` }, "×"));
    this.tabs.append(tab);
    this.open.push(one);
    this.show(one);
  }

  private show(one: (typeof this.open)[number]): void {
    for (const other of this.open) {
      other.body.hidden = other !== one;
      other.tab.classList.toggle("on", other === one);
    }
    one.fit();
    one.focus();
  }
}
