// Flows of a run as rows of a table, and losses by their cause. No browser is needed.

import { flowVerdict } from "./curves";
import type { FlowRow, PlaneReport } from "./types";
import { count, ms, rate } from "./words";

export const FLOW_HEAD = ["Flow", "From, to", "Outcome", "Affected", "Flagged", "Loss", "Late, reordered, duplicate", "P50", "P99", "Throughput"];

const percent = (ratio: number): string => `${(100 * ratio).toFixed(ratio > 0 && ratio < 0.01 ? 3 : 1)} %`;

/** A flow's cells, in the order of [`FLOW_HEAD`]; `-` for values that its tool does not measure. */
export function flowCells(flow: FlowRow): string[] {
  const outcome = flow.status === "ok" ? "ok" : `${flow.status === "failed" ? "FAILED" : "cut short"}${flow.reason ? `: ${flow.reason}` : ""}`;
  const { is } = flowVerdict(flow);
  const delay = flow.rtt ?? flow.owd;
  const some = (value: number | null | undefined): string => (value === null || value === undefined ? "-" : count(value));
  const fates = [flow.late_packets, flow.reordered_packets, flow.duplicate_packets];
  return [
    flow.name,
    `${flow.from}${flow.to ? ` → ${flow.to}` : ""}`,
    outcome,
    is === "good" ? "no" : is === "bad" ? "yes" : "unknown",
    flow.samples ? `${count(flow.marked_samples ?? 0)} of ${count(flow.samples)}` : "-",
    flow.loss_ratio === null || flow.loss_ratio === undefined ? "-" : percent(flow.loss_ratio),
    fates.every((one) => one === null || one === undefined) ? "-" : fates.map(some).join(", "),
    delay ? ms(delay.p50_ns) : "-",
    delay ? ms(delay.p99_ns) : "-",
    flow.throughput_bps ? rate(flow.throughput_bps) : "-",
  ];
}

/** Counters of lost frames, and what they mean. */
const CAUSES: [string, string][] = [
  ["dropped_queue", "queue full"],
  ["dropped_aqm", "dropped by the queue discipline"],
  ["dropped_loss", "lost by the link’s loss law"],
  ["dropped_outage", "link down or not yet up"],
  ["dropped_removed", "waiting when the link went down"],
  ["dropped_no_buffer", "emulator: no buffer"],
  ["dropped_overload", "emulator: far too late"],
];

/** Lost frames by cause, for causes that occurred: those of links first, then those of the emulator. */
export function lossRows(report: PlaneReport): [string, string][] {
  const counters = report.totals.counters as unknown as Record<string, number | undefined>;
  const rows = CAUSES.map(([name, words]): [string, number] => [words, counters[name] ?? 0]);
  rows.splice(5, 0, ["no link to the destination", report.totals.dropped_no_edge]);
  const known = new Set(["no_buffer", "overload"]);
  for (const [name, value] of Object.entries(report.emulator_drops ?? {})) {
    if (!known.has(name.replace(/^dropped_/, ""))) rows.push([`emulator: ${name.replace(/_/g, " ")}`, value]);
  }
  return rows.filter(([, value]) => value > 0).map(([words, value]) => [words, count(value)]);
}
