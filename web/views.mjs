// Pictures of every view to look at, in the sizes and colours that the page has to fit; no test compares them.
//   node views.mjs FOLDER [GROUP...]   plan, large, swarm, box, builder, replay, lab; all but `lab` unless given. `lab` needs root.
// RESULTS=FOLDER names the results that `replay` shows.

import { spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { fakeBox } from "./tests/fakebox.mjs";
import { browser, constel, CONSTEL, cutOff, open, ready, ROOT, scrub, serve } from "./tests/lib.mjs";

const [folder, ...groups] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const wanted = (group) => (groups.length ? groups.includes(group) : group !== "lab");
const SIZES = [[1280, 720], [1920, 1080], [390, 844]];
const chrome = await browser();

/** Each of these views in each size, dark and light. */
async function look(served, group, views, { prepare, there = ready } = {}) {
  const { page, context, errors } = await open(chrome, served.url, { size: { width: 1280, height: 720 }, points: 1, prepare });
  await there(page);
  for (const colorScheme of ["dark", "light"]) {
    await page.emulateMedia({ colorScheme });
    for (const [width, height] of SIZES) {
      await page.setViewportSize({ width, height });
      for (const [name, show] of Object.entries(views)) {
        await show(page, width);
        await page.evaluate(() => new Promise((done) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 500)));
        const file = `${group}-${name}-${width}-${colorScheme}.png`;
        await page.screenshot({ path: join(folder, file), animations: "disabled" });
        console.log([file, ...(await cutOff(page)).slice(0, 8)].join("\n    "));
      }
    }
  }
  if (errors.length) console.log(group, errors);
  await context.close();
}

const pick = (page, nodes, path = false) => page.evaluate(([nodes, path]) => window.constel.app.choose(nodes, path), [nodes, path]);
const view = (page, name) => page.click(`#view-${name}`);
const tab = (page, name) => page.click(`#tab-${name}`);
const land = (page) => page.waitForFunction(() => window.constel.stage.uniforms.uLand.value.image.width > 1);

