// A running lab and the run that it leaves: what is told is what the command line tells, what is done is done. Needs root.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { browser, constel, CONSTEL, findings, listen, open, ready, ROOT, scrub, serve, sessionByKeyboard } from "./lib.mjs";

const root = process.getuid() === 0;
const options = { skip: root ? false : "labs need root", timeout: 240_000 };
const LAB = `web-test-${process.pid}`;
const SCENARIO = `constel: 1
name: ${LAB}
seed: 1
start: 2026-11-21T05:14:00Z
duration: 600 s
step: 1 s
constellations:
  ring:
    walker: {pattern: star, inclination: 86.4 deg, satellites: 66, planes: 6, phasing: 2, altitude: 780 km}
    isl: {pattern: plus-grid, seam: false, polar_cutoff: 60 deg, max_range: 6000 km, link: {rate: 100 Mbit/s}}
    gsl: {min_elevation: 8.2 deg, policy: nearest, handover: {outage: 0 ms}, link: {rate: 50 Mbit/s}}
ground:
  stations:
    tokyo: {latitude: 35.7 deg, longitude: 139.7 deg}
    london: {latitude: 51.5 deg, longitude: -0.1 deg}
    cairo: {latitude: 30 deg, longitude: 31.2 deg}
    lima: {latitude: -12 deg, longitude: -77 deg}
    perth: {latitude: -32 deg, longitude: 115.9 deg}
    oslo: {latitude: 59.9 deg, longitude: 10.8 deg}
    delhi: {latitude: 28.6 deg, longitude: 77.2 deg}
    nairobi: {latitude: -1.3 deg, longitude: 36.8 deg}
    denver: {latitude: 39.7 deg, longitude: -105 deg}
    manila: {latitude: 14.6 deg, longitude: 121 deg}
routing: {mode: computed, destinations: ground}
traffic:
  - {name: hello, at: 1 s, for: 590 s, ping: {from: tokyo, to: london, interval: 200 ms}}
`;
let chrome, folder, lab, served, shown;

before(async () => {
  if (!root) return;
  folder = mkdtempSync(join(tmpdir(), "constel-web-"));
  const file = join(folder, "ring.yaml");
  writeFileSync(file, SCENARIO);
  const child = spawn(CONSTEL, ["run", file, "--results", join(folder, "run")], { cwd: ROOT, stdio: ["ignore", "ignore", "inherit"] });
  lab = { child, ended: new Promise((done) => child.on("exit", done)) };
  chrome = await browser();
  const end = Date.now() + 120_000;
  while (constel("list", "--json").find((row) => row.lab === LAB)?.state !== "running") {
    assert(Date.now() < end && child.exitCode === null, "the lab comes up");
    await new Promise((done) => setTimeout(done, 200));
  }
  served = await serve(LAB, "--write", "--shell");
  shown = await open(chrome, served.url, { prepare: listen });
  await ready(shown.page);
}, { timeout: 240_000 });

after(async () => {
  await chrome?.close();
  await served?.stop();
  lab?.child.kill("SIGINT");
  await lab?.ended;
  if (folder) rmSync(folder, { recursive: true });
});

const pick = (nodes, path = false) => shown.page.evaluate(([nodes, path]) => window.constel.app.choose(nodes, path), [nodes, path]);
/** A link's words without what changes from one moment to the next. */
const words = (text) => text.replace(/[\d.,]+/g, "N");

test("it follows the lab's time", options, async () => {
  const { page } = shown;
  await page.waitForFunction(() => window.constel.app.clock.live && window.constel.app.clock.t > 3);
  assert.equal(await page.textContent("#when"), "live");
  const drawn = await page.evaluate(() => window.constel.app.clock.t);
  const told = (constel("show", LAB, "--json").t_ns ?? 0) / 1e9;
  assert(Math.abs(told - drawn) < 5, `${drawn} s is drawn, ${told} s is told`);
  assert.deepEqual(shown.foreign, []);
});

