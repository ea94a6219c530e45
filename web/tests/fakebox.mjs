// A box in the place of a scenario's server: it has two rules, obeys orders as far as the page can see, and counts.

import assert from "node:assert/strict";

const way = (n) => ({ frames: n, bytes: 100 * n, drops: 1, duplicates: 0, queue_frames: 2, average_bps: 1000, present_bps: 2e6, last_frame_s: 0.5, queue_bytes: 0, counters: {} });

/** The orders that it received, and the `prepare` of `open`. */
export function fakeBox() {
  const orders = [];
  const rules = [
    { name: "first", match: { protocol: "icmp" }, both: { delay: "20 ms", jitter: { pareto_normal: "1 ms" }, corrupt: "1 %" } },
    { name: "second", match: { src: ["10.0.0.0/8", "192.168.0.0/16"], dport: "80" }, forward: { rate: "10 Mbit/s", aqm: { drd: { min_frames: 10, max_frames: 40 } } }, reverse: "drop" },
  ];
  let frames = 0;

  /** Carries out a change; returns its error, or null. */
  function obey(change) {
    const at = rules.findIndex((rule) => rule.name === change.name);
    if (change.rule?.both?.delay === "12") return "`delay`: 12 has no unit";
    if (change.kind === "add") rules.push(change.rule);
    if (change.kind === "edit") rules[at] = { name: change.name, ...change.rule };
    if (change.kind === "remove") rules.splice(at, 1);
    if (change.kind === "move") rules.splice(change.at - 1, 0, ...rules.splice(at, 1));
    return null;
  }

  async function prepare(page) {
    await page.route((url) => url.pathname === "/api/world", async (route) => {
      const answer = await route.fetch();
      await route.fulfill({ response: answer, json: { ...(await answer.json()), mode: "box", name: "office", may_write: true, nodes: [] } });
    });
    await page.route((url) => url.pathname === "/api/rules", (route) => {
      frames += 10;
      const both = rules.map((rule) => ({ name: rule.name, rule, directions: { forward: way(frames), reverse: way(frames / 2) } }));
      return route.fulfill({ json: { lab: "office", state: "running", mode: "shared", seed: 1, interfaces: [{ name: "eth1" }, { name: "eth2" }], rules: both, unmatched: { forward: way(0) }, removed: {} } });
    });
    await page.route((url) => url.pathname === "/api/do", (route) => {
      const order = route.request().postDataJSON();
      orders.push(order);
      assert.equal(route.request().headers()["x-constel"], "1");
      const error = obey(order.change);
      return route.fulfill(error ? { status: 400, json: { error } } : { json: { rules: rules.map((rule) => rule.name), warnings: [], took_ns: 1 } });
    });
  }

  return { orders, prepare };
}
