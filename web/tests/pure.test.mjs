// Functions of the page that need no browser.

import assert from "node:assert/strict";
import { test } from "node:test";
import { build } from "esbuild";

/** A module of the page's sources. */
async function source(name) {
  const { outputFiles } = await build({ entryPoints: [new URL(`../src/${name}.ts`, import.meta.url).pathname], bundle: true, format: "esm", write: false });
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);
}
const [{ Rate }, { nearest }, { groups, label }] = await Promise.all(["rate", "arcs", "together"].map(source));

test("a constant rate is constant, however often the page gets the same sample", () => {
  // The lab is sampled every 4 s and a little more; the page gets the latest sample every half second.
  const rate = new Rate();
  const got = [];
  for (let poll = 0; poll < 200; poll++) {
    const atS = Math.floor(poll / 8) * 4.013;
    got.push(rate.take(Math.round(915 * atS), atS));
  }
  const rates = got.filter((one) => one !== null);
  assert.equal(rates.length, 24);
  assert(rates.every((one) => Math.abs(one - 915) < 0.5), `${rates}`);
});

test("a counter that begins again, and a clock that does, have no rate", () => {
  const rate = new Rate();
  assert.deepEqual([[10, 1], [30, 2], [5, 3], [6, 4], [50, 1], [60, 2]].map(([count, at]) => rate.take(count, at)), [null, 20, null, 1, null, 10]);
});

const direction = (lon, lat) => {
  const [l, p] = [(lon * Math.PI) / 180, (lat * Math.PI) / 180];
  return [Math.cos(p) * Math.cos(l), Math.cos(p) * Math.sin(l), Math.sin(p)];
};
const degrees = ([x, y, z]) => [(Math.atan2(y, x) * 180) / Math.PI, (Math.asin(z) * 180) / Math.PI];
const near = (got, wanted) => got.forEach((one, i) => assert(Math.abs(one - wanted[i]) < 1e-6, `${got}, not ${wanted}`));

test("the nearest point of a link is on its great circle, over the date line and near a pole too", () => {
  // Along the equator and over the date line: the foot of a point north of it.
  near(degrees(nearest(direction(170, 0), direction(-170, 0), direction(-175, 3))), [-175, 0]);
  // A polar laser between 80 degrees on both sides goes over 90, not along a parallel.
  near(degrees(nearest(direction(0, 80), direction(180, 80), direction(90, 85))).slice(1), [90]);
  // Beyond an end, the end.
  near(degrees(nearest(direction(0, 0), direction(10, 0), direction(20, 5))), [10, 0]);
  near(degrees(nearest(direction(0, 0), direction(10, 0), direction(-170, 1))), [0, 0]);
  // Both ends above one place.
  near(degrees(nearest(direction(7, 8), direction(7, 8), direction(50, 8))), [7, 8]);
});

test("craft that are one dot have one label, which says how many they are", () => {
  const craft = [0, 1, 2, 3, 4, 5].map((i) => ({ name: `c-${i}`, x: 100 + i, y: 50 }));
  assert.deepEqual(groups(craft, 10).map(label), ["6 craft: c-0, c-1, c-2, c-3, c-4, c-5"]);
  const more = [...craft, { name: "far", x: 300, y: 50 }, { name: "c-6", x: 101, y: 52 }, { name: "c-7", x: 100, y: 49 }];
  assert.deepEqual(groups(more, 10).map(label), ["8 craft: c-0, c-1, c-2, c-3, c-4, c-5 and 2 more", "far"]);
});