if (wanted("plan")) {
  const served = await serve("--plan", "scenarios/iridium.yaml");
  await look(served, "plan", {
    empty: async (page) => (await land(page), await scrub(page, 24), await pick(page, []), await view(page, "globe"), await page.waitForFunction(() => window.constel.app.known.complete)),
    station: async (page) => (await pick(page, ["london"]), await page.waitForSelector(".skyplot")),
    satellite: async (page) => (await pick(page, ["iridium-p01-s04"]), await page.waitForSelector("#inspect table")),
    link: async (page) => (await pick(page, ["tokyo", "iridium-p01-s04"]), await page.waitForSelector("#why")),
    path: async (page) => (await pick(page, ["tokyo", "london"], true), await page.waitForSelector("#inspect .chart canvas")),
    map: (page) => view(page, "map"),
    topology: (page) => view(page, "topology"),
    delays: async (page) => (await view(page, "globe"), await page.selectOption("#shade", "delay")),
    events: async (page) => (await page.selectOption("#shade", "kind"), await tab(page, "events")),
    tables: (page) => tab(page, "tables"),
    search: async (page) => (await tab(page, "inspect"), await page.fill("#search", "lo"), await page.waitForSelector("#found button")),
    help: async (page) => (await page.fill("#search", ""), await page.press("#search", "Escape"), await page.click("#keys"), await page.waitForSelector("#help[open]")),
    after: (page) => page.click("#help button"),
  });
  await served.stop();
}
if (wanted("large")) {
  const served = await serve("--plan", "scenarios/starlink-shell1.yaml");
  await look(served, "large", {
    globe: async (page) => (await land(page), await scrub(page, 20), await view(page, "globe"), await pick(page, ["tokyo", "sao-paulo"], true), await page.waitForSelector(".chart canvas")),
    map: (page) => view(page, "map"),
    topology: (page) => view(page, "topology"),
  });
  await served.stop();
}
if (wanted("swarm")) {
  const served = await serve("--plan", "scenarios/swarm.yaml");
  await look(served, "swarm", {
    globe: async (page) => (await land(page), await view(page, "globe"), await pick(page, ["craft-0"])),
    swarm: (page) => view(page, "swarm"),
    topology: (page) => view(page, "topology"),
  });
  await served.stop();
}
if (wanted("box")) {
  const served = await serve("--plan", "scenarios/iridium.yaml");
  const box = fakeBox();
  await look(served, "box", {
    rules: (page) => page.waitForSelector("#rule-table"),
    text: async (page) => (await page.click("tr[data-rule=first] button:text-is('{}')"), await page.waitForSelector("#rule-text")),
    after: (page) => page.keyboard.press("Escape"),
  }, { prepare: box.prepare, there: (page) => page.waitForSelector("#rule-table") });
  await served.stop();
}
if (wanted("builder")) {
  const served = await serve("--new");
  const field = (at) => `#field-${at.replaceAll(".", "-")}`;
  const state = (page, wanted) => page.waitForFunction((wanted) => new RegExp(wanted).test(document.querySelector("#draft-state").textContent), wanted);
  let begun = false;
  await look(served, "builder", {
    begin: async (page) => {
      if (begun) return;
      begun = true;
      await page.screenshot({ path: join(folder, "builder-nothing-1280-dark.png") });
      await page.selectOption("#add-shell", { label: "Iridium NEXT" });
      for (const city of ["Tokyo", "London"]) await page.fill("#add-city", city), await page.press("#add-city", "Enter");
      await state(page, "2 stations");
      await page.click("#add-flow");
      await state(page, "^valid.* 1 flows?$");
    },
    errors: async (page) => (await page.fill(field("shells.0.altitude"), "780"), await page.fill(field("flows.0.for"), "long"), await state(page, "^2 errors$")),
    valid: async (page) => (await page.fill(field("shells.0.altitude"), "780 km"), await page.fill(field("flows.0.for"), "50 s"), await state(page, "^valid")),
    end: (page) => page.evaluate(() => document.querySelector("#builder").parentElement.scrollTo(0, 1e6)),
  }, { there: (page) => page.waitForSelector("#builder") });
  await served.stop();
}
if (wanted("replay")) {
  const served = await serve(process.env.RESULTS);
  await look(served, "replay", {
    results: async (page) => (await land(page), await scrub(page, 6), await pick(page, []), await tab(page, "results"), await page.waitForFunction(() => document.querySelectorAll("#results .chart canvas").length >= 4)),
    end: (page) => page.evaluate(() => document.querySelector("#results").parentElement.scrollTo(0, 1e6)),
    past: async (page) => (await page.evaluate(() => document.querySelector("#results").parentElement.scrollTo(0, 0)), await pick(page, ["lagos", "london"], true), await page.waitForSelector("#path-delay")),
    events: (page) => tab(page, "events"),
  });
  await served.stop();
}
if (wanted("lab")) {
  const name = `views-${process.pid}`;
  // The program writes to its standard output when the lab has ended.
  const run = spawn(CONSTEL, ["run", "scenarios/iridium.yaml", "--name", name, "--for", "900s", "--results", join(folder, "results")], { cwd: ROOT, stdio: "ignore" });
  const ended = new Promise((done) => run.on("exit", done));
  while (constel("list", "--json").find((row) => row.lab === name)?.state !== "running") await new Promise((done) => setTimeout(done, 300));
  const served = await serve(name, "--write", "--shell");
  const dock = (page) => page.$(".terminal .xterm-rows");
  await look(served, "lab", {
    node: async (page) => (await land(page), await pick(page, ["tokyo"]), await page.waitForSelector("button.capture")),
    link: async (page) => (await pick(page, ["tokyo", "iridium-p01-s04"]), await page.waitForSelector("#fail")),
    path: async (page) => (await pick(page, ["tokyo", "london"], true), await page.waitForFunction(() => /By the kernels/.test(document.querySelector("#inspect").textContent))),
    charts: async (page) => {
      await page.click("#start-flow");
      await tab(page, "charts");
      await page.waitForFunction(() => document.querySelectorAll("#charts figure canvas").length >= 3);
      await page.selectOption("#shade", "load");
      await new Promise((done) => setTimeout(done, 9000));
    },
    end: (page) => page.evaluate(() => document.querySelector("#charts").parentElement.scrollTo(0, 1e6)),
    terminal: async (page) => {
      await page.selectOption("#shade", "kind");
      await tab(page, "inspect");
      await pick(page, ["tokyo"]);
      await page.click("text=Terminal");
      await page.waitForFunction(() => /#/.test(document.querySelector(".terminal .xterm-rows")?.textContent));
      await page.keyboard.type("ping -c 4 -i 0.3 london\n");
      await page.waitForFunction(() => /packet loss/.test(document.querySelector(".terminal .xterm-rows").textContent));
    },
    past: async (page) => {
      if (await dock(page)) await page.click("[aria-label='close the terminal of tokyo']");
      await page.evaluate(() => window.constel.app.clock.scrub(5));
    },
    live: (page) => page.click("#live"),
  });
  await served.stop();
  run.kill("SIGINT");
  await ended;
}
await chrome.close();
process.exit(0);
