// Functions of the page that need no browser.

import assert from "node:assert/strict";
import { test } from "node:test";
import { source } from "./source.mjs";

const [{ Rate }, { nearest }, { groups, label }, { csv, flagged, flowCharts, flowVerdict, together, zoomed }, { health }, { detail, event, fixed, ms, numberOfEvents }, { absentPorts, failedNodes, unknownDelays }, { Pace }] = await Promise.all(
  ["rate", "arcs", "together", "curves", "health", "words", "byhand", "pace"].map(source),
);

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

const samples = (rows) => ({ names: ["t_s", "rtt_us", "owd_us", "owd_back_us", "throughput_bps", "fate", "path", "marked"], columns: rows[0].map((_, i) => rows.map((row) => row[i])) });
const paths = (rows) => ({ names: ["t_s", "flow", "path", "path_rtt_us", "shortest_rtt_us"], columns: [0, 1, 2, 3, 4].map((i) => rows.map((row) => row[i])) });
const curve = (chart, name) => chart.curves.find((curve) => curve.name === name);

test("flagged samples are points, the bound holds from each change to the next, and no gap is bridged", () => {
  // Samples are not in the order of time; the second is lost. Between 3 and 4 s there is no path.
  const [delay, ...more] = flowCharts(
    samples([
      [1, 41000, 20000, null, null, null, 1, 0],
      [4.5, 52000, 26000, null, null, null, 1, 1],
      [2, null, null, null, null, null, 1, 1],
      [3.5, 41000, 20000, null, null, null, 1, 0],
    ]),
    paths([[0.5, null, 1, 42000, 40000], [3, null, null, null, null], [4, null, 2, 51000, 50000]]),
  );
  assert.deepEqual(more, []);
  assert.deepEqual(delay.t, [0.5, 1, 2, 3, 3.5, 4, 4.5]);
  assert.deepEqual(curve(delay, "round trip").values, [undefined, 41, null, undefined, 41, undefined, 52]);
  // A lost sample is flagged too, and has no point: it has no round trip.
  assert.deepEqual(curve(delay, "flagged"), { name: "flagged", style: "points", values: [undefined, undefined, null, undefined, undefined, undefined, 52] });
  assert.deepEqual(curve(delay, "lower bound"), { name: "lower bound", style: "steps", values: [40, 40, 40, null, null, 50, 50] });
  assert.deepEqual(curve(delay, "its path").values, [42, 42, 42, null, null, 51, 51]);
});

test("a flow without flags, without paths, with throughput, or without samples has the charts that it can have", () => {
  const clean = flowCharts(samples([[1, 41000, null, null, null, null, 1, 0]]), null);
  assert.deepEqual(clean.map((chart) => chart.curves.map((curve) => curve.name)), [["round trip"]]);
  const bulk = flowCharts(samples([[1, null, null, null, 5e6, null, 1, 0], [2, null, null, null, 7e6, null, 1, 1]]), paths([[1, null, 1, 4, 4]]));
  assert.deepEqual(bulk.map(({ unit, curves }) => [unit, ...curves.map((curve) => curve.name)]), [["Mbit/s", "throughput", "flagged"]]);
  assert.deepEqual(curve(bulk[0], "flagged").values, [undefined, 7]);
  // One way alone has flags, and no bound: the bound is of round trips.
  const [owd] = flowCharts(samples([[1, null, 9000, null, null, null, 1, 1]]), paths([[1, null, 1, 4, 4]]));
  assert.deepEqual(owd.curves.map((curve) => curve.name), ["one way", "flagged"]);
  assert.deepEqual(flowCharts({ names: ["t_s"], columns: [[]] }, null), []);
});

test("a flow is affected with its doubt, not affected, or that is unknown", () => {
  assert.deepEqual(flowVerdict({ trustworthy: false, doubt: "late frames" }), { words: "affected: late frames", is: "bad" });
  assert.deepEqual(flowVerdict({ trustworthy: true }), { words: "not affected", is: "good" });
  assert.deepEqual(flowVerdict({ doubt: "its path is not known" }), { words: "unknown whether it is affected: its path is not known", is: "" });
  assert.equal(flagged({ samples: 20, marked_samples: 3 }), "3 of 20 samples flagged");
  assert.equal(flagged({ samples: 20 }), "0 of 20 samples flagged");
  assert.equal(flagged({ samples: 0 }), "");
});

