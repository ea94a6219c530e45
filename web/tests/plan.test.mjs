// A scenario without a lab: what is drawn is what `constel plan` prints, nothing leaves the machine, nobody else gets in.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { browser, drawn, links, open, planned, ready, scrub, serve } from "./lib.mjs";

const FILE = "scenarios/iridium.yaml";
let chrome, served, shown;

before(async () => {
  [chrome, served] = await Promise.all([browser(), serve("--plan", FILE)]);
  shown = await open(chrome, served.url);
  await ready(shown.page);
});
after(async () => {
  await chrome?.close();
  await served?.stop();
});

test("it loads without a request to anywhere else, and forgets its token", async () => {
  assert.deepEqual(shown.foreign, []);
  assert.deepEqual(shown.errors, []);
  assert.equal(await shown.page.textContent("#name"), "iridium");
  assert(!shown.page.url().includes(served.url.split("#")[1]));
  const outside = await shown.page.evaluate(() => fetch("https://example.org/").then(() => "came", () => "refused"));
  assert.equal(outside, "refused", "the page's policy");
  shown.errors.length = 0;
});

test("links drawn are those of `plan --at`, at 20 instants", async () => {
  for (let i = 0; i < 20; i++) {
    const t = (i * 37) % 75;
    await scrub(shown.page, t);
    assert.deepEqual(await links(shown.page), planned(FILE, t), `at ${t} s`);
  }
});

test("a handover shows within its step", async () => {
  const serving = async (t) => {
    await scrub(shown.page, t);
    return (await links(shown.page)).filter((link) => link.split(" ").includes("tokyo"));
  };
  const [before, at] = [await serving(23.9), await serving(24)];
  assert.equal(before.length, 1);
  assert.equal(at.length, 1);
  assert.notDeepEqual(before, at);
  await shown.page.waitForFunction(() => window.constel.app.known.complete);
  const told = await shown.page.evaluate(() => window.constel.app.events.filter((event) => event.kind === "handover" && event.station === "tokyo").map((event) => event.t_ns));
  assert.deepEqual(told, [24e9]);
});

test("playing shows the same links as scrubbing", async () => {
  await scrub(shown.page, 30);
  await shown.page.selectOption("#speed", "5");
  await shown.page.click("#play");
  await shown.page.waitForFunction(() => window.constel.app.clock.t > 36);
  await shown.page.click("#play");
  const step = await shown.page.evaluate(() => window.constel.app.clock.frame.step);
  assert.deepEqual(await links(shown.page), planned(FILE, step));
});

test("why a link is down, a path and a station's sky are told", async () => {
  const { page } = shown;
  await scrub(page, 10);
  await page.evaluate(() => window.constel.app.choose(["tokyo", "london"]));
  await page.waitForSelector("#why");
  assert.match(await page.textContent("#why"), /^down/);
  await page.evaluate(() => window.constel.app.choose(["tokyo", "london"], true));
  await page.waitForSelector("#path-delay");
  assert.match(await page.textContent("#path-delay"), /^\d+\.\d{3} ms$/);
  await page.waitForSelector(".chart canvas");
  await page.fill("#search", "lond");
  await page.press("#search", "Enter");
  await page.waitForSelector(".skyplot");
  assert.equal(await page.textContent("#inspect h2"), "london");
  await page.click("#tab-tables");
  assert.match(await page.textContent("#tables caption"), /80 nodes/);
  await page.click("#tab-inspect");
});

test("all views draw in at most ten calls", async () => {
  const { page } = shown;
  for (const view of ["globe", "map", "topology"]) {
    await page.click(`#view-${view}`);
    await drawn(page);
    const calls = await page.evaluate(() => window.constel.stage.calls);
    assert(calls >= 2 && calls <= 10, `${view}: ${calls} calls`);
    if (view !== "topology") continue;
    const [triangles, lines] = await page.evaluate(() => [window.constel.stage.triangles, window.constel.stage.lineCount]);
    assert.equal(triangles, 2 * lines, "every link is drawn");
    assert(lines > 100);
  }
});

