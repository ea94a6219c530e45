// What a reader does on the page of a running lab.

import assert from "node:assert/strict";
import { test } from "node:test";
import { readFileSync } from "node:fs";
import { findings, sessionByKeyboard } from "./lib.mjs";
import { CAPTURED, orders, pick, said, shell, shown } from "./livelab.mjs";

test("a link is failed and set for a time, a node is stopped and started", async () => {
  const { page } = shown;
  await pick(["tokyo", "london"]);
  await page.waitForSelector("#fail");
  orders.length = 0;
  await page.fill(".impair input[name=for]", "2.5");
  await page.click("#fail");
  await said("failed for 2.5 s");
  await page.fill(".impair input[name=delay]", "40");
  await page.fill(".impair input[name=loss]", "1");
  await page.click(".impair button:text-is('Set')");
  await said("set for 2.5 s");
  const link = { verb: "set-link", a: "tokyo", b: "london", wait: true, for_ns: 2.5e9 };
  assert.deepEqual(orders, [
    { ...link, effects: { down: true } },
    { ...link, effects: { delay_ns: 40e6, loss: { random: { ratio: 0.01 } } } },
  ]);
  await pick(["cairo"]);
  await page.waitForSelector("[data-change=stop]");
  orders.length = 0;
  for (const change of ["stop", "start", "pause"]) {
    await page.click(`[data-change=${change}]`);
    await said("cairo: ");
  }
  assert.deepEqual(orders, ["stop", "start", "pause"].map((change) => ({ verb: "set-nodes", nodes: ["cairo"], change, wait: true })));
});

test("frames of a node are captured and saved as pcapng", async () => {
  const { page } = shown;
  await pick(["cairo"]);
  await page.waitForSelector("button.capture");
  orders.length = 0;
  await page.fill("form.capture input[name=for]", "3");
  await page.fill("form.capture input[name=filter]", "protocol: udp");
  const [file] = await Promise.all([page.waitForEvent("download"), page.click("button.capture")]);
  assert.equal(file.suggestedFilename(), "iridium-cairo.pcapng");
  assert.deepEqual(readFileSync(await file.path()), CAPTURED);
  assert.deepEqual(orders, [{ capture: { of: "cairo", for_s: 3, filter: "protocol: udp" } }]);
});

test("a station is attached to a satellite, detached, and left to its policy again", async () => {
  const { page } = shown;
  orders.length = 0;
  const satellite = await page.evaluate(() => {
    const { app } = window.constel;
    const own = app.numbers.get("tokyo");
    const link = [...app.links.all.values()].find((link) => link.a === own || link.b === own);
    return app.world.nodes[link.a === own ? link.b : link.a].name;
  });
  await pick([satellite, "tokyo"]);
  await page.click("#attach");
  await said(`tokyo: it uses ${satellite} while it can`);
  await pick(["tokyo"]);
  await page.waitForSelector(".skyplot");
  assert(!(await page.isVisible("#attach")));
  await page.click("#detach");
  await said("tokyo: it uses no satellite");
  await page.click("#by-policy");
  await said("tokyo: its policy chooses again");
  assert.deepEqual(orders, [{ kind: "attach", satellite }, { kind: "detach" }, { kind: "policy" }].map((change) => ({ verb: "set-station", stations: ["tokyo"], change })));
  // A link between satellites has no station.
  await pick(["iridium-p00-s00", "iridium-p00-s01"]);
  await page.waitForSelector("#fail");
  assert(!(await page.isVisible("#detach")));
});

test("a session by keyboard alone: a path, a flow on it, a link from the tables that is failed", async () => {
  const { page } = shown;
  orders.length = 0;
  const name = await sessionByKeyboard(page);
  assert.deepEqual(orders[0], { flow: { tool: "ping", from: "tokyo", to: "london", for_s: 30 } });
  assert.equal(orders[1].verb, "set-link");
  assert.deepEqual([orders[1].a, orders[1].b].sort(), name.split(" – ").sort());
});

test("axe finds nothing on a live lab: a link, a path, a node, the charts", async () => {
  const { page } = shown;
  for (const [nodes, path, there] of [[["tokyo", "london"], false, "#fail"], [["tokyo", "london"], true, "#start-flow"], [["cairo"], false, "button.capture"]]) {
    await pick(nodes, path);
    await page.waitForSelector(there);
    assert.deepEqual(await findings(page), [], there);
  }
  await page.click("#tab-charts");
  await page.waitForSelector("#live-flows table");
  assert.deepEqual(await findings(page), [], "charts");
  await page.click("#tab-inspect");
});

test("a terminal types, says its size, and acknowledges what it has shown", async () => {
  const { page } = shown;
  await pick(["tokyo"]);
  await page.click("text=Terminal");
  await page.waitForSelector(".terminal .xterm-rows");
  while (!shell.sizes.length) await new Promise((done) => setTimeout(done, 50));
  await page.keyboard.type("echo one");
  await page.waitForFunction(() => document.querySelector(".terminal .xterm-rows").textContent.includes("echo one"));
  assert.equal(shell.typed, "echo one");
  const [before] = shell.sizes.at(-1);
  await page.setViewportSize({ width: 900, height: 820 });
  while (shell.sizes.at(-1)[0] >= before) await new Promise((done) => setTimeout(done, 50));
  await page.setViewportSize({ width: 1360, height: 820 });
  // As `yes` does: as much as the server lets be under way, and more when it was shown. A megabyte and a half in all.
  const piece = Buffer.from("y\r\n".repeat(5461));
  const all = 96 * piece.length;
  for (let sent = 8; sent < all; ) {
    while (sent - shell.shown > 256 * 1024) await new Promise((done) => setTimeout(done, 10));
    shell.wire.send(piece);
    sent += piece.length;
  }
  while (shell.shown < all - 32768) await new Promise((done) => setTimeout(done, 20));
  await page.keyboard.press("Control+c");
  while (!shell.typed.endsWith("\x03")) await new Promise((done) => setTimeout(done, 20));
  await page.click("[aria-label='close the terminal of tokyo']");
  await page.waitForFunction(() => document.querySelector("#dock").hidden);
});

test("nothing of it was an error, or asked anyone else", () => {
  assert.deepEqual(shown.errors, []);
  assert.deepEqual(shown.foreign, []);
});