test("the why of a link is that of `constel link`", options, async () => {
  const { page } = shown;
  const serving = await page.evaluate(() => {
    const { app } = window.constel;
    const tokyo = app.numbers.get("tokyo");
    const link = [...app.links.all.values()].find((link) => link.a === tokyo || link.b === tokyo);
    return app.world.nodes[link.a === tokyo ? link.b : link.a].name;
  });
  for (const [a, b] of [["tokyo", serving], ["tokyo", "london"], ["tokyo", "ring-p01-s01"]]) {
    await pick([]);
    await pick([a, b]);
    await page.waitForSelector("#why");
    // The page asks every second, and a handover may come between its answer and that of the command line.
    let [shows, says] = ["", ""];
    for (let i = 0; i < 20 && (!shows || shows !== says); i++) {
      if (i) await new Promise((done) => setTimeout(done, 500));
      [shows, says] = [words(await page.textContent("#why")), words(constel("link", LAB, a, b, "--json").why)];
    }
    assert.equal(shows, says);
  }
});

test("a link fails and heals by hand, as the lab itself says", options, async () => {
  const { page } = shown;
  const [a, b] = ["ring-p01-s01", "ring-p01-s02"];
  await pick([a, b]);
  await page.click("#fail");
  await page.waitForFunction(() => document.querySelector("#why")?.textContent.startsWith("down: failed by hand"));
  assert.equal(constel("link", LAB, a, b, "--json").up, false);
  await page.waitForFunction(() => [...window.constel.app.failedNow].length === 1);
  await page.click("#heal");
  await page.waitForFunction(() => !document.querySelector("#why")?.textContent.startsWith("down"));
  assert.equal(constel("link", LAB, a, b, "--json").up, true);
});

test("a session by keyboard alone: a path, a flow on it, a link that fails in the lab", options, async () => {
  const { page } = shown;
  const [a, b] = (await sessionByKeyboard(page)).split(" – ");
  assert.match(constel("link", LAB, a, b, "--json").why, /^down: failed by hand/);
  const flows = await page.evaluate(async () => (await (await fetch("/api/flows")).json()).map(({ name }) => name));
  assert(flows.length >= 1, `${flows}`);
  await page.waitForSelector("#heal");
  await page.focus("#heal");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => !document.querySelector("#why")?.textContent.startsWith("down: failed by hand"));
});

test("axe finds nothing on a running lab, in dark and in light: a node, a link, a path, events, tables, charts", options, async () => {
  const { page } = shown;
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    for (const [nodes, path, there] of [[["tokyo"], false, "button.capture"], [["ring-p01-s01", "ring-p01-s02"], false, "#fail"], [["tokyo", "london"], true, "#start-flow"]]) {
      await pick(nodes, path);
      await page.waitForSelector(there);
      assert.deepEqual(await findings(page), [], `${colorScheme}, ${nodes}`);
    }
    for (const tab of ["events", "tables", "charts", "inspect"]) {
      await page.click(`#tab-${tab}`);
      assert.deepEqual(await findings(page), [], `${colorScheme}, ${tab}`);
    }
  }
});

test("a node is stopped and started by hand, as the lab itself says", options, async () => {
  const { page } = shown;
  const far = await page.evaluate(() => {
    const { app } = window.constel;
    const own = app.numbers.get("nairobi");
    const link = [...app.links.all.values()].find((link) => link.a === own || link.b === own);
    return app.world.nodes[link.a === own ? link.b : link.a].name;
  });
  await pick(["nairobi"]);
  await page.click("[data-change=stop]");
  await page.waitForFunction(() => window.constel.app.nodesNow.has("nairobi"));
  assert.equal(constel("link", LAB, "nairobi", far, "--json").up, false);
  const drawn = await page.evaluate(() => {
    const { app } = window.constel;
    const own = app.numbers.get("nairobi");
    return [...app.links.all.values()].filter((link) => link.a === own || link.b === own).map((link) => app.whyFailed(link));
  });
  assert(drawn.every((why) => why === "failed by hand"), `${drawn}`);
  await page.click("[data-change=start]");
  await page.waitForFunction(() => !window.constel.app.nodesNow.has("nairobi"));
});

