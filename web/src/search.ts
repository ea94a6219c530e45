// The field that finds nodes, and `-> NAME` for a path's end.

import type { App } from "./app";
import { el, fill, need } from "./dom";

const ARROW = /\s*(?:->|→|>)\s*/;

export class Search {
  private readonly field = need<HTMLInputElement>("#search");
  private readonly list = need<HTMLElement>("#found");

  constructor(
    private readonly app: App,
    private readonly turnTo: (node: string) => void,
    private readonly say: (words: string) => void,
  ) {
    const { field, list } = this;
    field.addEventListener("input", () => this.draw());
    field.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.close();
      if (event.key === "Enter") {
        const [first] = this.found();
        if (first) this.pick(first);
        else this.say("no node has that name or number");
      }
      if (event.key === "ArrowDown") list.querySelector("button")?.focus();
    });
    list.addEventListener("keydown", (event) => {
      const all = [...list.querySelectorAll("button")];
      const at = all.indexOf(document.activeElement as HTMLButtonElement);
      if (event.key === "ArrowDown") all[Math.min(at + 1, all.length - 1)]?.focus();
      else if (event.key === "ArrowUp") (at > 0 ? all[at - 1] : field).focus();
      else if (event.key === "Escape") {
        this.close();
        field.focus();
      } else return;
      event.preventDefault();
    });
  }

  focus(): void {
    this.field.focus();
  }

  private found(): string[] {
    return this.app.search(this.field.value.split(ARROW).pop() ?? "");
  }

  private close(): void {
    this.list.hidden = true;
    this.field.setAttribute("aria-expanded", "false");
  }

  private pick(name: string): void {
    const [, second] = this.field.value.trim().split(ARROW);
    if (second !== undefined && this.app.pick.nodes.length) this.app.extend(name);
    else this.app.choose([name]);
    this.turnTo(name);
    this.field.value = "";
    this.close();
  }

  private draw(): void {
    const { nodes } = this.app.world;
    const found = this.found();
    const row = (name: string) => el("button", { onclick: () => this.pick(name) }, name, el("small", {}, nodes[this.app.numbers.get(name) ?? 0].catalogue_name ?? ""));
    fill(this.list, ...found.map((name) => el("li", {}, row(name))));
    this.list.hidden = !found.length;
    this.field.setAttribute("aria-expanded", String(found.length > 0));
  }
}
