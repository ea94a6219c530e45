// The page of a running lab without one: the server is that of a scenario, and what a lab would say is put in its place. Answers are slow
// here, as those of a lab that has other things to do. Each file of tests that has this has its own page.

import { after, before } from "node:test";
import { browser, listen, open, ready, said as announced, serve } from "./lib.mjs";

export const FILE = "scenarios/iridium.yaml";
/** Slower than the page asks. */
export const SLOW_MS = 1700;
let chrome, served, began, telling;
/** The open page, and the errors and foreign requests that it had. */
export let shown;
export const asked = [];
/** What the page last wanted of links' loads, and how to tell it some. */
export const loads = { wanted: null, tell: null };
/** Changes that the page ordered. */
export const orders = [];
export const CAPTURED = Buffer.from([0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0]);
export const shell = { wire: null, typed: "", sizes: [], shown: 0 };

before(async () => {
  [chrome, served] = await Promise.all([browser(), serve("--plan", FILE)]);
  shown = await open(chrome, served.url, { prepare });
  await ready(shown.page);
});
after(async () => {
  // A browser that closes does not close its sockets first, and node stays as long as this ticks.
  clearInterval(telling);
  await chrome?.close();
  await served?.stop();
});

/** What the lab reports. */
export const told = { lateP99Ns: 42000 };
export const labT = () => (began ? (Date.now() - began) / 1e3 : 0);

/** Puts a lab in the place of the scenario, and keeps what the page announces. */
async function prepare(page) {
  await listen(page);
  const changed = (path, change) =>
    page.route(
      (url) => url.pathname === path,
      async (route) => {
        const answer = await route.fetch();
        await route.fulfill({ response: answer, json: change(await answer.json(), new URL(route.request().url()).searchParams) });
      },
    );
  await changed("/api/world", (world) => ({ ...world, mode: "lab", may_write: true, may_shell: true, max_lateness_ns: 10e6, networks: [] }));
  // A lab has the columns of its results, of which a scenario has none.
  await page.route(
    (url) => url.pathname === "/api/columns",
    (route) => route.fulfill({ json: { names: [], columns: [] } }),
  );
  await page.route(
    (url) => url.pathname === "/api/link" && url.searchParams.get("live") === "1",
    async (route) => {
      asked.push(Date.now());
      const answer = await route.fetch({ url: route.request().url().replace("live=1", "live=0") });
      const link = await answer.json();
      await new Promise((done) => setTimeout(done, SLOW_MS));
      const edges = link.edges.map((edge) => ({ ...edge, effects: {}, queue_bytes: 131072, counters: { queue_bytes: 0, held: 0, counters: { offered: 10, delivered: 10, offered_bytes: 1000, delivered_bytes: 1000, dropped_loss: 0 } } }));
      await route.fulfill({ response: answer, json: { ...link, live: { a: link.a, b: link.b, up: link.up, why: link.why, t_ns: link.t_ns, edges } } });
    },
  );
  await page.route(
    (url) => url.pathname === "/api/path" && url.searchParams.get("live") === "1",
    async (route) => route.fulfill({ response: await route.fetch({ url: route.request().url().replace("live=1", "live=0") }) }),
  );
  await page.route((url) => url.pathname === "/api/do", (route) => {
    const order = route.request().postDataJSON();
    orders.push(order);
    return order.capture ? route.fulfill({ contentType: "application/vnd.tcpdump.pcap", body: CAPTURED }) : route.fulfill({ json: true });
  });
  await page.routeWebSocket(/\/api\/shell/, (wire) => {
    shell.wire = wire;
    wire.onMessage((message) => {
      if (typeof message !== "string") {
        shell.typed += message.toString();
        wire.send(message);
        return;
      }
      const said = JSON.parse(message);
      if (said.op === "size") shell.sizes.push([said.columns, said.rows]);
      if (said.op === "shown") shell.shown = said.bytes;
    });
  });
  await page.routeWebSocket(/\/api\/socket$/, (wire) => {
    const server = wire.connectToServer();
    wire.onMessage((message) => {
      const said = JSON.parse(message);
      if (said.op === "loads") loads.wanted = said.wanted;
      else server.send(message);
    });
    loads.tell = (links) => wire.send(JSON.stringify({ op: "loads", t_ns: 0, links }));
    server.onMessage((message) => wire.send(message));
    began ??= Date.now();
    const say = () => {
      const lab = { lab: "iridium", state: "running", scenario: FILE, pid: 1, nodes: 80, edges: 300, t_ns: Math.round(labT() * 1e9) };
      // Sampled every second, and told twice as often.
      const at = Math.floor(labT());
      const health = { at_ns: at * 1e9, totals: { edges: 300, held: 0, dropped_no_edge: 0, counters: { delivered: 915 * at } }, emulator_drops: {}, lateness: { count: 9, p50_ns: 1000, p90_ns: 2000, p99_ns: told.lateP99Ns, p999_ns: 50000, max_ns: 60000 } };
      wire.send(JSON.stringify({ op: "now", lab, health, ended: false }));
    };
    clearInterval(telling);
    telling = setInterval(say, 500);
    wire.send(JSON.stringify({ op: "events", events: [{ seq: 1, t_ns: 0, wall: "", kind: "routes-converged" }] }));
    say();
  });
}

export const pick = (nodes, path = false) => shown.page.evaluate(([nodes, path]) => window.constel.app.choose(nodes, path), [nodes, path]);

/** Waits for an announcement that was not waited for before. Each is on the page for some seconds only. */
export const said = (words) => announced(shown.page, words);
