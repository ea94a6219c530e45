// Networks of a lab and their members. With `--write`, members leave and join by hand.

import { change, get } from "./api";
import type { App } from "./app";
import { el, need, patch, table } from "./dom";
import type { NetworkShown } from "./types";
import { count } from "./words";

const EVERY_MS = 2000;

export class Networks {
  private readonly body = need<HTMLElement>("#networks");
  private busy = false;
  private before = "";

  constructor(
    private readonly app: App,
    private readonly say: (words: string) => void,
  ) {
    setInterval(() => void this.look(), EVERY_MS);
  }

  /** Requests the networks while they are visible. */
  async look(): Promise<void> {
    if (this.busy || document.hidden || !this.body.offsetParent) return;
    this.busy = true;
    try {
      const all = await get<NetworkShown[]>("networks");
      const now = JSON.stringify(all);
      if (now !== this.before) this.draw(all);
      this.before = now;
    } catch (error) {
      patch(this.body, el("p", { class: "bad" }, (error as Error).message));
      this.before = "";
    }
    this.busy = false;
  }

  private draw(all: NetworkShown[]): void {
    if (!all.length) {
      patch(this.body, el("p", { class: "hint" }, "This scenario has no networks."));
      return;
    }
    const may = this.app.world.may_write;
    const set = async (network: string, node: string, joined: boolean) => {
      try {
        await change({ verb: "set-member", network, node, joined });
        this.say(`${node} has ${joined ? "joined" : "left"} ${network}`);
      } catch (error) {
        this.say(`refused: ${(error as Error).message}`);
      }
      await this.look();
    };
    patch(
      this.body,
      ...all.map(({ network, members }) =>
        table(
          ["Member", "Edges", "State", may ? "Change" : ""],
          members.map(({ node, joined, edges }) => [
            el("button", { class: "name", onclick: () => this.app.choose([node]) }, node),
            count(edges),
            joined ? "joined" : "absent",
            may ? el("button", { "aria-label": `${joined ? "remove" : "add"} ${node}`, onclick: () => void set(network, node, !joined) }, joined ? "Leave" : "Join") : null,
          ]),
          `${network}: ${count(members.filter((one) => one.joined).length)} of ${count(members.length)} members joined`,
        ),
      ),
    );
  }
}