test("a link on the map is a great circle, and one over the date line is on both sides", async () => {
  const { page } = shown;
  await scrub(page, 10);
  await page.click("#view-map");
  const drawn = await page.evaluate(() => {
    const { stage, app } = window.constel;
    const lon = (p) => Math.atan2(p[1], p[0]);
    const at = (i) => stage.at(i).toArray();
    const between = (p, q, share) => p.map((one, i) => one * (1 - share) + q[i] * share);
    // The picture without and with one link marked: what differs near a place is that link.
    const pixels = (lines) => {
      stage.mark(lines);
      stage.dirty = true;
      stage.draw(0, null);
      const gl = stage.renderer.getContext();
      const all = new Uint8Array(4 * gl.drawingBufferWidth * gl.drawingBufferHeight);
      gl.readPixels(0, 0, gl.drawingBufferWidth, gl.drawingBufferHeight, gl.RGBA, gl.UNSIGNED_BYTE, all);
      return [all, gl.drawingBufferWidth, gl.drawingBufferHeight];
    };
    const [bare, wide, high] = pixels([]);
    const links = [...app.links.all.values()].filter((link) => link.kind === 0 && !link.turning);
    const crossing = links.filter((link) => Math.abs(lon(at(link.a)) - lon(at(link.b))) > Math.PI);
    const polar = links.filter((link) => Math.abs(at(link.a)[2]) / stage.at(link.a).length() > 0.95);
    const missed = [];
    for (const { a, b } of [...crossing, ...polar]) {
      const [marked] = pixels([{ a, b, colour: "#ff00ff", width: 3, dash: 0 }]);
      for (const share of [0.15, 0.35, 0.65, 0.85]) {
        const [x, y] = stage.onMap(between(at(a), at(b), share));
        const [column, row] = [Math.round((x / stage.canvas.clientWidth) * wide), Math.round((1 - y / stage.canvas.clientHeight) * high)];
        let seen = false;
        for (let dx = -3; dx <= 3; dx++) for (let dy = -3; dy <= 3; dy++) {
          const at = 4 * ((row + dy) * wide + column + dx);
          seen ||= bare[at + 1] !== marked[at + 1] || bare[at] !== marked[at];
        }
        if (!seen) missed.push([a, b, share, x, y]);
      }
    }
    stage.mark([]);
    return { crossing: crossing.length, polar: polar.length, missed };
  });
  assert(drawn.crossing >= 5 && drawn.polar >= 5, JSON.stringify(drawn));
  assert.deepEqual(drawn.missed, []);
});

test("both ends of a path are in view, until the reader turns the picture", async () => {
  const { page } = shown;
  await page.click("#view-globe");
  for (const ends of [["tokyo", "sao-paulo"], ["london", "sydney"], ["lima", "delhi"]]) {
    await page.evaluate((ends) => window.constel.app.choose(ends, true), ends);
    await page.waitForFunction((ends) => ends.every((end) => window.constel.stage.screen(window.constel.app.numbers.get(end)) !== null), ends);
    await drawn(page);
    const inside = await page.evaluate((ends) => {
      const { stage, app } = window.constel;
      const { clientWidth: w, clientHeight: h } = stage.canvas;
      return ends.map((end) => stage.screen(app.numbers.get(end))).every(([x, y]) => x > 0 && x < w && y > 0 && y < h);
    }, ends);
    assert(inside, `${ends}`);
  }
  await page.focus("#stage");
  for (let i = 0; i < 3; i++) await page.keyboard.press("ArrowLeft");
  assert.equal(await page.evaluate(() => window.constel.page.following), false);
  await page.evaluate(() => Object.assign(window.constel.stage.eye, { lon: 10, lat: 28, far: 3.9 }));
});

test("colours of delay have the range of the scenario's links, which the legend tells", async () => {
  const { page } = shown;
  await page.selectOption("#shade", "delay");
  await drawn(page);
  const { limits, least, most, legend } = await page.evaluate(() => {
    const { stage, app } = window.constel;
    const delays = [...app.links.all.values()].map((link) => link.delayMs);
    return { limits: stage.delays.limits, least: Math.min(...delays), most: Math.max(...delays), legend: document.querySelector("#legend").textContent };
  });
  assert(limits[0] <= least && limits[1] >= most && limits[1] < 2 * most, `${limits}, ${least} to ${most}`);
  assert.equal(legend, `one-way delay: ${limits[0]} ms${limits[1]} ms`);
  await page.selectOption("#shade", "kind");
});

