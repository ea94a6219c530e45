// The builder: Iridium from nothing, errors at their fields, the sky and the plan beside them, the text that is saved.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { browser, constel, findings, open, serve } from "./lib.mjs";

let chrome, served, shown, folder;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "constel-build-"));
  [chrome, served] = await Promise.all([browser(), serve("--new")]);
  shown = await open(chrome, served.url, { size: { width: 1100, height: 700 } });
  await shown.page.waitForSelector("#builder");
});
after(async () => {
  await chrome?.close();
  await served?.stop();
  if (folder) rmSync(folder, { recursive: true });
});

const state = (wanted) => shown.page.waitForFunction((wanted) => new RegExp(wanted).test(document.querySelector("#draft-state").textContent), wanted);
const field = (at) => `#field-${at.replaceAll(".", "-")}`;

test("Iridium is made of nothing: a constellation, cities, a flow", async () => {
  const { page } = shown;
  await page.fill(field("name"), "mine");
  await page.selectOption("#add-shell", { label: "Iridium NEXT" });
  await state("^valid: 66 satellites, 0 stations");
  for (const city of ["Tokyo", "London"]) {
    await page.waitForFunction(() => document.querySelectorAll("#cities option").length === 300);
    await page.fill("#add-city", city);
    await page.press("#add-city", "Enter");
  }
  await state("^valid: 66 satellites, 2 stations");
  await page.click("#add-flow");
  await state("2 stations, .* 1 flows?$");
  const plan = await page.textContent("#draft-plan");
  assert.match(plan, /flow-1100\.0 %\d+\.\d{3} ms\d/);
  assert.match(plan, /tokyo0 s\d/);
});

test("an error is at its field, in words, and goes when it is corrected", async () => {
  const { page } = shown;
  await page.fill(field("shells.0.altitude"), "780");
  await page.fill(field("flows.0.for"), "long");
  await state("^2 errors$");
  for (const at of ["shells.0.altitude", "flows.0.for"]) {
    assert.equal(await page.getAttribute(field(at), "aria-invalid"), "true", at);
    const words = await page.textContent(`#${await page.getAttribute(field(at), "aria-describedby")}`);
    assert(words.length > 10, words);
  }
  // What was typed, and the focus, stay.
  assert.equal(await page.evaluate(() => document.activeElement.id), "field-flows-0-for");
  assert.equal(await page.inputValue(field("flows.0.for")), "long");
  assert.deepEqual(await findings(page), []);
  await page.fill(field("shells.0.altitude"), "780 km");
  await page.fill(field("flows.0.for"), "50 s");
  await state("^valid");
  assert.equal(await page.getAttribute(field("flows.0.for"), "aria-invalid"), null);
});

test("a station is renamed with its flows, and one is added where the globe is clicked", async () => {
  const { page } = shown;
  await page.fill(field("stations.0.name"), "tokyo-1");
  await state("^valid");
  assert.equal(await page.inputValue(field("flows.0.from")), "tokyo-1");
  const { x, y, width, height } = await page.locator("#stage").boundingBox();
  await page.mouse.click(x + width / 2, y + height / 2 + 30);
  await page.waitForSelector(field("stations.2.name"));
  assert.match(await page.inputValue(field("stations.2.latitude")), /^-?[\d.]+ deg$/);
  await state("3 stations");
});

test("the saved file is valid for the command line, and comes back after a reload", async () => {
  const { page } = shown;
  const [file] = await Promise.all([page.waitForEvent("download"), page.click("#save-draft")]);
  assert.equal(file.suggestedFilename(), "mine.yaml");
  const text = readFileSync(await file.path(), "utf8");
  assert.equal(text, await page.evaluate(() => document.querySelector("#draft-yaml").textContent));
  const kept = join(folder, "mine.yaml");
  writeFileSync(kept, text);
  const check = constel("check", kept, "--json");
  assert.deepEqual([check.ok, check.satellites, check.stations, check.flows], [true, 66, 3, 1]);
  await page.reload();
  await page.waitForSelector("#builder");
  assert.equal(await page.inputValue(field("name")), "mine");
  await state("3 stations");
  assert.deepEqual(shown.errors, []);
  assert.deepEqual(shown.foreign, []);
});
