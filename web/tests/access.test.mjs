// The page by keyboard, for screen readers, for fingers, and in light: with a scenario, so that no lab is needed.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { browser, cutOff, drawn, findings, open, ready, scrub, serve, tabTo } from "./lib.mjs";

const FILE = "scenarios/iridium.yaml";
let chrome, served, shown;

before(async () => {
  [chrome, served] = await Promise.all([browser(), serve("--plan", FILE)]);
  shown = await open(chrome, served.url);
  await ready(shown.page);
});
after(async () => {
  await chrome?.close();
  await served?.stop();
});

const tabs = () => shown.page.$$eval("#tabs button", (all) => all.map((one) => [one.id, one.getAttribute("aria-selected"), one.tabIndex]));
const focused = () => shown.page.evaluate(() => document.activeElement.id);

test("tabs move by arrow keys, and one of them is in the order of Tab", async () => {
  const { page } = shown;
  assert.deepEqual(await tabs(), [["tab-inspect", "true", 0], ["tab-events", "false", -1], ["tab-tables", "false", -1]]);
  await page.focus("#tab-inspect");
  for (const [key, wanted] of [["ArrowRight", "events"], ["ArrowRight", "tables"], ["ArrowRight", "inspect"], ["ArrowLeft", "tables"], ["Home", "inspect"], ["End", "tables"]]) {
    await page.keyboard.press(key);
    assert.equal(await focused(), `tab-${wanted}`, key);
    assert.deepEqual((await tabs()).filter(([, selected, index]) => selected === "true" && index === 0).map(([id]) => id), [`tab-${wanted}`]);
    assert(await page.isVisible(`#${wanted}-tab[role=tabpanel]`), key);
  }
  await page.keyboard.press("Home");
});

test("? lists the keys, and Escape closes the list", async () => {
  const { page } = shown;
  await page.keyboard.press("?");
  assert(await page.isVisible("#help"));
  const text = await page.textContent("#help");
  // The keys of the documentation, all of them.
  const table = readFileSync(new URL("../../docs/reference/web.md", import.meta.url), "utf8").split("## Keys")[1].split("##")[0];
  for (const key of table.matchAll(/`(.)`/g)) assert(text.includes(key[1]), key[1]);
  await page.keyboard.press("Escape");
  assert(!(await page.isVisible("#help")));
  await page.click("#keys");
  await page.click("#help button");
  assert(!(await page.isVisible("#help")));
});

test("one heading and one main part; headings are in order", async () => {
  const { page } = shown;
  assert.deepEqual(await page.$$eval("h1", (all) => all.map((one) => one.textContent)), ["iridium"]);
  assert.equal(await page.locator("main").count(), 1);
  assert(await page.evaluate(() => document.querySelector("main").contains(document.querySelector("#stage"))));
});

test("everything that can be pressed is 24 pixels wide and high", async () => {
  const { page } = shown;
  await page.evaluate(() => window.constel.app.choose(["tokyo"]));
  await page.waitForSelector(".skyplot");
  for (const tab of ["inspect", "events", "tables"]) {
    await page.click(`#tab-${tab}`);
    const small = await page.$$eval("button, select, input, [role=tab]", (all) =>
      all
        .map((one) => [one.id || one.textContent || one.name, one.getBoundingClientRect()])
        .filter(([, { width, height }]) => width && height && (width < 24 || height < 24))
        .map(([name, { width, height }]) => `${name}: ${width} x ${height}`),
    );
    assert.deepEqual(small, [], tab);
  }
  await page.click("#tab-inspect");
});

test("nothing is cut off on a large screen, a small one and a phone, in any view", async () => {
  const { page } = shown;
  for (const [width, height] of [[1920, 1080], [1280, 720], [390, 844]]) {
    await page.setViewportSize({ width, height });
    for (const [nodes, path, there] of [[["tokyo"], false, ".skyplot"], [["tokyo", "london"], false, "#why"], [["tokyo", "london"], true, "#inspect .chart canvas"]]) {
      await page.evaluate(([nodes, path]) => window.constel.app.choose(nodes, path), [nodes, path]);
      await page.waitForSelector(there);
      for (const view of ["globe", "map", "topology"]) {
        await page.click(`#view-${view}`);
        await drawn(page);
        assert.deepEqual(await cutOff(page), [], `${width} x ${height}, ${view}, ${nodes}`);
      }
    }
    for (const tab of ["events", "tables", "inspect"]) {
      await page.click(`#tab-${tab}`);
      assert.deepEqual(await cutOff(page), [], `${width} x ${height}, ${tab}`);
    }
    await page.keyboard.press("?");
    assert.deepEqual(await cutOff(page), [], `${width} x ${height}, keys`);
    await page.keyboard.press("Escape");
  }
  // On a phone the controls leave more than two thirds of the window to the picture and the details.
  const middle = await page.evaluate(() => document.querySelector("#middle").clientHeight / window.innerHeight);
  assert(middle > 0.68, `${middle}`);
  await page.click("#view-globe");
  await page.setViewportSize({ width: 1360, height: 820 });
});

