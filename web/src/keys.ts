// The list of keys, which `?` and the button beside the search field open.

import { el, fill, need, table } from "./dom";

/** As in docs/reference/web.md. */
const KEYS: [string, string][] = [
  ["arrows, +, -", "On the picture: turn and zoom. On the time line: a step back or forward, with Shift ten. On the tabs: the tab before or after."],
  ["space", "Play or pause."],
  ["n, p", "To the next event, to the previous event."],
  ["g, m, t, s", "Globe, map, topology, swarm (where there are spacecraft)."],
  ["o", "Trails of satellites: on, off."],
  ["/", "Search a node by name, catalogue name or number. -> NAME adds the end of a path."],
  ["Shift and click", "The path from the picked node to this one."],
  ["Escape", "Pick nothing; close this list."],
  ["?", "This list."],
];

export function help(open: boolean): void {
  const dialog = need<HTMLDialogElement>("#help");
  if (!dialog.childElementCount) {
    fill(dialog, el("h2", {}, "Keys"), table(["Key", "Effect"], KEYS), el("button", { onclick: () => dialog.close() }, "Close"));
  }
  if (open && !dialog.open) dialog.showModal();
  if (!open) dialog.close();
}
