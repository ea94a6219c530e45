// Pictures of the documentation: `make web-pictures`. Those of a lab and its replay need root.
//   node shots.mjs [NAME...]   globe, map, topology, sky, why, terminal, charts, replay; all unless given

import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { spawn } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { browser, constel, CONSTEL, open, ready, ROOT, scrub, serve } from "./tests/lib.mjs";

const TO = join(ROOT, "docs/pictures");
const SIZE = { width: 1360, height: 800 };
mkdirSync(TO, { recursive: true });
const wanted = (name) => process.argv.length < 3 || process.argv.includes(name);
const chrome = await browser();

/** Land is there, and nothing more moves. */
async function settled(page) {
  await page.waitForFunction(() => window.constel.stage.uniforms.uLand.value.image.width > 1);
  await page.evaluate(() => new Promise((done) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 400)));
}

async function shot(page, name) {
  await settled(page);
  await page.screenshot({ path: join(TO, `web-${name}.png`), animations: "disabled" });
  console.log(`docs/pictures/web-${name}.png`);
}

async function look(words, use) {
  const served = await serve(...words);
  const { page, context } = await open(chrome, served.url, { size: SIZE, points: 1 });
  await ready(page);
  try {
    await use(page);
  } finally {
    await context.close();
    await served.stop();
  }
}

const eye = (page, lon, lat, far) => page.evaluate((eye) => (Object.assign(window.constel.stage.eye, eye), (window.constel.stage.dirty = true)), { lon, lat, far });
const pick = (page, nodes, path = false) => page.evaluate(([nodes, path]) => window.constel.app.choose(nodes, path), [nodes, path]);

if (wanted("globe") || wanted("map") || wanted("topology")) {
  await look(["--plan", "scenarios/starlink-shell1.yaml"], async (page) => {
    await scrub(page, 20);
    await pick(page, ["tokyo", "sao-paulo"], true);
    await page.waitForSelector(".chart canvas", { timeout: 120_000 });
    await eye(page, -150, 18, 3.2);
    if (wanted("globe")) await shot(page, "globe");
    await page.click("#view-map");
    if (wanted("map")) await shot(page, "map");
    await page.click("#view-topology");
    if (wanted("topology")) await shot(page, "topology");
  });
}
if (wanted("sky") || wanted("why")) {
  await look(["--plan", "scenarios/iridium.yaml"], async (page) => {
    await scrub(page, 24);
    await pick(page, ["london"]);
    await page.waitForSelector(".skyplot");
    await eye(page, 0, 48, 2.7);
    await page.evaluate(() => document.querySelector(".skyplot").scrollIntoView({ block: "center" }));
    if (wanted("sky")) await shot(page, "sky");
    await pick(page, ["tokyo", "iridium-p01-s04"]);
    await page.waitForSelector("#why");
    await eye(page, 140, 30, 2.6);
    if (wanted("why")) await shot(page, "why");
  });
}
if (wanted("terminal") || wanted("charts") || wanted("replay")) {
  const folder = mkdtempSync(join(tmpdir(), "constel-shots-"));
  const name = `web-shots-${process.pid}`;
  const run = spawn(CONSTEL, ["run", "scenarios/iridium.yaml", "--name", name, "--for", "180s", "--results", join(folder, "iridium")], { cwd: ROOT, stdio: "ignore" });
  const ended = new Promise((done) => run.on("exit", done));
  while (constel("list", "--json").find((row) => row.lab === name)?.state !== "running") await new Promise((done) => setTimeout(done, 300));
  await look([name, "--write", "--shell"], async (page) => {
    await page.waitForFunction(() => window.constel.app.clock.t > 12, null, { timeout: 120_000 });
    await pick(page, ["tokyo"]);
    await page.click("text=Terminal");
    await page.waitForSelector(".terminal .xterm-rows");
    await page.waitForFunction(() => /#/.test(document.querySelector(".terminal .xterm-rows").textContent), null, { timeout: 60_000 });
    await page.keyboard.type("ping -c 4 -i 0.3 london\n");
    await page.waitForFunction(() => /packet loss/.test(document.querySelector(".terminal .xterm-rows").textContent), null, { timeout: 60_000 });
    await pick(page, ["tokyo", "london"], true);
    await page.waitForFunction(() => /By the kernels/.test(document.querySelector("#inspect").textContent), null, { timeout: 60_000 });
    await eye(page, 95, 58, 3.0);
    if (wanted("terminal")) await shot(page, "terminal");
    await page.selectOption("#flow-form select", "tcp");
    await page.click("#start-flow");
    await page.click("#tab-charts");
    await page.waitForFunction(() => document.querySelectorAll("#charts figure canvas").length >= 4, null, { timeout: 60_000 });
    await page.selectOption("#shade", "load");
    await page.waitForFunction(() => Math.max(...window.constel.app.loads.values()) > 0.2, null, { timeout: 60_000 });
    if (wanted("charts")) await shot(page, "charts");
  });
  await ended;
  await look([join(folder, "iridium")], async (page) => {
    await scrub(page, 42);
    await page.click("#tab-results");
    await page.waitForFunction(() => document.querySelectorAll("#results .chart canvas").length >= 6);
    await eye(page, -20, 38, 3.0);
    if (wanted("replay")) await shot(page, "replay");
  });
  rmSync(folder, { recursive: true });
}
await chrome.close();
