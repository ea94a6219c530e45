// The rules of a box under traffic: edited, moved, added, removed; what they did is what `box show` says. Needs root.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { browser, constel, CONSTEL, open, ready, ROOT, serve } from "./lib.mjs";

const root = process.getuid() === 0;
const options = { skip: root ? false : "boxes need root", timeout: 180_000 };
const LAB = `web-box-${process.pid}`;
const SCENARIO = `constel: 1
name: ${LAB}
seed: 1
duration: 600 s
box:
  machines:
  - {name: client, addresses: [10.20.0.1/24]}
  - {name: server, addresses: [10.20.0.2/24]}
  rules:
  - {name: first, match: {protocol: icmp}, both: {delay: 20 ms}}
  - {name: second, match: {protocol: udp}, both: {delay: 40 ms}}
traffic:
- {name: pings, at: 0 s, for: 590 s, run: {node: client, command: [ping, -i, '0.2', '10.20.0.2']}}
`;
let chrome, folder, box, served, shown;

before(async () => {
  if (!root) return;
  folder = mkdtempSync(join(tmpdir(), "constel-web-"));
  const file = join(folder, "box.yaml");
  writeFileSync(file, SCENARIO);
  const child = spawn(CONSTEL, ["run", file, "--results", join(folder, "run")], { cwd: ROOT, stdio: ["ignore", "ignore", "inherit"] });
  box = { child, ended: new Promise((done) => child.on("exit", done)) };
  chrome = await browser();
  const end = Date.now() + 60_000;
  while (constel("list", "--json").find((row) => row.lab === LAB)?.state !== "running") {
    assert(Date.now() < end && child.exitCode === null, "the box comes up");
    await new Promise((done) => setTimeout(done, 200));
  }
  served = await serve(LAB, "--write");
  shown = await open(chrome, served.url);
  await ready(shown.page);
}, { timeout: 120_000 });

after(async () => {
  await chrome?.close();
  await served?.stop();
  box?.child.kill("SIGINT");
  await box?.ended;
  if (folder) rmSync(folder, { recursive: true });
});

const names = () => constel("box", "show", LAB, "--json").rules.map((rule) => rule.name);
const rows = () => shown.page.$$eval("#rule-table tr[data-way=forward]:not([data-rule=''])", (all) => all.map((row) => row.dataset.rule));
const until = async (wanted, what) => {
  const end = Date.now() + 30_000;
  for (;;) {
    const [told, drawn] = [names(), await rows()];
    if (JSON.stringify(told) === JSON.stringify(wanted) && JSON.stringify(drawn) === JSON.stringify(wanted)) return;
    assert(Date.now() < end, `${what}: told ${told}, drawn ${drawn}`);
    await new Promise((done) => setTimeout(done, 200));
  }
};

test("the table has the rules, and counts what `box show` counts", options, async () => {
  await shown.page.waitForSelector("#rule-table");
  await until(["first", "second"], "at first");
  const frames = async () => Number((await shown.page.textContent("tr[data-rule=first][data-way=forward] [data-stat=frames]")).replaceAll(",", ""));
  const told = () => constel("box", "show", LAB, "--json").rules[0].directions.forward.frames;
  const least = told();
  assert(least > 0, "there is traffic");
  await shown.page.waitForFunction((least) => Number(document.querySelector("tr[data-rule=first][data-way=forward] [data-stat=frames]").textContent.replaceAll(",", "")) >= least, least);
  assert((await frames()) <= told(), "no more than is told later");
});

test("a rule is edited, moved, added and removed in place", options, async () => {
  const { page } = shown;
  await page.click("[aria-label='move up second']");
  await until(["second", "first"], "moved");
  await page.click("[aria-label='edit first']");
  await page.fill("[aria-label='Delay of first']", "60 ms");
  await page.fill("[aria-label='Bandwidth of first']", "5 Mbit/s");
  await page.click("#save-rule");
  await page.waitForFunction(() => document.querySelector("tr[data-rule=first]")?.textContent.includes("60 ms"));
  const written = constel("box", "show", LAB, "--json").rules.find((rule) => rule.name === "first").rule;
  assert.deepEqual([written.both.delay, written.both.rate, written.match.protocol], ["60 ms", "5 Mbit/s", "icmp"]);
  await page.click("#add-rule");
  await page.fill("#rule-text", JSON.stringify({ name: "third", match: { protocol: "tcp" }, both: { loss: "1 %" } }));
  await page.click("#save-rule");
  await until(["second", "first", "third"], "added");
  await page.click("#add-rule");
  await page.fill("#rule-text", JSON.stringify({ name: "bad", both: { delay: "12" } }));
  await page.click("#save-rule");
  await page.waitForFunction(() => document.querySelector("#say").textContent.startsWith("refused"));
  await page.click("text=Cancel");
  await page.click("[aria-label='remove second']");
  await until(["first", "third"], "removed");
  assert.deepEqual(shown.foreign, []);
});
