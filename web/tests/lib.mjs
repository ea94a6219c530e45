// Serves with the built program and looks with Debian's Chromium. Everything that is started here is ended here.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { after } from "node:test";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";
import { chromium } from "playwright-core";

export const ROOT = join(dirname(fileURLToPath(import.meta.url)), "../..");
export const CONSTEL = process.env.CONSTEL ?? join(ROOT, "target/release/constel");
const BROWSER = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);

// Software rendering, and none of what a browser asks the world by itself.
const FLAGS = [
  "--no-sandbox", "--disable-gpu", "--enable-unsafe-swiftshader", "--use-angle=swiftshader", "--ignore-gpu-blocklist", "--disable-quic",
  "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
  "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
];

// Waits only recognise what hangs: a busy machine may take its time.
const HANGS_AFTER_MS = 240_000;

// What keeps a file's process from its end is named, and does not hold up everything else.
const LONGEST_MS = 1_200_000;
setTimeout(() => {
  console.error(`not at an end after ${LONGEST_MS / 1e3} s; still there: ${process.getActiveResourcesInfo().join(", ")}`);
  process.exit(1);
}, LONGEST_MS).unref();

// A test that fails leaves programs and browsers behind: they end with the file.
const started = new Set();
let over = false;
after(() => {
  over = true;
  return Promise.allSettled([...started].map((stop) => stop()));
});

/** The program's JSON. */
export function constel(...words) {
  return JSON.parse(execFileSync(CONSTEL, words, { cwd: ROOT, maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "ignore"] }).toString());
}

/** Starts the program; its first line of output, and how to end it. */
export async function start(words, { first = /./, errors = "ignore" } = {}) {
  const child = spawn(CONSTEL, words, { cwd: ROOT, stdio: ["ignore", "pipe", errors] });
  const ended = new Promise((done) => child.on("exit", done).on("error", done));
  const line = await new Promise((found, failed) => {
    createInterface({ input: child.stdout }).on("line", (line) => first.test(line) && found(line));
    child.on("error", failed);
    child.on("exit", (code) => failed(new Error(`constel ${words.join(" ")} ended with ${code}`)));
  });
  const stop = async () => {
    child.kill("SIGINT");
    await ended;
  };
  started.add(stop);
  return { line, stop, child, ended };
}

/** `constel web` with these words. */
export async function serve(...words) {
  const { line, stop } = await start(["web", ...words, "--no-open"], { first: /^http:/ });
  return { url: line, origin: new URL(line).origin, stop };
}

export async function browser() {
  assert(BROWSER, "no Chromium: tools/setup web installs it");
  // A page that tests put in the server's place counts as one from elsewhere, which may not open sockets here.
  const local = process.env.CONSTEL_PAGE ? ["--disable-features=LocalNetworkAccessChecks"] : [];
  const browser = await chromium.launch({ executablePath: BROWSER, headless: true, args: [...FLAGS, ...local] });
  started.add(() => browser.close());
  if (over) await browser.close();
  return browser;
}

/** Serves the page that `node build.mjs FOLDER` made instead of the program's own: `CONSTEL_PAGE=FOLDER` tries a page without building the program. */
async function built(page, folder) {
  for (const [path, name, type] of [["/", "index.html", "text/html"], ["/app.js", "app.js", "text/javascript"], ["/app.css", "app.css", "text/css"], ["/land.json", "land.json", "application/json"]]) {
    const body = gunzipSync(readFileSync(join(folder, `${name}.gz`)));
    await page.route((url) => url.pathname === path, async (route) => route.fulfill({ response: await route.fetch(), contentType: type, body }));
  }
}

/** Opens a page, and fails on its errors; `foreign` collects requests to anywhere else. */
export async function open(browser, url, { size = { width: 1360, height: 820 }, reduced = "reduce", colours = "dark", points = 0.5, prepare = async () => {} } = {}) {
  // Half a point for a pixel: a quarter of the points takes a quarter of the processors, and the layout is the same.
  const context = await browser.newContext({ viewport: size, deviceScaleFactor: points, reducedMotion: reduced, colorScheme: colours });
  // Of the context, so that it holds for the requests of routes too.
  context.setDefaultTimeout(HANGS_AFTER_MS);
  const page = await context.newPage();
  if (process.env.CONSTEL_PAGE) await built(page, process.env.CONSTEL_PAGE);
  const origin = new URL(url).origin;
  const foreign = [];
  const errors = [];
  page.on("request", (request) => {
    const to = request.url();
    if (!to.startsWith(`${origin}/`) && !to.startsWith("data:") && !to.startsWith("blob:")) foreign.push(to);
  });
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  await prepare(page);
  await page.goto(url);
  return { page, context, foreign, errors, origin };
}

