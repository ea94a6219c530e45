// The replay of a run, from results made by hand: which flows are affected and why, which samples are flagged, the lower bound, and paths as they
// were when links had been failed by hand. No lab is needed.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { browser, cutOff, drawn, findings, open, ready, results, scrub, serve } from "./lib.mjs";

// Two ways from a to c: over b, 10 ms a cable, and over d, 15 ms a cable.
const SCENARIO = `constel: 1
name: square
seed: 1
start: 2026-11-21T00:00:00Z
duration: 60 s
step: 1 s
routing: {mode: computed}
ground:
  hosts:
    a: {latitude: 0 deg, longitude: 0 deg}
    b: {latitude: 0 deg, longitude: 1 deg}
    c: {latitude: 0 deg, longitude: 2 deg}
    d: {latitude: 1 deg, longitude: 1 deg}
  cables:
  - {from: a, to: b, delay: 10 ms, link: {rate: 20 Mbit/s}}
  - {from: b, to: c, delay: 10 ms, link: {rate: 20 Mbit/s}}
  - {from: a, to: d, delay: 15 ms, link: {rate: 20 Mbit/s}}
  - {from: d, to: c, delay: 15 ms, link: {rate: 20 Mbit/s}}
traffic:
- {name: probe, at: 1 s, for: 20 s, ping: {from: a, to: c, interval: 1 s}}
- {name: bulk, at: 1 s, for: 20 s, iperf3: {from: a, to: c, protocol: tcp}}
`;
const DOUBT = "2 of 20 samples are flagged, more than 1 %";
const flow = (name, kind, more) => ({ name, kind, from: "a", to: "c", at_ns: 1e9, status: "ok", samples: 20, marked_samples: 0, handovers: 0, paths: [["a", "b", "c"]], ...more });
const rows = (line) => Array.from({ length: 20 }, (_, i) => line(i + 1)).join("\n");
const HEAD = "t_s,rtt_us,owd_us,owd_back_us,throughput_bps,fate,path,marked";
const set = (t_s, link, effects) => ({ t_ns: t_s * 1e9, kind: "link-set", link, reset: false, effects });
const rtt = { min_ns: 40e6, p50_ns: 40e6, p99_ns: 60e6, max_ns: 60e6 };

let chrome, folder, served, shown;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "constel-web-"));
  results(folder, {
    scenario: SCENARIO,
    name: "square",
    trustworthy: false,
    reasons: [`flow probe is affected: ${DOUBT}`],
    events: [{ t_ns: 0, kind: "clock-started" }, set(5.3, "a-b", { down: true }), set(12, "a-b", {}), set(15, "b-c", { delay_ns: 2e6 }), { t_ns: null, kind: "finished", trustworthy: false, failed: false }],
    flows: [
      flow("probe", "ping", { trustworthy: false, doubt: DOUBT, marked_samples: 2, rtt, path_rtt: rtt, bound_rtt: rtt }),
      flow("bulk", "iperf3", { trustworthy: true, throughput_bps: 1e7 }),
    ],
    files: {
      "flows/probe.csv": `${HEAD}\n${rows((i) => `${i}.25,${i === 7 ? 72000 : 41000},${i === 7 ? 36000 : 20500},20500,,ok,1,${i === 7 || i === 8 ? 1 : 0}`)}\n`,
      "series.csv": "t_s,processor_ratio\n1,0.5\n2,0.25\n",
      "flows/bulk.csv": `${HEAD}\n${rows((i) => `${i},,,,${1e7 + i},,1,0`)}\n`,
      // The bound rises at 5.3 s and falls at 12 s.
      "paths.csv": "t_s,flow,path,path_rtt_us,shortest_rtt_us\n1,probe,1,40000.000,40000.000\n1,bulk,1,40000.000,40000.000\n5.3,probe,2,60000.000,60000.000\n12,probe,1,40000.000,40000.000\n",
    },
  });
  [chrome, served] = await Promise.all([browser(), serve(folder)]);
  shown = await open(chrome, served.url);
  await ready(shown.page);
});
after(async () => {
  await chrome?.close();
  await served?.stop();
  if (folder) rmSync(folder, { recursive: true });
});

const pick = (nodes, path = false) => shown.page.evaluate(([nodes, path]) => window.constel.app.choose(nodes, path), [nodes, path]);
const inspect = (wanted) => shown.page.waitForFunction((wanted) => new RegExp(wanted).test(document.querySelector("#inspect").textContent), wanted);

