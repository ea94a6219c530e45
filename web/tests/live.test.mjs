// The page of a running lab without one: the server is that of a scenario, and what a lab would say is put in its place. Answers are slow
// here, as those of a lab that has other things to do.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { readFileSync } from "node:fs";
import { browser, findings, open, ready, serve, tabTo } from "./lib.mjs";

const FILE = "scenarios/iridium.yaml";
/** Slower than the page asks. */
const SLOW_MS = 1700;
let chrome, served, shown, began, telling;
const asked = [];
/** What the page last wanted of links' loads, and how to tell it some. */
const loads = { wanted: null, tell: null };
/** Changes that the page ordered. */
const orders = [];
const CAPTURED = Buffer.from([0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0]);
const shell = { wire: null, typed: "", sizes: [], shown: 0 };

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

/** Lateness that the lab reports. */
let lateP99Ns = 42000;
const labT = () => (began ? (Date.now() - began) / 1e3 : 0);

/** Puts a lab in the place of the scenario, and keeps what the page announces. */
async function prepare(page) {
  await page.addInitScript(() => {
    window.heard = [];
    addEventListener("DOMContentLoaded", () => {
      const say = document.querySelector("#say");
      new MutationObserver(() => window.heard.push(say.textContent)).observe(say, { childList: true });
    });
  });
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
      const told = JSON.parse(message);
      if (told.op === "size") shell.sizes.push([told.columns, told.rows]);
      if (told.op === "shown") shell.shown = told.bytes;
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
      const health = { at_ns: at * 1e9, totals: { edges: 300, held: 0, dropped_no_edge: 0, counters: { delivered: 915 * at } }, emulator_drops: {}, lateness: { count: 9, p50_ns: 1000, p90_ns: 2000, p99_ns: lateP99Ns, p999_ns: 50000, max_ns: 60000 } };
      wire.send(JSON.stringify({ op: "now", lab, health, ended: false }));
    };
    clearInterval(telling);
    telling = setInterval(say, 500);
    wire.send(JSON.stringify({ op: "events", events: [{ seq: 1, t_ns: 0, wall: "", kind: "routes-converged" }] }));
    say();
  });
}

const pick = (nodes, path = false) => shown.page.evaluate(([nodes, path]) => window.constel.app.choose(nodes, path), [nodes, path]);

test("it follows the lab's time, and says how late frames leave", async () => {
  const { page } = shown;
  await page.waitForFunction(() => window.constel.app.clock.live && window.constel.app.clock.t > 1);
  assert.equal(await page.textContent("#when"), "live");
  const present = labT();
  await page.waitForFunction((t) => window.constel.app.clock.t >= t, present);
  const drawn = await page.evaluate(() => window.constel.app.clock.t);
  assert(drawn <= labT() + 1, `${drawn} s is drawn, ${labT()} s is told`);
  await page.waitForFunction(() => document.querySelector("#verdict").textContent.includes("p99 late 42 µs"));
});

test("the chip compares lateness with the scenario's own bound", async () => {
  const { page } = shown;
  const chip = (words, is) => page.waitForFunction(([words, is]) => document.querySelector("#verdict").textContent.includes(words) && document.querySelector("#verdict").className === `chip ${is}`, [words, is]);
  await chip("p99 late 42 µs", "good");
  // More than 1 ms, and less than this scenario's 10 ms.
  lateP99Ns = 5e6;
  await chip("p99 late 5000 µs", "good");
  assert.match(await page.getAttribute("#verdict", "title"), /the scenario allows 10.000 ms/);
  lateP99Ns = 11e6;
  await chip("p99 late 11000 µs, more than 10000 µs", "bad");
  lateP99Ns = 42000;
});

test("frames a second are those of the lab's samples, not of the page's", async () => {
  const { page } = shown;
  await page.waitForFunction(() => window.constel.page.charts.late.frames.length >= 3);
  const rates = await page.evaluate(() => window.constel.page.charts.late.frames);
  assert(rates.every((one) => one === 915), `${rates}`);
  await page.click("#tab-events");
  // The one event was at 0; the log is complete up to the present, which a slow page shows late.
  const present = labT();
  let until = -1;
  while (until < present) {
    const [, minutes, secs] = (await page.textContent("#event-count")).match(/^1 event so far \(to (\d+):([\d.]+)\)$/);
    until = 60 * Number(minutes) + Number(secs);
  }
  assert(until <= labT() + 0.1, `${until} s, at ${labT()} s`);
});