test("a step does not take the focus from a row, nor a click that has begun", async () => {
  const { page } = shown;
  await scrub(page, 10);
  await page.evaluate(() => window.constel.app.choose(["iridium-p02-s03"]));
  await page.waitForSelector("#inspect table button.name");
  await page.focus("#inspect table button.name");
  const position = () => page.evaluate(() => [...document.querySelectorAll("#inspect td")].find((one) => /km$/.test(one.textContent)).textContent);
  const before = await position();
  await page.evaluate(() => (window.kept = document.activeElement));
  const { x, y, width, height } = await page.locator("#inspect table button.name").first().boundingBox();
  await page.mouse.move(x + width / 2, y + height / 2);
  await page.mouse.down();
  await scrub(page, 12);
  await page.waitForFunction((before) => [...document.querySelectorAll("#inspect td")].every((one) => one.textContent !== before), before);
  assert(await page.evaluate(() => window.kept.isConnected && document.activeElement === window.kept));
  await page.mouse.up();
  await page.waitForSelector("#why");
});

test("axe finds nothing, in dark and in light, on a station, a link and a path", async () => {
  const { page } = shown;
  for (const colorScheme of ["dark", "light"]) {
    await page.emulateMedia({ colorScheme });
    for (const [nodes, path] of [[["tokyo"], false], [["tokyo", "london"], false], [["tokyo", "london"], true]]) {
      await page.evaluate(([nodes, path]) => window.constel.app.choose(nodes, path), [nodes, path]);
      await page.waitForSelector(path ? "#inspect .chart canvas" : nodes.length > 1 ? "#why" : ".skyplot");
      assert.deepEqual(await findings(page), [], `${colorScheme}, ${nodes}`);
    }
    for (const tab of ["events", "tables"]) {
      await page.click(`#tab-${tab}`);
      assert.deepEqual(await findings(page), [], `${colorScheme}, ${tab}`);
    }
    await page.click("#tab-inspect");
  }
  await page.emulateMedia({ colorScheme: "dark" });
});

test("the next event is shown and announced", async () => {
  const { page } = shown;
  await page.waitForFunction(() => window.constel.app.known.complete);
  await scrub(page, 20);
  await page.focus("#play");
  // An announcement is there for some seconds only.
  await page.evaluate(() => {
    window.heard = [];
    new MutationObserver(() => window.heard.push(document.querySelector("#say").textContent)).observe(document.querySelector("#say"), { childList: true });
  });
  await page.keyboard.press("n");
  await page.waitForFunction(() => window.constel.app.clock.t === 24 && window.heard.length > 0);
  assert.match((await page.evaluate(() => window.heard))[0], /^0:24\.0 (handover|path changed): ./);
  assert.equal(await page.getAttribute("#say", "aria-live"), "polite");
});

test("a path needs no Shift: from a node's page to the node that is picked next", async () => {
  const { page } = shown;
  await page.evaluate(() => window.constel.app.choose(["tokyo"]));
  await page.waitForSelector("#path-from");
  await page.click("#path-from");
  await page.waitForSelector("#path-hint");
  await page.fill("#search", "london");
  await page.press("#search", "Enter");
  await page.waitForSelector("#path-delay");
  assert.deepEqual(await page.evaluate(() => window.constel.app.pick), { nodes: ["tokyo", "london"], path: true });
  // The next pick is a node again.
  await page.evaluate(() => window.constel.app.choose(["cairo"]));
  assert.deepEqual(await page.evaluate(() => window.constel.app.pick), { nodes: ["cairo"], path: false });
});

test("results of the search are reached by arrows, and everything of the head by Tab", async () => {
  const { page } = shown;
  await page.keyboard.press("Escape");
  await page.focus("#search");
  await page.keyboard.type("lo");
  await page.keyboard.press("ArrowDown");
  const first = await page.evaluate(() => document.activeElement.textContent);
  assert.match(first, /^lo/);
  await page.keyboard.press("ArrowUp");
  assert.equal(await focused(), "search");
  await page.keyboard.press("Escape");
  assert(!(await page.isVisible("#found")));
  await page.fill("#search", "");
  for (const control of ["#view-globe", "#view-map", "#view-topology", "#shade", "#palette", "#trails", "#keys", "#share", "#stage"]) await tabTo(page, control, 3);
});