test("satellites and cities have names at close zoom, planes and slots in the topology", async () => {
  const { page } = shown;
  const labels = () => page.$$eval(".label:not([hidden])", (all) => all.map((one) => [one.textContent, one.dataset.is]));
  const look = (far) => page.evaluate((far) => (Object.assign(window.constel.stage.eye, { lon: 10, lat: 45, far }), (window.constel.stage.dirty = true)), far);
  await page.click("#view-globe");
  await look(3.9);
  await page.waitForFunction(() => window.constel.stage.cities.length === 1000);
  await drawn(page);
  assert((await labels()).every(([name, is]) => !name.startsWith("iridium-p") && is !== "city"));
  await look(2.8);
  await page.waitForFunction(() => [...document.querySelectorAll(".label:not([hidden])")].filter((one) => one.textContent.startsWith("iridium-p")).length >= 3);
  await look(1.6);
  await page.waitForFunction(() => document.querySelectorAll(".label[data-is=city]:not([hidden])").length >= 2);
  await look(3.9);
  await page.click("#view-topology");
  await page.waitForFunction(() => [...document.querySelectorAll(".label:not([hidden])")].some((one) => one.textContent === "slot 0"));
  const names = (await labels()).map(([name]) => name);
  for (const plane of [0, 1, 2, 3, 4, 5]) assert(names.includes(`plane ${plane}`), `${names}`);
});

test("craft of a swarm are one label on the globe and a ring in the topology, where a mesh is no chain", async () => {
  const swarm = await serve("--plan", "scenarios/swarm.yaml");
  const { page, context } = await open(chrome, swarm.url);
  await ready(page);
  await page.waitForFunction(() => [...document.querySelectorAll(".label")].some((one) => one.textContent === "4 craft: craft-0, craft-1, craft-2, craft-3"));
  await page.click("#view-topology");
  await page.waitForFunction(() => document.querySelectorAll(".label:not([hidden])").length === 4);
  await drawn(page);
  // No three of them are in line, so no link lies over another.
  const areas = await page.evaluate(() => {
    const p = [0, 1, 2, 3].map((i) => window.constel.stage.screen(i));
    const area = (a, b, c) => Math.abs((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])) / 2;
    return [[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]].map(([a, b, c]) => area(p[a], p[b], p[c]));
  });
  assert(areas.every((one) => one > 1000), `${areas} square pixels`);
  // Relative to one of them they are apart, with axes of a round length.
  await page.click("#view-swarm");
  await page.waitForFunction(() => document.querySelectorAll(".label[data-is=axis]:not([hidden])").length >= 2);
  await page.waitForFunction(() => [...document.querySelectorAll(".label:not([hidden])")].filter((one) => /^craft-\d$/.test(one.textContent)).length === 4);
  const axes = await page.$$eval(".label[data-is=axis]:not([hidden])", (all) => all.map((one) => one.textContent));
  assert(axes.length >= 2 && axes.every((one) => /^(along the track|away from the Earth|across the orbit), \d+ km$/.test(one)), `${axes}`);
  const distances = await page.evaluate(() => {
    const { stage, app } = window.constel;
    const [x0, y0] = stage.screen(app.numbers.get("craft-0"));
    return [1, 2, 3].map((i) => stage.screen(app.numbers.get(`craft-${i}`))).map(([x, y]) => Math.hypot(x - x0, y - y0));
  });
  assert(distances.every((one) => one > 15), `${distances} pixels`);
  await context.close();
  await swarm.stop();
});

test("a view is an address: it comes back with a reload, without a token", async () => {
  const { page } = shown;
  await page.click("#view-map");
  await scrub(page, 42);
  await page.evaluate(() => window.constel.app.choose(["cairo"]));
  await page.waitForFunction(() => location.hash.includes("pick=cairo") && location.hash.includes("t=42"));
  await page.reload();
  await ready(page);
  const now = await page.evaluate(() => ({ view: window.constel.stage.view, t: window.constel.app.clock.t, pick: window.constel.app.pick.nodes }));
  assert.deepEqual(now, { view: "map", t: 42, pick: ["cairo"] });
  assert.deepEqual(shown.errors, []);
});

test("a used, a wrong and a missing token are refused in words", async () => {
  for (const url of [served.url, `${served.origin}/#${"x".repeat(32)}`, `${served.origin}/`]) {
    const { page, context } = await open(chrome, url);
    await page.waitForSelector("#refused");
    assert.match(await page.textContent("#refused"), /constel web/);
    await context.close();
  }
});

test("another site's page gets nothing, not even a socket", async () => {
  const other = await serve("--plan", FILE);
  const { page, context } = await open(chrome, other.url);
  await ready(page);
  // Two servers of one machine are two origins of one site: cookies are sent, and the origin is what is wrong.
  const got = await page.evaluate(async (origin) => {
    const socket = new WebSocket(`${origin.replace("http", "ws")}/api/socket`);
    const opened = await new Promise((done) => {
      socket.onopen = () => done("opened");
      socket.onerror = () => done("refused");
    });
    const read = await fetch(`${origin}/api/world`, { credentials: "include" }).then(() => "read", () => "refused");
    return [opened, read];
  }, served.origin);
  assert.deepEqual(got, ["refused", "refused"]);
  await context.close();
  await other.stop();
});
