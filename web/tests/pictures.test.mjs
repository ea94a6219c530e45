// What the picture is made of, without a browser: the eye, the topology, the swarm, the scale of delays, cities, and the view's address.

import assert from "node:assert/strict";
import { test } from "node:test";
import { source } from "./source.mjs";

const [{ aim, towards }, { grid, spread }, { formation, picture, relative, roundLength }, { DelayScale, rounded }, { direction, find, named }, { parsed, written }, { placed }] = await Promise.all(
  ["aim", "grid", "relative", "scale", "cities", "address", "places"].map(source),
);

const radians = (degrees) => (degrees * Math.PI) / 180;
const place = (lonDeg, latDeg, radius = 1) => [Math.cos(radians(latDeg)) * Math.cos(radians(lonDeg)), Math.cos(radians(latDeg)) * Math.sin(radians(lonDeg)), Math.sin(radians(latDeg))].map((one) => one * radius);
const HALF = radians(18);

/** Whether an eye sees a place: before the horizon, and within the picture. */
function sees({ lon, lat, far }, p) {
  const eye = place(lon, lat, far);
  const ray = p.map((one, i) => one - eye[i]);
  const length = Math.hypot(...ray);
  const along = -eye.reduce((all, one, i) => all + (one * ray[i]) / length, 0);
  const closest = Math.hypot(...eye) ** 2 - along ** 2;
  const isHidden = along > 0 && along < length && closest < 0.985;
  const angle = Math.acos(along / Math.hypot(...eye));
  return !isHidden && angle < HALF;
}

test("an eye is found that sees both ends of a path, wherever they are", () => {
  const pairs = [
    [place(139.7, 35.7), place(-46.6, -23.5)],
    [place(139.7, 35.7), place(-0.1, 51.5)],
    [place(170, 10), place(-170, -10)],
    [place(10, 89), place(-120, 80)],
    [place(0, 0, 1.1), place(150, 20, 1.2)],
    [place(5, 5), place(5.1, 5)],
    [place(0, 0, 6.6), place(90, 0)],
  ];
  for (const pair of pairs) {
    const eye = aim(pair, HALF);
    for (const p of pair) assert(sees(eye, p), `${p} from ${JSON.stringify(eye)}`);
  }
  // Near places are not seen from afar, and what has no position does not turn the picture.
  assert.equal(aim([place(5, 5), place(5.1, 5)], HALF).far, 2.2);
  assert.equal(aim([[0, 0, 0], [NaN, 0, 0]], HALF), null);
  const single = aim([place(30, -40)], HALF);
  assert(Math.abs(single.lon - 30) < 1e-9 && Math.abs(single.lat + 40) < 1e-9);
});

test("the eye turns the short way round, and arrives", () => {
  let eye = { lon: 170, lat: 0, far: 4 };
  const goal = { lon: -170, lat: 20, far: 3 };
  const [first] = towards(eye, goal, 0.5);
  assert.equal(first.lon, 180 - 360);
  let [steps, arrived] = [0, false];
  while (!arrived) {
    [eye, arrived] = towards(eye, goal, 0.2);
    assert(++steps < 60);
  }
  assert.deepEqual(eye, goal);
});

const satellite = (constellation, shell, plane, slot) => ({ name: `s-${plane}-${slot}`, kind: "satellite", constellation, seat: [shell, plane, slot] });

test("planes are columns, slots are rows, and both have their titles", () => {
  const nodes = [satellite(0, 0, 0, 0), satellite(0, 0, 0, 1), satellite(0, 0, 1, 0), { name: "tokyo", kind: "ground" }];
  const { places, planes, slots } = grid(nodes, [{ name: "iridium", satellites: 3 }]);
  assert.equal(places[0][0], places[1][0]);
  assert.equal(places[0][1], places[2][1]);
  assert(places[0][0] < places[2][0] && places[0][1] < places[1][1]);
  assert(places[3][1] < -1);
  assert.deepEqual(planes.map(({ title }) => title), ["plane 0", "plane 1"]);
  assert.deepEqual(planes.map(({ at }) => at), [places[0][0], places[2][0]]);
  assert.deepEqual(slots.map(({ title, at }) => [title, at]), [["slot 0", places[0][1]], ["slot 1", places[1][1]]]);
  const two = grid([satellite(0, 0, 0, 0), satellite(1, 2, 0, 0)], [{ name: "a" }, { name: "b" }]);
  assert.deepEqual(two.planes.map(({ title }) => title), ["a 0, plane 0", "b 2, plane 0"]);
});

test("titles that would overlap are left out evenly", () => {
  const lines = Array.from({ length: 72 }, (_, i) => ({ at: i, title: String(i) }));
  assert.deepEqual(spread(lines, 10, 84).slice(0, 3).map(({ title }) => title), ["0", "10", "20"]);
  assert.equal(spread(lines, 100, 84).length, 72);
  assert.equal(spread(lines.slice(0, 1), 1, 84).length, 1);
});