test("a chart as CSV has units, empty cells for gaps, and quotes where a name needs them", () => {
  const text = csv({ unit: "ms", t: [1, 2.5], curves: [{ name: "a, b", values: [null, 3] }, { name: "c", values: [0, undefined] }] });
  assert.equal(text, 't_s,"a, b (ms)",c (ms)\n1,,0\n2.5,3,\n');
});

test("health is judged by the scenario's bound on lateness, and by frames that the emulator dropped", () => {
  const report = (p99_ns, emulator_drops = {}) => ({ lateness: { p99_ns }, emulator_drops });
  assert.deepEqual(health(report(5e6), 10e6), { words: ["p99 late 5000 µs"], isGood: true });
  assert.deepEqual(health(report(5e6), 1e6), { words: ["p99 late 5000 µs, more than 1000 µs"], isGood: false });
  assert.deepEqual(health(report(5e4, { ring: 2, pool: 0 }), 1e6), { words: ["p99 late 50 µs", "2 frames dropped by the emulator"], isGood: false });
  // A driver that cannot measure lateness, and a lab that has not reported.
  assert.deepEqual(health({ emulator_drops: {} }, 1e6), { words: [], isGood: true });
  assert.deepEqual(health(null, 1e6), { words: [], isGood: null });
});

test("events are in the glossary's words, each kind once", () => {
  const line = (kind, more) => event({ seq: 1, t_ns: 5, wall: "w", kind, ...more });
  assert.equal(line("routes-converged", { pairs: 12 }), "routes converged");
  assert.equal(line("routes-converged", { pairs: 12, after_s: 7.61 }), "routes converged: after 7.6 s");
  assert.equal(line("flow-started", { flow: "f" }), "flow started: f");
  assert.equal(line("flow-ended", { flow: "f", exit: 7 }), "flow ended: f, exit code 7");
  assert.equal(line("path-changed", { flow: "f", from: ["a", "b"], to: [] }), "path changed: f: no path");
  assert.equal(line("link-set", { link: "a-b", effects: {} }), "link changed: a-b by hand: none");
  assert.equal(line("starting", { lab: "iridium", nodes: 80 }), "starting: iridium, 80 nodes");
  assert.equal(line("running", { bring_up_s: 19.2427 }), "running: after 19.2 s of bring-up");
  assert.equal(line("containers-started", { count: 2 }), "containers started: count 2");
});

test("the number of events has the time up to which they are known, if there is one", () => {
  assert.equal(numberOfEvents(19, false, 4.25), "19 events so far (to 0:04.2)");
  // A lab in bring-up has events and no time yet.
  assert.equal(numberOfEvents(5, false, "not started"), "5 events so far (the clock has not started)");
  assert.equal(numberOfEvents(1, false, "all"), "1 event");
  assert.equal(numberOfEvents(60001, true, 12), "60,001 events computed so far (to 0:12.0)");
});

test("delays that were set have their range, and only those that are not listed are unknown", () => {
  const set = { kind: "delays-set", network: "air", edges: 2, reset: false, range: { min_ns: 1e6, median_ns: 3e6, max_ns: 5e6 } };
  assert.equal(detail(set), "air: 2 edges by hand: 1.000 ms to 5.000 ms, median 3.000 ms");
  const reset = { kind: "delays-set", network: "air", edges: 2, reset: true };
  assert.equal(detail(reset), "air: 2 edges by hand: as in the scenario");
  const listed = { ...set, delays: [{ from: "a", to: "b", delay_ns: 1e6 }, { from: "b", to: "a", delay_ns: 5e6 }] };
  assert.deepEqual(unknownDelays([listed]), []);
  assert.deepEqual(unknownDelays([listed, set]), ["air (1.000 to 5.000 ms, median 3.000 ms)"]);
  assert.deepEqual(unknownDelays([set, { ...set, network: "sea", range: undefined }, reset]), ["sea"]);
});

