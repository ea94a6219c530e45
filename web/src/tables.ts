// Nodes and links as tables: the content of the picture as text, with a filter.

import type { App } from "./app";
import { el, fill, need, patch, table } from "./dom";
import { count } from "./words";

const MOST = 400;

export class Tables {
  private readonly body = need<HTMLElement>("#tables");
  private readonly filter = el("input", { type: "search", placeholder: "filter", "aria-label": "filter the tables" });
  private readonly list = el("div", {});

  constructor(private readonly app: App) {
    this.filter.addEventListener("input", () => this.draw());
    app.on("step", () => this.draw());
    fill(this.body, this.filter, this.list);
  }

  /** Draws the tables again, in place: nodes keep their order, so that focus and clicks survive. */
  draw(): void {
    if (!this.body.offsetParent) return;
    const { app } = this;
    const wanted = this.filter.value.trim().toLowerCase();
    const names = app.world.nodes.map((node) => node.name);
    const has = (...texts: string[]) => !wanted || texts.some((text) => text.toLowerCase().includes(wanted));
    const degree = new Map<number, number>();
    const links = [];
    for (const link of app.links.all.values()) {
      for (const end of [link.a, link.b]) degree.set(end, (degree.get(end) ?? 0) + 1);
      if (has(names[link.a], names[link.b])) links.push(link);
    }
    const nodes = app.world.nodes.map((node, i) => ({ node, i })).filter(({ node }) => has(node.name, node.catalogue_name ?? "", String(node.norad_id ?? "")));
    const button = (name: string, pick: string[]) => el("button", { class: "name", onclick: () => app.choose(pick) }, name);
    const kind = (i: number) => app.world.link_kinds[i] ?? "?";
    const catalogued = app.world.nodes.some((node) => node.catalogue_name || node.norad_id);
    const catalogue = (node: (typeof nodes)[0]["node"]) => (catalogued ? [[node.catalogue_name, node.norad_id].filter(Boolean).join(", ")] : []);
    patch(
      this.list,
      table(
        ["Node", "Kind", "Links", ...(catalogued ? ["Catalogue"] : [])],
        nodes.slice(0, MOST).map(({ node, i }) => [button(node.name, [node.name]), node.kind, String(degree.get(i) ?? 0), ...catalogue(node)]),
        `${count(nodes.length)} nodes${nodes.length > MOST ? `, the first ${MOST} shown` : ""}`,
      ),
      table(
        ["Link", "Kind", "Delay", "State"],
        links.slice(0, MOST).map((link) => [
          button(`${names[link.a]} – ${names[link.b]}`, [names[link.a], names[link.b]]),
          kind(link.kind),
          `${link.delayMs.toFixed(2)} ms`,
          app.whyFailed(link) ?? (link.turning ? "antennas turn" : "up"),
        ]),
        `${count(links.length)} links${links.length > MOST ? `, the first ${MOST} shown` : ""}`,
      ),
    );
  }
}