test("an affected flow has its doubt, its flagged samples and its bound beside the curve", async () => {
  const { page } = shown;
  await page.click("#tab-results");
  await page.waitForSelector("[data-flow=bulk] .chart canvas");
  assert.match(await page.textContent("#verdict"), /NOT trustworthy/);
  assert.equal(await page.textContent("[data-flow=probe] .verdict"), `affected: ${DOUBT}`);
  assert.equal(await page.getAttribute("[data-flow=probe] .verdict", "class"), "verdict bad");
  assert.equal(await page.textContent("[data-flow=bulk] .verdict"), "not affected");
  assert.match(await page.textContent("[data-flow=probe] h3"), /2 of 20 samples flagged/);
  const names = (flow) => page.$$eval(`[data-flow=${flow}] .u-series .u-label`, (all) => all.map((one) => one.textContent));
  assert.deepEqual(await names("probe"), ["lab time", "round trip", "one way", "flagged", "its path", "lower bound"]);
  assert.deepEqual(await names("bulk"), ["lab time", "throughput"]);
});

test("flows are a table with outcome, flagged samples and losses; axe finds nothing", async () => {
  const { page } = shown;
  await page.waitForSelector("[data-flow=bulk] .chart canvas");
  const rows = await page.$$eval("#flow-table tbody tr", (all) => all.map((row) => [...row.cells].map((cell) => cell.textContent)));
  assert.deepEqual(rows.map((row) => row.slice(1, 6)), [
    ["probe", "a → c", "ok", "yes", "2 of 20"],
    ["bulk", "a → c", "ok", "no", "0 of 20"],
  ]);
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    for (const tab of ["events", "inspect", "results"]) {
      await page.click(`#tab-${tab}`);
      assert.deepEqual(await findings(page), [], `${colorScheme}, ${tab}`);
    }
  }
  for (const [width, height] of [[390, 844], [1920, 1080], [1360, 820]]) {
    await page.setViewportSize({ width, height });
    await drawn(page);
    assert.deepEqual(await cutOff(page), [], `${width} x ${height}`);
  }
});

test("a chart is saved as CSV, with units, gaps and the bound that holds until it changes", async () => {
  const { page } = shown;
  await page.click("#tab-results");
  const [file] = await Promise.all([page.waitForEvent("download"), page.click("[data-flow=probe] .csv")]);
  assert.equal(file.suggestedFilename(), "probe-delay.csv");
  const [head, ...lines] = readFileSync(await file.path(), "utf8").trimEnd().split("\n");
  assert.equal(head, "t_s,round trip (ms),one way (ms),flagged (ms),its path (ms),lower bound (ms)");
  const at = (t) => lines.find((line) => line.startsWith(`${t},`))?.split(",").slice(1);
  // Samples are at quarters of a second, rows of the path at 1, 5.3 and 12 s.
  assert.deepEqual(at("5.25"), ["41", "20.5", "", "40", "40"]);
  assert.deepEqual(at("5.3"), ["", "", "", "60", "60"]);
  assert.deepEqual(at("7.25"), ["72", "36", "72", "60", "60"]);
  assert.deepEqual(at("8.25"), ["41", "20.5", "41", "60", "60"]);
  assert.deepEqual(at("12.25"), ["41", "20.5", "", "40", "40"]);
});

test("path, link and node are those of the instant, with links failed and slowed by hand", async () => {
  const { page } = shown;
  await page.click("#tab-inspect");
  const delay = async (t, wanted) => {
    await scrub(page, t);
    await page.waitForFunction((wanted) => document.querySelector("#path-delay")?.textContent === wanted, wanted);
  };
  await scrub(page, 5.2);
  await pick(["a", "c"], true);
  await delay(5.2, "20.000 ms");
  // Failed at 5.3 s, which is within a step.
  await delay(5.4, "30.000 ms");
  await inspect("by the scenario and the changes by hand");
  assert.deepEqual(await page.evaluate(() => [...window.constel.app.failedNow]), ["a-b"]);
  await delay(12.5, "20.000 ms");
  await delay(16, "12.000 ms");
  // The curve beside it has them too, from the next step on.
  const [series] = await page.evaluate(async () => [await (await fetch("/api/series?from=a&to=c")).json()]);
  assert.deepEqual([5, 6, 11, 12, 14, 15].map((t) => series.delay_ms[t]), [20, 30, 30, 20, 20, 12]);
  assert.match(await page.textContent("#inspect figcaption"), /changes by hand/);
  await scrub(page, 6);
  await pick(["a", "b"]);
  await inspect("down: failed by hand at t = 5.300 s; else up");
  await scrub(page, 13);
  await page.waitForFunction(() => document.querySelector("#state")?.textContent.startsWith("up"));
  await scrub(page, 6);
  await pick(["a"]);
  await inspect("failed by hand");
  assert.deepEqual(shown.errors, []);
  assert.deepEqual(shown.foreign, []);
});
