// What the page costs, by the size of the sky, a JSON object a line: `benches/run page` makes a table of it. `node measure.mjs [SIZE...]`
// Drawn by SwiftShader on this machine's processors: frames a second say what that does, not what a graphics card does.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { browser, open, ready, scrub, serve } from "./tests/lib.mjs";

const folder = mkdtempSync(join(tmpdir(), "constel-measure-"));
const large = join(folder, "large.yaml");
writeFileSync(
  large,
  `constel: 1
name: large
seed: 1
start: 2026-11-21T00:00:00Z
duration: 60 s
step: 1 s
constellations:
  large:
    walker: {pattern: delta, inclination: 53 deg, satellites: 29988, planes: 252, phasing: 1, altitude: 550 km}
    isl: {pattern: plus-grid, link: {rate: 200 Mbit/s}}
    gsl: {min_elevation: 25 deg, link: {rate: 100 Mbit/s}}
ground:
  stations:
    tokyo: {latitude: 35.7 deg, longitude: 139.7 deg}
    london: {latitude: 51.5 deg, longitude: -0.1 deg}
routing: {mode: computed, destinations: ground}
`,
);
const SIZES = { 66: "scenarios/iridium.yaml", 1584: "scenarios/starlink-shell1.yaml", 4408: "scenarios/starlink-five-shells.yaml", 29988: large };
const sizes = process.argv.length > 2 ? process.argv.slice(2) : Object.keys(SIZES);
const chrome = await browser();
for (const size of sizes) {
  const served = await serve("--plan", SIZES[size]);
  const { page, context } = await open(chrome, served.url, { size: { width: 1280, height: 720 }, reduced: "no-preference" });
  await ready(page);
  await page.waitForFunction(() => window.constel.stage.pictureMs !== null, null, { timeout: 120_000 });
  const first = await page.evaluate(() => window.constel.stage.pictureMs);
  await scrub(page, 0);
  const seen = await page.evaluate(async () => {
    const { app, stage, count } = window.constel;
    app.clock.speed = 2;
    app.clock.playing = true;
    const began = performance.now();
    const drawn = count();
    const script = [];
    let last = -1;
    await new Promise((done) => {
      const look = () => {
        if (count() !== last) script.push(stage.scriptMs);
        last = count();
        stage.eye.lon += 0.2;
        stage.dirty = true;
        if (performance.now() - began > 12_000) done();
        else requestAnimationFrame(look);
      };
      requestAnimationFrame(look);
    });
    app.clock.playing = false;
    script.sort((a, b) => a - b);
    const bytes = app.clock.bytes.slice(1).sort((a, b) => a - b);
    return {
      satellites: app.world.nodes.filter((node) => node.constellation !== undefined).length,
      links: app.links.all.size,
      calls: stage.calls,
      median: script[script.length >> 1],
      p95: script[Math.floor(script.length * 0.95)],
      whole: app.clock.bytes[0],
      step: bytes[bytes.length >> 1] ?? 0,
      rate: ((count() - drawn) * 1000) / (performance.now() - began),
    };
  });
  const row = {
    satellites: seen.satellites,
    links: seen.links,
    draw_calls: seen.calls,
    first_picture_ms: first,
    script_ms_median: seen.median,
    script_ms_p95: seen.p95,
    step_bytes_first: seen.whole,
    step_bytes_median: seen.step,
    frames_per_s: seen.rate,
  };
  console.log(JSON.stringify(row));
  await context.close();
  await served.stop();
}
await chrome.close();
rmSync(folder, { recursive: true });