test("text grows with the window and with the browser's setting", async () => {
  const { page } = shown;
  const size = async (width, height) => {
    await page.setViewportSize({ width, height });
    return page.evaluate(() => parseFloat(getComputedStyle(document.querySelector("#inspect")).fontSize));
  };
  const [small, large] = [await size(1280, 720), await size(1920, 1080)];
  assert(small >= 12.9 && large >= small * 1.12, `${small} px, ${large} px`);
  assert((await size(390, 844)) >= 12.9);
  await page.setViewportSize({ width: 1360, height: 820 });
});

/** The contrast of two colours as the browser computes them (WCAG 2.2). */
function contrast(a, b) {
  const luminance = (colour) => {
    const [r, g, bl] = colour.match(/[\d.]+/g).map((one) => {
      const share = Number(one) / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * bl;
  };
  const [low, high] = [luminance(a), luminance(b)].sort((p, q) => p - q);
  return (high + 0.05) / (low + 0.05);
}

test("the page is light or dark as the system asks, and its text can be read in both", async () => {
  const { page } = shown;
  for (const [scheme, isLight] of [["light", true], ["dark", false]]) {
    await page.emulateMedia({ colorScheme: scheme });
    const colours = await page.evaluate(() => {
      const of = (name) => {
        const probe = document.createElement("i");
        probe.style.color = `var(${name})`;
        document.body.append(probe);
        const { color } = getComputedStyle(probe);
        probe.remove();
        return color;
      };
      return Object.fromEntries(["--panel", "--back", "--raised", "--on", "--text", "--soft", "--head", "--link", "--good", "--bad", "--warn"].map((name) => [name, of(name)]));
    });
    assert.equal(await page.evaluate(() => getComputedStyle(document.querySelector("#panel")).backgroundColor), colours["--panel"]);
    assert.equal(contrast(colours["--panel"], "rgb(255, 255, 255)") < 2, isLight, scheme);
    for (const ink of ["--text", "--soft", "--head", "--link", "--good", "--bad", "--warn"]) {
      for (const paper of ["--panel", "--back"]) assert(contrast(colours[ink], colours[paper]) >= 4.5, `${scheme}: ${ink} on ${paper} ${contrast(colours[ink], colours[paper])}`);
    }
    for (const paper of ["--raised", "--on"]) assert(contrast(colours["--text"], colours[paper]) >= 4.5, `${scheme}: text on ${paper}`);
  }
  assert.deepEqual(shown.errors, []);
});

test("a curve is saved as CSV", async () => {
  const { page } = shown;
  await page.evaluate(() => window.constel.app.choose(["tokyo", "london"], true));
  await page.waitForSelector("#inspect .csv");
  const [file] = await Promise.all([page.waitForEvent("download"), page.click("#inspect .csv")]);
  assert.equal(file.suggestedFilename(), "least-delay-over-the-scenario.csv");
  const [head, ...rows] = readFileSync(await file.path(), "utf8").trimEnd().split("\n");
  assert.equal(head, "t_s,least delay (ms)");
  assert.equal(rows.length, 75);
  const delay = await page.textContent("#path-delay");
  const step = await page.evaluate(() => window.constel.app.step);
  assert.equal(Number(rows[step].split(",")[1]).toFixed(3), delay.replace(" ms", ""));
});

test("a curve is zoomed by buttons, and saved as a picture", async () => {
  const { page } = shown;
  await page.evaluate(() => window.constel.app.choose(["tokyo", "london"], true));
  await page.waitForSelector("#inspect .chart canvas");
  const all = page.locator("#inspect [aria-label^='show all of it']");
  assert(await all.isDisabled());
  await page.click("#inspect [aria-label^='zoom in']");
  assert(!(await all.isDisabled()));
  await all.click();
  assert(await all.isDisabled());
  const [file] = await Promise.all([page.waitForEvent("download"), page.click("#inspect .png")]);
  assert.equal(file.suggestedFilename(), "least-delay-over-the-scenario.png");
  const png = readFileSync(await file.path());
  assert.equal(png.subarray(1, 4).toString(), "PNG");
  // Its width and height are in its head.
  assert.deepEqual([png.readUInt32BE(16), png.readUInt32BE(20)], [1200, 48 + 520 + 34 + 16]);
  assert(png.length > 10_000, `${png.length} bytes`);
});

test("the tab of networks is there where there are networks", async () => {
  const { page, context } = await open(chrome, (await again()).url, {
    prepare: async (page) => {
      await page.route((url) => url.pathname === "/api/world", async (route) => {
        const answer = await route.fetch();
        await route.fulfill({ response: answer, json: { ...(await answer.json()), mode: "lab", networks: [{ name: "air", members: [] }] } });
      });
    },
  });
  await page.waitForSelector("#tab-networks");
  await context.close();
});

let second;
/** Another server: a token is good once. */
async function again() {
  second = await serve("--plan", FILE);
  return second;
}
after(() => second?.stop());