test("a swarm is seen along its track, outwards and across, whatever the Earth does", () => {
  // An equatorial orbit eastwards: the chief at 0 E, a craft 1 km ahead, one 2 km above, one 3 km to the north.
  const radius = 7000;
  const rate = 1.078e-3 - 7.2921159e-5;
  const now = [radius, 0, 0];
  const then = [radius * Math.cos(rate), radius * Math.sin(rate), 0];
  const near = (got, wanted) => got.forEach((one, i) => assert(Math.abs(one - wanted[i]) < 1e-6, `${got}, not ${wanted}`));
  const [ahead, above, north] = relative(now, then, 1, [[radius, 1, 0], [radius + 2, 0, 0], [radius, 0, 3]]);
  near(ahead, [1, 0, 0]);
  near(above, [0, 2, 0]);
  near(north, [0, 0, 3]);
  // A satellite that stands still over the Earth flies eastwards in space.
  near(relative([42164, 0, 0], [42164, 0, 0], 60, [[42164, 5, 0]])[0], [5, 0, 0]);
  near(picture([1, 2, 3], 0, 0), [1, 2]);
  near(picture([1, 2, 3], -90, 0), [3, 2]);
  near(picture([0, 0, 3], 0, 90), [0, -3]);
  assert.deepEqual([0.7, 1.9, 49, 50, 730].map(roundLength), [0.5, 1, 20, 50, 500]);
  assert.deepEqual(["craft-12", "a-b-3", "solo"].map(formation), ["craft", "a-b", "solo"]);
});

test("delays have the colours of the scenario's own range, in round numbers that only grow", () => {
  assert.deepEqual(rounded(2.6, 19.3), [2, 20]);
  assert.deepEqual(rounded(0.2, 19.3), [0, 20]);
  assert.deepEqual(rounded(5, 5), [5, 5.05]);
  assert.deepEqual(rounded(0, 0), [0, 1]);
  const scale = new DelayScale();
  assert.equal(scale.take([]), false);
  assert.equal(scale.take([3, 9]), true);
  const [low, high] = scale.limits;
  assert(low <= 3 && high >= 9 && scale.share(low) === 0 && scale.share(high) === 1);
  assert.equal(scale.take([5]), false);
  assert.equal(scale.take([40]), true);
  assert(scale.limits[1] >= 40 && scale.limits[0] <= 3);
});

test("more cities are named, the nearer the eye is, and they are where they are", () => {
  assert.equal(named("globe", 3.9, 1), 0);
  assert.equal(named("topology", 1.1, 30), 0);
  const counts = [3.9, 2, 1.5, 1.2].map((far) => named("globe", far, 1));
  assert.deepEqual(counts, [...counts].sort((a, b) => a - b));
  assert(counts[3] > counts[1]);
  assert(named("map", 0, 6) > named("map", 0, 2));
  direction(["London", 51.5, -0.13]).forEach((one, i) => assert(Math.abs(one - place(-0.13, 51.5)[i]) < 1e-9));
});

test("a city is found by its English name, its local name and the beginning of its name", () => {
  const cities = [["New York Newark", 40.72, -74], ["Cairo", 30.04, 31.24, "Al Qahirah"], ["São Paulo", -23.55, -46.64], ["Yorkton", 0, 0], ["York", 0, 0]];
  const first = (text) => find(cities, text)?.[0];
  assert.deepEqual(["cairo", "Al-Qahirah", "Sao Paulo", "New York", "york"].map(first), ["Cairo", "Cairo", "São Paulo", "New York Newark", "York"]);
  assert.equal(find(cities, "Atlantis"), null);
  assert.equal(find(cities, "New Yo"), null);
});

test("a view comes back from its address, and foreign parts of an address are left out", () => {
  const view = { view: "map", shade: "delay", t: 42, pick: { nodes: ["tokyo", "london"], path: true }, eye: { lon: 1, lat: 2, far: 3 }, flat: { x: 0.5, y: -1, zoom: 2 } };
  const isKnown = (node) => ["tokyo", "london"].includes(node);
  assert.deepEqual(parsed(`#${written(view)}`, isKnown), { view: "map", shade: "delay", t: 42, pick: view.pick, flat: view.flat });
  const live = { ...view, view: "globe", shade: "kind", t: null, pick: { nodes: [], path: false } };
  assert.deepEqual(parsed(`#${written(live)}`, isKnown), { view: "globe", eye: live.eye });
  assert.deepEqual(parsed("#view=moon&links=smell&t=-3&eye=a b c&pick=paris", isKnown), { pick: { nodes: [], path: false } });
});

test("names stay within the picture: to the left of their points at its right edge, and not over each other", () => {
  const put = (...wanted) => placed(wanted.map(([name, x, y, is = ""]) => ({ name, at: [x, y], is })), [390, 300], 13, 90);
  const [middle] = put(["sydney", 200, 100]);
  assert.deepEqual([middle.isLeft, middle.x, middle.y], [false, 208, 100]);
  const [edge] = put(["sydney", 370, 100]);
  assert.deepEqual([edge.isLeft, edge.x], [true, 362]);
  const names = (found) => found.map(({ name }) => name);
  // One that would lie over another is left out; picked nodes have their names in any case, one below the other.
  assert.deepEqual(names(put(["london", 100, 100], ["paris", 120, 104], ["oslo", 100, 130])), ["london", "oslo"]);
  const both = put(["london", 378, 250, "picked"], ["tokyo", 378, 258, "picked"], ["lima", 330, 252]);
  assert.deepEqual(names(both), ["london", "tokyo"]);
  assert(Math.abs(both[0].y - both[1].y) >= 14 && both.every(({ isLeft }) => isLeft), JSON.stringify(both));
  // What is outside of the picture has no name, and a name at its edge is not cut off.
  assert.deepEqual(names(put(["north", 100, -1], ["west", -5, 50], ["east", 391, 50])), []);
  const [top] = put(["top", 100, 1]);
  assert(top.y >= 7, `${top.y}`);
  // A name that fits on no side stays at its right.
  assert(!placed([{ name: "a-satellite-of-a-long-name", at: [60, 40], is: "" }], [100, 100], 13, 9)[0].isLeft);
});