test("links have the colour of what they carry, which is asked for as long as the present is shown", async () => {
  const { page } = shown;
  assert.equal(loads.wanted, null);
  await page.selectOption("#shade", "load");
  await page.waitForFunction(() => location.hash.includes("links=load"));
  assert.equal(loads.wanted, true);
  const [a, b] = await page.evaluate(() => [...window.constel.app.links.all.values()][0].ports);
  loads.tell([{ a, b, load: 0.75 }]);
  await page.waitForFunction(() => window.constel.app.loads.size === 1);
  const tints = await page.evaluate(() => {
    const { stage, app } = window.constel;
    const links = [...app.links.all.values()].slice(0, 2);
    return { tints: links.map((link) => stage.tint(link, false)), full: stage.palette.scale.at(-1), legend: document.querySelector("#legend").textContent };
  });
  assert.notDeepEqual(tints.tints[0].slice(0, 3), tints.tints[1].slice(0, 3), "an idle link has another colour");
  assert.match(tints.legend, /100 % of the rate/);
  // the load of the past is not known.
  await page.evaluate(() => window.constel.app.clock.scrub(0));
  await page.waitForFunction(() => window.constel.app.loads.size === 0);
  assert.equal(loads.wanted, false);
  await page.click("#live");
  await page.selectOption("#shade", "kind");
});

test("an answer slower than the page asks is shown, and no two are asked for at a time", async () => {
  const { page } = shown;
  asked.length = 0;
  await pick(["tokyo", "london"]);
  await page.waitForSelector("#why");
  assert.match(await page.textContent("#why"), /^down/);
  const first = asked.length;
  await page.waitForFunction(() => document.querySelector("#state").textContent === "down");
  while (asked.length < first + 3) await new Promise((done) => setTimeout(done, 50));
  const gaps = asked.slice(1).map((at, i) => at - asked[i]);
  assert(gaps.every((gap) => gap >= SLOW_MS - 50), `${gaps} ms between questions`);
});

test("what is picked while an answer is waited for is shown, and the answer is not", async () => {
  const { page } = shown;
  await pick(["tokyo", "london"]);
  await page.waitForSelector("#why");
  await pick(["cairo"]);
  await page.waitForSelector(".skyplot");
  await new Promise((done) => setTimeout(done, SLOW_MS + 500));
  assert.equal(await page.textContent("#inspect h2"), "cairo");
});

test("fields keep what is written into them while counters go on", async () => {
  const { page } = shown;
  await pick(["tokyo", "london"]);
  await page.waitForSelector("#fail");
  await page.fill(".impair input[name=loss]", "12");
  const before = asked.length;
  while (asked.length < before + 2) await new Promise((done) => setTimeout(done, 50));
  assert.equal(await page.inputValue(".impair input[name=loss]"), "12");
  await page.click("#fail");
  await page.waitForFunction(() => document.querySelector("#say").textContent.includes("failed"));
});

/** Waits until the inspected link was updated so many times. */
async function updated(times) {
  const before = asked.length;
  while (asked.length < before + times + 1) await new Promise((done) => setTimeout(done, 50));
}

test("an update does not take the focus, nor a click that has begun, from the reader", async () => {
  const { page } = shown;
  await pick(["tokyo", "london"]);
  await page.waitForSelector("#heal");
  await page.focus("#heal");
  await page.evaluate(() => (window.kept = document.querySelector("#heal")));
  await updated(2);
  assert(await page.evaluate(() => window.kept.isConnected && document.activeElement === window.kept));
  // The pointer goes down before an update and up after it.
  await page.evaluate(() => (document.querySelector("#say").textContent = ""));
  const { x, y, width, height } = await page.locator("#heal").boundingBox();
  await page.mouse.move(x + width / 2, y + height / 2);
  await page.mouse.down();
  await updated(1);
  await page.mouse.up();
  await page.waitForFunction(() => document.querySelector("#say").textContent.includes("healed"));
});