test("members that start away are absent until they join, and those that leave until they are back", () => {
  const member = (node, port, away = false) => ({ node, port, away });
  const networks = [
    { name: "air", members: [member(0, 10), member(1, 11), member(2, 12, true)] },
    { name: "sea", members: [member(1, 21, true), member(2, 22)] },
  ];
  const moved = (kind, network, node) => ({ kind: `member-${kind}`, network, node });
  const absent = (...changes) => [...absentPorts(networks, ["a", "b", "c"], changes)];
  assert.deepEqual(absent(), [12, 21]);
  assert.deepEqual(absent(moved("joined", "air", "c")), [21]);
  assert.deepEqual(absent(moved("joined", "air", "c"), moved("left", "air", "b"), moved("joined", "sea", "b")), [11]);
});

test("several flows are in one chart for each unit, over the instants of all", () => {
  const delay = (t, values) => ({ unit: "ms", t, curves: [{ name: "round trip", values }, { name: "flagged", values: [], style: "points" }] });
  const rate = { unit: "Mbit/s", t: [1], curves: [{ name: "throughput", values: [5] }] };
  const charts = together([{ name: "a", charts: [delay([1, 3], [10, null])] }, { name: "b", charts: [delay([2, 3], [20, 21]), rate] }]);
  // One throughput alone is compared with nothing.
  assert.deepEqual(charts, [
    {
      unit: "ms",
      t: [1, 2, 3],
      curves: [
        { name: "a, round trip", values: [10, undefined, null] },
        { name: "b, round trip", values: [undefined, 20, 21] },
      ],
    },
  ]);
});

test("a zoom stays within the time that there is", () => {
  assert.deepEqual(zoomed([0, 100], [0, 100], 0.5), [25, 75]);
  assert.deepEqual(zoomed([25, 75], [0, 100], 0.5, 25), [25, 50]);
  assert.equal(zoomed([25, 75], [0, 100], 2), null);
  assert.deepEqual(zoomed([80, 100], [0, 100], 2), [70, 100]);
  assert.equal(zoomed([20, 30], [0, 100], Infinity), null);
});

test("nodes that are stopped by hand are down until they are started", () => {
  const set = (change, ...nodes) => ({ kind: "nodes-set", change, nodes });
  const all = [set("fail", "a", "b"), set("pause", "c"), set("stop", "d"), set("heal", "b"), set("start", "d"), set("restart", "a")];
  assert.deepEqual([...failedNodes(all.slice(0, 3))], ["a", "b", "d"]);
  assert.deepEqual([...failedNodes(all)], ["a"]);
  assert.equal(event(all[0]), "nodes changed: a, b by hand: fail");
});

test("a picture waits for the one before, and for three times as long as that took; a graphics card draws at any time", () => {
  const fences = { SYNC_GPU_COMMANDS_COMPLETE: 1, SYNC_STATUS: 2, UNSIGNALED: 3, done: 4, fenceSync: () => ({}), getSyncParameter: () => fences.done, deleteSync: () => {}, flush: () => {} };
  const pace = new Pace(fences);
  const first = (from) => [...Array(3000).keys()].map((i) => from + i).find((now) => pace.may(now));
  assert.equal(first(0), 0);
  pace.drew(0);
  assert.equal(first(10), 100, "10 ms and rest, at least 100 ms");
  pace.drew(100);
  fences.done = fences.UNSIGNALED;
  assert.equal(first(101), undefined);
  fences.done = 4;
  assert.equal(first(180), 420, "80 ms, and 240 ms of rest");
  pace.drew(420);
  assert.equal(first(4260), 5260, "a second at most");
  const card = new Pace(null);
  card.drew(1);
  assert(card.may(1));
});

test("a number that rounds to zero has no sign", () => {
  assert.deepEqual([fixed(-0.02, 1), fixed(-0.06, 1), fixed(0, 1), fixed(-12.34, 1), ms(-100)], ["0.0", "-0.1", "0.0", "-12.3", "0.000 ms"]);
});