test("a station is detached, attached and left to its policy again, as the lab itself says", options, async () => {
  const { page } = shown;
  const satellite = await page.evaluate(() => {
    const { app } = window.constel;
    const own = app.numbers.get("lima");
    const link = [...app.links.all.values()].find((link) => link.a === own || link.b === own);
    return app.world.nodes[link.a === own ? link.b : link.a].name;
  });
  // A change holds from one of the next steps on.
  const until = async (isUp, events) => {
    await page.waitForFunction((events) => window.constel.app.events.filter((event) => event.kind === "stations-set").length === events, events);
    while (constel("link", LAB, "lima", satellite, "--json").up !== isUp) await new Promise((done) => setTimeout(done, 300));
  };
  await pick(["lima"]);
  await page.click("#detach");
  await until(false, 1);
  await pick(["lima", satellite]);
  await page.click("#attach");
  await until(true, 2);
  await page.click("#by-policy");
  await until(true, 3);
});

test("frames of a node are captured and saved as pcapng", options, async () => {
  const { page } = shown;
  await pick(["tokyo"]);
  await page.fill("form.capture input[name=for]", "2");
  const [file] = await Promise.all([page.waitForEvent("download"), page.click("button.capture")]);
  assert.equal(file.suggestedFilename(), `${LAB}-tokyo.pcapng`);
  const bytes = readFileSync(await file.path());
  assert.equal(bytes.readUInt32LE(0), 0x0a0d0d0a, "a section of pcapng");
  // Five pings a second and their answers, each more than a hundred bytes with its head.
  assert(bytes.length > 1500, `${bytes.length} bytes`);
});

test("a handover shows within a step", options, async () => {
  const { page } = shown;
  await pick([]);
  const told = await page.evaluate(async () => {
    const { app } = window.constel;
    const seen = () => app.events.filter((event) => event.kind === "handover").length;
    const before = seen();
    const end = performance.now() + 150_000;
    while (seen() === before && performance.now() < end) await new Promise((done) => setTimeout(done, 20));
    if (seen() === before) return { drawn: false, late: Number.NaN };
    const event = app.events.filter((event) => event.kind === "handover").at(-1);
    // What is drawn follows: how long after the lab's own instant.
    const ends = () => [...app.links.all.values()].map((link) => [app.world.nodes[link.a].name, app.world.nodes[link.b].name].sort().join(" "));
    const wanted = [event.station, event.to].sort().join(" ");
    while (!ends().includes(wanted) && performance.now() < end) await new Promise((done) => setTimeout(done, 20));
    return { drawn: ends().includes(wanted), late: app.clock.labT - event.t_ns / 1e9 };
  });
  assert(told.drawn, "the new link is drawn");
  assert(told.late < 2, `a step of 1 s, and ${told.late} s until it was drawn`);
});

test("charts of the lab go on, with the picked link and a flow started here", options, async () => {
  const { page } = shown;
  await pick(["tokyo", "london"], true);
  await page.waitForSelector("#flow-form");
  await page.selectOption("#flow-form select", "ping");
  await page.click("#start-flow");
  await page.click("#tab-charts");
  await page.waitForSelector("#charts figure[data-chart='machine'] canvas");
  await page.waitForSelector("#charts figure[data-chart^='flow '] canvas");
  const rtt = await page.evaluate(async () => (await (await fetch("/api/flows")).json())[0].samples.at(-1));
  assert(rtt > 30 && rtt < 600, `a round trip between continents: ${rtt} ms`);
  assert.match(await page.textContent("#verdict"), /running/);
  // What the flow is makes some links carry something, and others nothing.
  await page.selectOption("#shade", "load");
  await page.waitForFunction(() => window.constel.app.loads.size > 2);
  const loads = await page.evaluate(() => ({ most: Math.max(...window.constel.app.loads.values()), of: window.constel.app.links.all.size, some: window.constel.app.loads.size }));
  assert(loads.most > 0 && loads.most < 0.1, `pings alone: ${loads.most}`);
  assert(loads.some <= loads.of);
  await page.selectOption("#shade", "kind");
  await page.click("#tab-inspect");
});