test("a path's form and curve stay while the path is updated every second", async () => {
  const { page } = shown;
  await pick(["tokyo", "london"], true);
  await page.waitForSelector("#flow-form");
  await page.waitForSelector("#inspect .chart canvas");
  await page.fill("#flow-form input[name=for]", "77");
  await page.focus("#flow-form input[name=for]");
  await page.evaluate(() => (window.kept = ["#flow-form", "#flow-form input", "#inspect .chart", "#inspect .chart canvas"].map((one) => document.querySelector(one))));
  let answers = 0;
  const count = (response) => (answers += Number(response.url().includes("/api/path?")));
  page.on("response", count);
  while (answers < 4) await new Promise((done) => setTimeout(done, 50));
  page.off("response", count);
  assert(await page.evaluate(() => window.kept.every((one) => one.isConnected)));
  assert.equal(await page.inputValue("#flow-form input[name=for]"), "77");
  assert.equal(await page.evaluate(() => document.activeElement.name), "for");
});

test("a lab without networks has no tab for them", async () => {
  const { page } = shown;
  assert.deepEqual(await page.$$eval("#tabs button", (all) => all.map((one) => one.textContent)), ["Inspect", "Events", "Tables", "Charts"]);
});

/** Waits for an announcement that was not waited for before. Each is on the page for some seconds only. */
const said = (words) =>
  shown.page.waitForFunction((words) => {
    const at = window.heard.findIndex((one) => one.includes(words));
    if (at >= 0) window.heard.splice(0, at + 1);
    return at >= 0;
  }, words);

test("a link is failed and set for a time, a node is stopped and started", async () => {
  const { page } = shown;
  await pick(["tokyo", "london"]);
  await page.waitForSelector("#fail");
  orders.length = 0;
  await page.fill(".impair input[name=for]", "2.5");
  await page.click("#fail");
  await said("failed for 2.5 s");
  await page.fill(".impair input[name=delay]", "40");
  await page.fill(".impair input[name=loss]", "1");
  await page.click(".impair button:text-is('Set')");
  await said("set for 2.5 s");
  const link = { verb: "set-link", a: "tokyo", b: "london", wait: true, for_ns: 2.5e9 };
  assert.deepEqual(orders, [
    { ...link, effects: { down: true } },
    { ...link, effects: { delay_ns: 40e6, loss: { random: { ratio: 0.01 } } } },
  ]);
  await pick(["cairo"]);
  await page.waitForSelector("[data-change=stop]");
  orders.length = 0;
  for (const change of ["stop", "start", "pause"]) {
    await page.click(`[data-change=${change}]`);
    await said("cairo: ");
  }
  assert.deepEqual(orders, ["stop", "start", "pause"].map((change) => ({ verb: "set-nodes", nodes: ["cairo"], change, wait: true })));
});

test("frames of a node are captured and saved as pcapng", async () => {
  const { page } = shown;
  await pick(["cairo"]);
  await page.waitForSelector("button.capture");
  orders.length = 0;
  await page.fill("form.capture input[name=for]", "3");
  await page.fill("form.capture input[name=filter]", "protocol: udp");
  const [file] = await Promise.all([page.waitForEvent("download"), page.click("button.capture")]);
  assert.equal(file.suggestedFilename(), "iridium-cairo.pcapng");
  assert.deepEqual(readFileSync(await file.path()), CAPTURED);
  assert.deepEqual(orders, [{ capture: { of: "cairo", for_s: 3, filter: "protocol: udp" } }]);
});

