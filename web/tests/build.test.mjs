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
  // A city that is not in the list is an error at its field, and stays there to be corrected.
  await page.fill("#add-city", "Atlantis");
  await page.press("#add-city", "Enter");
  assert.equal(await page.getAttribute("#add-city", "aria-invalid"), "true");
  assert.match(await page.textContent("#city-error"), /Atlantis/);
  await page.fill("#add-city", "");
  await page.press("#add-city", "Enter");
  assert.equal(await page.textContent("#city-error"), "");
  await page.click("#add-flow");
  await state("2 stations, .* 1 flow$");
  const plan = await page.textContent("#draft-plan");
  assert.match(plan, /flow-1100\.0 %\d+\.\d{3} ms\d/);
  assert.match(plan, /tokyo0 s\d/);
});

/** A reader with a keyboard and a mouse, whose time is that of the keystroke-level model (Card, Moran and Newell, CACM 23/7, 1980), seconds. */
class Reader {
  seconds = 0;
  hand = "mouse";

  constructor(page) {
    this.page = page;
  }

  home(to) {
    if (this.hand !== to) this.seconds += 0.4;
    this.hand = to;
  }

  /** Thinks, points and clicks. */
  async click(selector) {
    this.home("mouse");
    this.seconds += 1.35 + 1.1 + 0.2;
    await this.page.click(selector);
  }

  async press(key) {
    this.home("keyboard");
    this.seconds += 0.28;
    await this.page.keyboard.press(key);
  }

  /** Thinks of a word and types it, as a person who does not type for a living. */
  async type(text) {
    this.home("keyboard");
    this.seconds += 1.35 + 0.28 * text.length;
    await this.page.keyboard.type(text);
  }
}

test("Iridium with thirteen cities is made of an empty page by keyboard and mouse within two minutes", async (context) => {
  const own = await serve("--new");
  const other = await open(chrome, own.url, { size: { width: 1100, height: 700 } });
  const { page } = other;
  await page.waitForFunction(() => document.querySelectorAll("#cities option").length === 300);
  const reader = new Reader(page);
  const began = Date.now();
  /** Goes to the field after this one, and replaces its text. */
  const next = async (text) => {
    await reader.press("Tab");
    if (text !== null) await reader.type(text);
  };
  await reader.click(field("name"));
  await reader.press("Control+a");
  await reader.type("iridium");
  await next("2026-11-21T05:14:00Z");
  await next("75 s");
  // Past step, seed and routing, to the choice of constellations; the last one has no values.
  for (let i = 0; i < 4; i++) await reader.press("Tab");
  await reader.press("End");
  await page.waitForSelector(field("shells.0.name"));
  await reader.click(field("shells.0.name"));
  await reader.press("Control+a");
  await reader.type("iridium");
  for (const text of ["star", "780 km", "86.4 deg", "66", "6", "2", null, "100 Mbit/s", "8.2 deg", null, "50 Mbit/s"]) await next(text);
  await reader.click("#add-city");
  const cities = ["Tokyo", "Delhi", "Sao Paulo", "Cairo", "Lagos", "Buenos Aires", "Moscow", "London", "Lima", "Johannesburg", "Sydney", "Nairobi", "Singapore"];
  for (const city of cities) {
    await reader.type(city);
    await reader.press("Enter");
  }
  await reader.press("Tab");
  await reader.press("Enter");
  await page.waitForFunction(() => /^valid: 66 satellites, 13 stations, .* 1 flow$/.test(document.querySelector("#draft-state").textContent));
  const [file] = await Promise.all([page.waitForEvent("download"), reader.click("#save-draft")]);
  context.diagnostic(`${reader.seconds.toFixed(0)} s of a reader, ${((Date.now() - began) / 1e3).toFixed(0)} s of this machine`);
  assert(reader.seconds < 120, `${reader.seconds} s`);

  // It is the Iridium that is shipped: satellites are at the same places, and stations have the same links.
  const kept = join(folder, file.suggestedFilename());
  writeFileSync(kept, readFileSync(await file.path()));
  const plans = [kept, "scenarios/iridium.yaml"].map((file) => constel("plan", file, "--at", "24s", "--json"));
  const places = ({ nodes }) => nodes.filter(({ kind }) => kind === "satellite").map(({ name, position_itrf_m }) => [name, position_itrf_m]);
  assert.equal(places(plans[0]).length, 66);
  assert.deepEqual(places(plans[0]), places(plans[1]));
  const ground = ({ edges }) => edges.filter(({ kind, from_node }) => kind === "gsl" && cities.some((city) => city.toLowerCase().replace(" ", "-") === from_node)).map(({ from_node, to_node }) => `${from_node} ${to_node}`).sort();
  assert.equal(ground(plans[0]).length, 13);
  assert.deepEqual(ground(plans[0]), ground(plans[1]));
  assert.deepEqual(other.errors, []);
  await other.context.close();
  await own.stop();
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
