// What the page of a running lab shows, and how it goes on while it is read.

import assert from "node:assert/strict";
import { test } from "node:test";
import { asked, labT, loads, pick, shown, SLOW_MS, told } from "./livelab.mjs";

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
  told.lateP99Ns = 5e6;
  await chip("p99 late 5000 µs", "good");
  assert.match(await page.getAttribute("#verdict", "title"), /the scenario allows 10.000 ms/);
  told.lateP99Ns = 11e6;
  await chip("p99 late 11000 µs, more than 10000 µs", "bad");
  told.lateP99Ns = 42000;
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