/** Violations that axe finds on the page as it is, one line each. */
export async function findings(page) {
  const axe = readFileSync(join(ROOT, "web/node_modules/axe-core/axe.min.js"), "utf8");
  await page.evaluate(`${axe}; 0`);
  return page.evaluate(async () => {
    const { violations } = await window.axe.run(document, { resultTypes: ["violations"] });
    return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ target, failureSummary }) => `${target} (${failureSummary})`).join("; ")}`);
  });
}

/** What is cut off, or lies outside of the window, one line each. Parts that scroll may go on below. */
export const cutOff = (page) =>
  page.evaluate(() => {
    const { clientWidth: wide, clientHeight: high } = document.documentElement;
    const found = [];
    for (const one of document.querySelectorAll("header *, footer *, #panel *, #rules *, #legend *, #help *, .label")) {
      const { left, right, top, bottom, width, height } = one.getBoundingClientRect();
      if (!width || !height || one.closest("[hidden], option, canvas, .u-over, .wide")) continue;
      const style = getComputedStyle(one);
      const name = `${one.tagName.toLowerCase()}${one.id ? `#${one.id}` : ""} "${one.textContent.slice(0, 40)}"`;
      if (style.overflowX === "hidden" && style.textOverflow !== "ellipsis" && one.clientWidth && one.scrollWidth > one.clientWidth + 1) found.push(`${name} is cut off`);
      const frame = one.closest("#labels")?.getBoundingClientRect() ?? { left: 0, right: wide };
      const isBeside = left < frame.left - 1 || right > frame.right + 1;
      const isBelow = (top < -1 || bottom > high + 1) && !one.closest("#panel > div:not(#tabs), #rules, #found, #help, .label");
      if (isBeside || isBelow) found.push(`${name} is outside of the window`);
    }
    return found;
  });

/** Presses Tab until the element with this selector has the focus. */
export async function tabTo(page, selector, most = 150, key = "Tab") {
  for (let i = 0; i < most; i++) {
    await page.keyboard.press(key);
    if (await page.evaluate((selector) => document.activeElement.matches(selector), selector)) return;
  }
  assert.fail(`${selector} has no focus after ${most} times ${key}`);
}

/** Keeps what the page announces to screen readers: for `prepare` of `open`. An announcement is there for some seconds only. */
export const listen = (page) =>
  page.addInitScript(() => {
    window.heard = [];
    addEventListener("DOMContentLoaded", () => {
      const say = document.querySelector("#say");
      new MutationObserver(() => window.heard.push(say.textContent)).observe(say, { childList: true });
    });
  });

/** Waits until the page has announced these words, after those that were waited for before. */
export const said = (page, words) =>
  page.waitForFunction((words) => {
    const at = window.heard.findIndex((one) => one.includes(words));
    if (at >= 0) window.heard.splice(0, at + 1);
    return at >= 0;
  }, words);

/** A session on a running lab by keyboard alone: a path from tokyo to london, a flow on it, and a link of tokyo from the tables, which is failed. Returns its name. */
export async function sessionByKeyboard(page) {
  const { keyboard } = page;
  await page.evaluate(() => (window.constel.app.choose([]), document.activeElement.blur()));
  await keyboard.press("/");
  await keyboard.type("tokyo");
  await keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelector("#inspect h2").textContent === "tokyo");
  await keyboard.press("Escape");
  await keyboard.type("-> london");
  await keyboard.press("Enter");
  await page.waitForSelector("#start-flow");
  await tabTo(page, "#start-flow");
  await keyboard.press("Enter");
  await said(page, "the flow has started");
  await tabTo(page, "#tab-inspect", 61, "Shift+Tab");
  await keyboard.press("ArrowRight");
  await keyboard.press("ArrowRight");
  assert(await page.isVisible("#tables-tab"));
  await tabTo(page, "#tables input", 5);
  await keyboard.type("tokyo");
  await tabTo(page, "#tables table:last-of-type button.name", 40);
  const name = await page.evaluate(() => document.activeElement.textContent);
  assert.match(name, /tokyo – |– tokyo/);
  await keyboard.press("Enter");
  await page.waitForSelector("#fail");
  await tabTo(page, "#fail");
  await keyboard.press("Enter");
  await said(page, "failed");
  return name;
}

/** Waits until a step is shown. */
export async function ready(page) {
  await page.waitForFunction(() => document.body.dataset.ready === "1" && (!window.constel || window.constel.app.clock.frame));
}

/** Shows an instant and waits until its step is drawn. */
export async function scrub(page, t) {
  await page.evaluate((t) => window.constel.app.clock.scrub(t), t);
  await page.waitForFunction(
    (t) => {
      const { clock } = window.constel.app;
      return clock.frame.tNs / 1e9 <= t + 1e-6 && t < clock.frame.thenNs / 1e9;
    },
    t,
  );
}

/** Waits until what is known now has been drawn: pictures and labels follow a change some frames later. */
export async function drawn(page) {
  const before = await page.evaluate(() => ((window.constel.stage.dirty = true), window.constel.count()));
  await page.waitForFunction((before) => window.constel.count() > before, before);
}

/** Links that are drawn and carry frames, as sorted `A B`. */
export const links = (page) =>
  page.evaluate(() => {
    const { app } = window.constel;
    const name = (i) => app.world.nodes[i].name;
    return [...app.links.all.values()].filter((link) => !link.turning).map((link) => [name(link.a), name(link.b)].sort().join(" ")).sort();
  });

/** The same of `constel plan --at`. */
export function planned(file, t) {
  const { edges } = constel("plan", file, "--at", `${t}s`, "--json");
  return [...new Set(edges.map((edge) => [edge.from_node, edge.to_node].sort().join(" ")))].sort();
}

/** Writes the results of a run that never was: of this scenario, with these events, flows of the summary, and files. */
export function results(folder, { scenario, name, events = [], flows = [], files = {}, trustworthy = true, reasons = [] }) {
  mkdirSync(join(folder, "flows"), { recursive: true });
  const write = (file, text) => writeFileSync(join(folder, file), text);
  const row = (event, i) => JSON.stringify({ seq: i + 1, wall: "2026-11-21T00:00:00.000000Z", ...event });
  write("scenario.yaml", scenario);
  write("events.ndjson", `${events.map(row).join("\n")}\n`);
  for (const [file, text] of Object.entries(files)) write(file, text);
  const manifest = JSON.parse(readFileSync(join(ROOT, "web/tests/data/manifest.json")));
  write("manifest.json", JSON.stringify({ ...manifest, lab: name, scenario: name }));
  const summary = JSON.parse(readFileSync(join(ROOT, "web/tests/data/summary.json")));
  write("summary.json", JSON.stringify({ ...summary, lab: name, scenario: name, flows, verdict: { trustworthy, reasons } }));
}