test("a path is the kernels' own, with the optimum beside it", options, async () => {
  const { page } = shown;
  await pick(["tokyo", "london"], true);
  await page.waitForFunction(() => /By the kernels/.test(document.querySelector("#inspect").textContent));
  const text = await page.textContent("#inspect");
  assert.match(text, /By the kernels’ routes, ipv4: \d+\.\d{3} ms/);
});

test("time goes back and forward, each marked as what it is", options, async () => {
  const { page } = shown;
  await scrub(page, 1);
  assert.equal(await page.textContent("#when"), "as it was");
  await scrub(page, 500);
  assert.equal(await page.textContent("#when"), "computed");
  await page.click("#live");
  await page.waitForFunction(() => document.querySelector("#when").textContent === "live");
});

test("a terminal types, has the window's size, and survives `yes`", options, async () => {
  const { page } = shown;
  await pick(["tokyo"]);
  await page.click("text=Terminal");
  const screen = () => page.textContent(".terminal .xterm-rows");
  const until = async (wanted, within = 60_000) => {
    const end = Date.now() + within;
    while (!wanted.test(await screen())) {
      assert(Date.now() < end, `${wanted} is on the screen: ${(await screen()).slice(-400)}`);
      await new Promise((done) => setTimeout(done, 100));
    }
  };
  const type = (text) => page.keyboard.type(text);
  await until(/#/);
  await type("echo sum-$((40+2)) $(hostname)\n");
  await until(/sum-42 tokyo/);
  await type("clear; stty size\n");
  await until(/\d+ \d+/);
  const size = (await screen()).match(/(\d+) (\d+)/);
  const before = Number(size[2]);
  await page.setViewportSize({ width: 1000, height: 820 });
  await type("clear; echo now $(stty size)\n");
  await until(/now \d+ \d+/);
  assert(Number((await screen()).match(/now \d+ (\d+)/)[1]) < before, "fewer columns in a narrower window");
  await page.setViewportSize({ width: 1360, height: 820 });
  await type("yes\n");
  await until(/y\s*y\s*y/);
  await new Promise((done) => setTimeout(done, 3000));
  await page.keyboard.press("Control+c");
  await type("clear; echo over-$((1+1))\n");
  await until(/over-2/);
  await page.click("[aria-label='close the terminal of tokyo']");
  await page.waitForFunction(() => document.querySelector("#dock").hidden);
});

test("when the lab is down, that is said, and its run is replayed", options, async () => {
  const { page } = shown;
  lab.child.kill("SIGINT");
  await lab.ended;
  await page.waitForFunction(() => document.querySelector("#verdict").textContent === "the lab is down");
  const run = await serve(join(folder, "run"));
  const replay = await open(chrome, run.url);
  await ready(replay.page);
  await replay.page.waitForFunction(() => /trustworthy/.test(document.querySelector("#verdict").textContent));
  const failed = await replay.page.evaluate(() => window.constel.app.events.find((event) => event.kind === "link-set").t_ns / 1e9);
  await scrub(replay.page, failed + 0.01);
  assert.deepEqual(await replay.page.evaluate(() => [...window.constel.app.failedNow]), ["ring-p01-s01-ring-p01-s02"]);
  // The path between the two goes around the link from that instant on, and not before.
  const links = (t) =>
    replay.page.evaluate(async (t) => {
      const step = Math.floor(t / window.constel.app.clock.stepS);
      const of = new URLSearchParams({ from: "ring-p01-s01", to: "ring-p01-s02", step, t_ns: Math.round(t * 1e9) });
      return (await (await fetch(`/api/path?${of}`)).json()).optimum.hops.length;
    }, t);
  assert.equal(await links(failed - 0.001), 1);
  assert((await links(failed + 0.01)) > 1);
  await replay.page.click("#tab-results");
  await replay.page.waitForSelector("#results .chart canvas");
  assert.match(await replay.page.textContent("[data-flow=hello] .verdict"), /affected/);
  const curves = await replay.page.$$eval("[data-flow=hello] .u-series .u-label", (all) => all.map((one) => one.textContent));
  assert(curves.includes("lower bound"), `${curves}`);
  assert.deepEqual(replay.foreign, []);
  assert.deepEqual(replay.errors, []);
  await replay.context.close();
  await run.stop();
});