test("a session by keyboard alone: a path, a flow on it, a link from the tables that is failed", async () => {
  const { page } = shown;
  const { keyboard } = page;
  await pick([]);
  await page.evaluate(() => document.activeElement.blur());
  orders.length = 0;
  await keyboard.press("/");
  await keyboard.type("tokyo");
  await keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelector("#inspect h2").textContent === "tokyo");
  await keyboard.press("Escape");
  await keyboard.type("-> london");
  await keyboard.press("Enter");
  await page.waitForSelector("#start-flow");
  await tabTo(page, "#start-flow");
  await keyboard.press("Enter");
  await said("the flow has started");
  await keyboard.press("Shift+Tab");
  for (let i = 0; i < 60 && !(await page.evaluate(() => document.activeElement.matches("#tab-inspect"))); i++) await keyboard.press("Shift+Tab");
  await keyboard.press("ArrowRight");
  await keyboard.press("ArrowRight");
  assert(await page.isVisible("#tables-tab"));
  await tabTo(page, "#tables input", 5);
  await keyboard.type("tokyo");
  await tabTo(page, "#tables table:last-of-type button.name", 40);
  const name = await page.evaluate(() => document.activeElement.textContent);
  assert.match(name, /tokyo – |– tokyo/);
  await keyboard.press("Enter");
  await page.waitForSelector("#fail");
  await tabTo(page, "#fail");
  await keyboard.press("Enter");
  await said("failed");
  assert.deepEqual(orders[0], { flow: { tool: "ping", from: "tokyo", to: "london", for_s: 30 } });
  assert.equal(orders[1].verb, "set-link");
  assert.deepEqual([orders[1].a, orders[1].b].sort(), name.split(" – ").sort());
});

test("axe finds nothing on a live lab: a link, a path, a node, the charts", async () => {
  const { page } = shown;
  for (const [nodes, path, there] of [[["tokyo", "london"], false, "#fail"], [["tokyo", "london"], true, "#start-flow"], [["cairo"], false, "button.capture"]]) {
    await pick(nodes, path);
    await page.waitForSelector(there);
    assert.deepEqual(await findings(page), [], there);
  }
  await page.click("#tab-charts");
  await page.waitForSelector("#live-flows table");
  assert.deepEqual(await findings(page), [], "charts");
  await page.click("#tab-inspect");
});

test("a terminal types, says its size, and acknowledges what it has shown", async () => {
  const { page } = shown;
  await pick(["tokyo"]);
  await page.click("text=Terminal");
  await page.waitForSelector(".terminal .xterm-rows");
  while (!shell.sizes.length) await new Promise((done) => setTimeout(done, 50));
  await page.keyboard.type("echo one");
  await page.waitForFunction(() => document.querySelector(".terminal .xterm-rows").textContent.includes("echo one"));
  assert.equal(shell.typed, "echo one");
  const [before] = shell.sizes.at(-1);
  await page.setViewportSize({ width: 900, height: 820 });
  while (shell.sizes.at(-1)[0] >= before) await new Promise((done) => setTimeout(done, 50));
  await page.setViewportSize({ width: 1360, height: 820 });
  // As `yes` does: as much as the server lets be under way, and more when it was shown. A megabyte and a half in all.
  const piece = Buffer.from("y\r\n".repeat(5461));
  const all = 96 * piece.length;
  for (let sent = 8; sent < all; ) {
    while (sent - shell.shown > 256 * 1024) await new Promise((done) => setTimeout(done, 10));
    shell.wire.send(piece);
    sent += piece.length;
  }
  while (shell.shown < all - 32768) await new Promise((done) => setTimeout(done, 20));
  await page.keyboard.press("Control+c");
  while (!shell.typed.endsWith("\x03")) await new Promise((done) => setTimeout(done, 20));
  await page.click("[aria-label='close the terminal of tokyo']");
  await page.waitForFunction(() => document.querySelector("#dock").hidden);
});

test("back and forward are marked as what they are", async () => {
  const { page } = shown;
  await pick([]);
  await page.evaluate(() => window.constel.app.clock.scrub(0.5));
  await page.waitForFunction(() => document.querySelector("#when").textContent === "as it was");
  await page.evaluate(() => window.constel.app.clock.scrub(window.constel.app.clock.labT + 600));
  await page.waitForFunction(() => document.querySelector("#when").textContent === "computed");
  await page.click("#live");
  await page.waitForFunction(() => document.querySelector("#when").textContent === "live");
  assert.deepEqual(shown.errors, []);
  assert.deepEqual(shown.foreign, []);
});
