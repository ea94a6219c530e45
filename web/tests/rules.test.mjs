// The table of a box's rules without a box: what it shows of rules, and what it orders. Whether a box does that is in box.test.mjs.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { fakeBox } from "./fakebox.mjs";
import { browser, cutOff, findings, open, serve } from "./lib.mjs";

let chrome, served, shown;
const { orders, prepare } = fakeBox();

before(async () => {
  [chrome, served] = await Promise.all([browser(), serve("--plan", "scenarios/iridium.yaml")]);
  shown = await open(chrome, served.url, { prepare });
  await shown.page.waitForSelector("#rule-table");
});
after(async () => {
  await chrome?.close();
  await served?.stop();
});

const text = (rule, key) => shown.page.textContent(`tr[data-rule=${rule}] [data-key='${key}']`);
const names = () => shown.page.$$eval("#rule-table tr[data-way=forward]:not([data-rule=''])", (all) => all.map((row) => row.dataset.rule));
const are = (wanted) => shown.page.waitForFunction((wanted) => JSON.stringify([...document.querySelectorAll("#rule-table tr[data-way=forward]:not([data-rule=''])")].map((row) => row.dataset.rule)) === JSON.stringify(wanted), wanted);

test("a rule is in NIST Net's columns, what has none beside them, and what it did", async () => {
  const head = await shown.page.$$eval("#rule-table th", (all) => all.map((one) => one.textContent));
  for (const title of ["Source", "Dest", "Delay", "DelSigma", "Bandwidth", "Drop", "Dup", "DRDmin", "DRDmax", "Packets", "Drops", "Queue"]) assert(head.includes(title), title);
  assert.deepEqual(await names(), ["first", "second"]);
  assert.equal(await text("first", "both.delay"), "20 ms");
  assert.equal(await text("first", "both.jitter.pareto_normal"), "1 ms");
  assert.equal(await text("second", "match.src"), "10.0.0.0/8 192.168.0.0/16");
  assert.equal(await text("second", "forward.aqm.drd.max_frames"), "40");
  assert.match(await shown.page.textContent("tr[data-rule=first]"), /corrupt: 1 %/);
  const before = Number(await shown.page.textContent("tr[data-rule=first][data-way=forward] [data-stat=frames]"));
  await shown.page.waitForFunction((before) => Number(document.querySelector("tr[data-rule=first][data-way=forward] [data-stat=frames]").textContent) > before, before);
});

test("axe finds nothing and nothing is cut off in the table and in a rule's text, in dark and in light", async () => {
  const { page } = shown;
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    assert.deepEqual(await findings(page), [], colorScheme);
  }
  await page.click("#add-rule");
  await page.waitForSelector("#rule-text");
  assert.deepEqual(await findings(page), []);
  for (const [width, height] of [[390, 844], [1360, 820]]) {
    await page.setViewportSize({ width, height });
    assert.deepEqual(await cutOff(page), [], `${width} x ${height}`);
  }
  await page.click("#rules button:text-is('Cancel')");
});

test("cells are edited in place, while the counters go on; what has no cell stays", async () => {
  const { page } = shown;
  await page.click("[aria-label='edit first']");
  await page.fill("[aria-label='Delay of first']", "60 ms");
  await page.fill("[aria-label='DelSigma of first']", "");
  await page.fill("[aria-label='DRDmin of first']", "5");
  await page.fill("[aria-label='DRDmax of first']", "9");
  const count = () => page.textContent("tr[data-rule=first][data-way=forward] [data-stat=frames]");
  const before = await count();
  await page.waitForFunction((before) => document.querySelector("tr[data-rule=first][data-way=forward] [data-stat=frames]").textContent !== before, before);
  assert.equal(await page.inputValue("[aria-label='Delay of first']"), "60 ms");
  await page.click("#save-rule");
  await page.waitForFunction(() => document.querySelector("tr[data-rule=first] [data-key='both.delay']")?.textContent === "60 ms");
  assert.deepEqual(orders.at(-1).change.rule, { name: "first", match: { protocol: "icmp" }, both: { delay: "60 ms", corrupt: "1 %", aqm: { drd: { min_frames: 5, max_frames: 9 } } } });
});

test("rules move, come and go; what is refused is said and stays to be mended", async () => {
  const { page } = shown;
  await page.click("[aria-label='move up second']");
  await are(["second", "first"]);
  await page.click("#add-rule");
  await page.fill("#rule-text", JSON.stringify({ name: "third", both: { delay: "12" } }));
  await page.click("#save-rule");
  await page.waitForFunction(() => document.querySelector("#say").textContent.startsWith("refused"));
  await page.fill("#rule-text", JSON.stringify({ name: "third", both: { delay: "12 ms" } }));
  await page.click("#save-rule");
  await are(["second", "first", "third"]);
  await page.click("[aria-label='remove second']");
  await are(["first", "third"]);
  assert.deepEqual(orders.map((order) => order.change.kind), ["edit", "move", "add", "add", "remove"]);
  assert.deepEqual(shown.foreign, []);
});
