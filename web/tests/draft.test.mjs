// The builder's scenario without a browser: its text, the fields of its lines, and flows as rows of a table.

import assert from "node:assert/strict";
import { test } from "node:test";
import { source } from "./source.mjs";

const [{ byField, empty, free, renamed, restored, scalar, SHELLS, slug, yaml }, { FLOW_HEAD, flowCells, lossRows }] = await Promise.all(["draft", "flowtable"].map(source));

function draft() {
  const { shell } = SHELLS[0];
  const station = (name, latitude, longitude) => ({ name, latitude, longitude });
  const flow = (name, kind) => ({ name, kind, from: "tokyo", to: "london", at: "5 s", for: "60 s", rate: "5 Mbit/s" });
  return { ...empty(), name: "first", shells: [shell], stations: [station("tokyo", "35.69 deg", "139.69 deg"), station("london", "51.5 deg", "-0.13 deg")], flows: [flow("a", "ping"), flow("b", "udp")] };
}

test("every value has a line of its own, which leads back to its field", () => {
  const { text, fields } = yaml(draft());
  const lines = text.trimEnd().split("\n");
  const at = (field) => lines.filter((_, i) => fields.get(i + 1) === field).map((line) => line.trim());
  assert.deepEqual(at("shells.0.altitude"), ["altitude: 780 km"]);
  assert.deepEqual(at("shells.0.name"), ["iridium:"]);
  assert.deepEqual(at("stations.1.longitude"), ["longitude: -0.13 deg"]);
  assert.deepEqual(at("flows.1.to"), ["to: london"]);
  assert.deepEqual(at("flows.1.rate"), ["rate: 5 Mbit/s"]);
  assert.deepEqual(at("flows.0.rate"), [], "a ping has no rate");
  assert.deepEqual(at("shells.0.isl"), ["pattern: plus-grid", "seam: false"]);
  // Lines without a field only open a block.
  const bare = lines.filter((line, i) => !fields.has(i + 1));
  assert(bare.every((line) => line.endsWith(":") || line === "constel: 1"), bare.join("\n"));
});

test("errors are at their fields, and one without a line at none", () => {
  const { fields } = yaml(draft());
  const [line] = [...fields].find(([, field]) => field === "flows.0.to");
  const errors = [{ line, message: "a" }, { line, message: "b" }, { line: 0, message: "c" }];
  const all = byField(errors, fields);
  assert.deepEqual([...all.keys()], ["flows.0.to", ""]);
  assert.equal(all.get("flows.0.to").length, 2);
});

test("values that YAML would read otherwise are in quotes", () => {
  assert.deepEqual(["780 km", "-0.13 deg", "2026-11-21T00:00:00Z", "plus-grid", "first"].map(scalar), ["780 km", "-0.13 deg", "2026-11-21T00:00:00Z", "plus-grid", "first"]);
  for (const text of ["", "a: b", "a #b", "{a}", "[a]", "*a", "&a", "- a", "a:", "'a", '"a', "%a", "a ", "@a", "| a", "-"]) assert.equal(scalar(text), JSON.stringify(text), text);
});

test("names of cities and copies are names of nodes", () => {
  assert.deepEqual(["São Paulo", "New York", "--", "Ürümqi 2"].map(slug), ["sao-paulo", "new-york", "node", "urumqi-2"]);
  assert.equal(free("a", ["a", "a-2"]), "a-3");
  const own = draft();
  renamed(own, "tokyo", "osaka");
  assert.deepEqual(own.flows.map((flow) => flow.from), ["osaka", "osaka"]);
});

test("a draft is restored, and what is none is not", () => {
  assert.deepEqual(restored(JSON.stringify(draft())), draft());
  for (const text of [null, "", "x", "{}", "[]", "3", '{"shells": 1}']) assert.equal(restored(text), null, String(text));
});

const flow = { name: "probe", kind: "ping", from: "a", to: "b", at_ns: 0, status: "ok", handovers: 0, paths: [] };

test("a flow's row has its outcome, its flagged samples and what became of its packets", () => {
  const full = { ...flow, trustworthy: false, samples: 1200, marked_samples: 7, loss_ratio: 0.0123, late_packets: 1, reordered_packets: 0, rtt: { min_ns: 1e6, p50_ns: 40e6, p99_ns: 60e6, max_ns: 60e6 }, throughput_bps: 5e6 };
  const cells = flowCells(full);
  assert.equal(cells.length, FLOW_HEAD.length);
  assert.deepEqual(cells, ["probe", "a → b", "ok", "yes", "7 of 1,200", "1.2 %", "1, 0, -", "40.000 ms", "60.000 ms", "5.00 Mbit/s"]);
  assert.deepEqual(flowCells({ ...flow, status: "failed", reason: "exit code 1" }), ["probe", "a → b", "FAILED: exit code 1", "unknown", "-", "-", "-", "-", "-", "-"]);
});

test("losses are listed by cause, those that occurred", () => {
  const counters = { dropped_queue: 3, dropped_loss: 1200, dropped_outage: 0, dropped_removed: 0, dropped_no_buffer: 2 };
  const report = { totals: { counters, dropped_no_edge: 4 }, emulator_drops: { ring: 5, no_buffer: 2 } };
  assert.deepEqual(lossRows(report), [["queue full", "3"], ["lost by the link’s loss law", "1,200"], ["no link to the destination", "4"], ["emulator: no buffer", "2"], ["emulator: ring", "5"]]);
});
