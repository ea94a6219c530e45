// Tabs after the ARIA pattern: one of them is in the order of Tab, arrow keys move among them, and each opens as it gets the focus.

import { el, need } from "./dom";

export interface Tab {
  /** Its panel is `#NAME-tab`. */
  name: string;
  title: string;
  open?: () => void;
}

export class Tabs {
  private readonly buttons = new Map<string, HTMLButtonElement>();

  constructor(
    bar: HTMLElement,
    private readonly tabs: Tab[],
  ) {
    for (const { name, title } of tabs) {
      const button = el("button", { role: "tab", id: `tab-${name}`, "aria-controls": `${name}-tab`, onclick: () => this.open(name) }, title);
      this.buttons.set(name, button);
      bar.append(button);
      const panel = need(`#${name}-tab`);
      panel.setAttribute("role", "tabpanel");
      panel.setAttribute("aria-labelledby", button.id);
    }
    bar.addEventListener("keydown", (event) => this.key(event));
    this.open(tabs[0].name);
  }

  open(name: string): void {
    for (const [other, button] of this.buttons) {
      need(`#${other}-tab`).hidden = other !== name;
      button.setAttribute("aria-selected", String(other === name));
      button.tabIndex = other === name ? 0 : -1;
    }
    this.tabs.find((tab) => tab.name === name)?.open?.();
  }

  private key(event: KeyboardEvent): void {
    const last = this.tabs.length - 1;
    const at = this.tabs.findIndex(({ name }) => this.buttons.get(name) === document.activeElement);
    const to = { ArrowRight: at === last ? 0 : at + 1, ArrowLeft: at === 0 ? last : at - 1, Home: 0, End: last }[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    this.open(this.tabs[to].name);
    this.buttons.get(this.tabs[to].name)?.focus();
  }
}
