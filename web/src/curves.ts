// Curves of a flow as numbers: its samples, which of them are flagged, its path and its lower bound. No browser is needed.

import type { Columns, FlowRow } from "./types";

/** A value of a curve: `null` is a gap, `undefined` an instant at which this curve has no point of its own. */
export type Value = number | null | undefined;

export interface Curve {
  name: string;
  values: Value[];
  /** Steps hold from each instant to the next. Default: a line. */
  style?: "line" | "steps" | "points";
}

export interface Drawn {
  unit: string;
  t: number[];
  curves: Curve[];
}

function column(table: Columns, name: string): (number | null)[] {
  return table.columns[table.names.indexOf(name)] ?? [];
}

/** The rows of a table in the order of time; rows without a time are left out. */
function ordered(table: Columns, t: string): number[] {
  const times = column(table, t);
  const rows = times.map((_, i) => i).filter((i) => times[i] !== null);
  return rows.sort((a, b) => (times[a] as number) - (times[b] as number));
}

/** The last value at or before each instant; `undefined` before the first. */
function held(t: number[], values: (number | null)[], at: number[]): Value[] {
  let next = 0;
  return at.map((instant) => {
    while (next < t.length && t[next] <= instant) next++;
    return next ? values[next - 1] : undefined;
  });
}

const scaled = (value: number | null | undefined, by: number): Value => (value === null || value === undefined ? value : value * by);

/**
 * Charts of a flow: its delays and its throughput over lab time, with flagged samples as points. `paths` are its rows of `paths.csv`: the round-trip
 * time of its path and the lower bound, which hold until the next row. They are drawn beside measured round-trip times only.
 */
export function flowCharts(samples: Columns, paths: Columns | null): Drawn[] {
  const rows = ordered(samples, "t_s");
  const times = rows.map((i) => column(samples, "t_s")[i] as number);
  const flagged = rows.map((i) => column(samples, "marked")[i] === 1);
  const read = (name: string, by: number): Value[] => rows.map((i) => scaled(column(samples, name)[i] ?? null, by));
  const has = (values: Value[]) => values.some((value) => value !== null && value !== undefined);
  const points = (values: Value[], name: string): Curve[] => {
    const only = values.map((value, i) => (flagged[i] ? value : undefined));
    return has(only) ? [{ name, values: only, style: "points" }] : [];
  };

  const charts: Drawn[] = [];
  const [rtt, owd, throughput] = [read("rtt_us", 1e-3), read("owd_us", 1e-3), read("throughput_bps", 1e-6)];
  if (has(rtt) || has(owd)) {
    const curves: Curve[] = [];
    if (has(rtt)) curves.push({ name: "round trip", values: rtt });
    if (has(owd)) curves.push({ name: "one way", values: owd });
    curves.push(...points(has(rtt) ? rtt : owd, "flagged"));
    charts.push(has(rtt) && paths ? withPaths({ unit: "ms", t: times, curves }, paths) : { unit: "ms", t: times, curves });
  }
  if (has(throughput)) charts.push({ unit: "Mbit/s", t: times, curves: [{ name: "throughput", values: throughput }, ...points(throughput, "flagged")] });
  return charts;
}

function withPaths(chart: Drawn, paths: Columns): Drawn {
  const rows = ordered(paths, "t_s");
  const times = rows.map((i) => column(paths, "t_s")[i] as number);
  const t = [...new Set([...chart.t, ...times])].sort((a, b) => a - b);
  const place = new Map(t.map((instant, i) => [instant, i]));
  const spread = (values: Value[]): Value[] => {
    const all: Value[] = t.map(() => undefined);
    // Samples of one instant: the last is drawn.
    values.forEach((value, i) => (all[place.get(chart.t[i]) as number] = value));
    return all;
  };
  const curves = chart.curves.map((curve) => ({ ...curve, values: spread(curve.values) }));
  for (const [name, of] of [["its path", "path_rtt_us"], ["lower bound", "shortest_rtt_us"]]) {
    const values = held(times, rows.map((i) => column(paths, of)[i] ?? null), t).map((value) => scaled(value, 1e-3));
    if (values.some((value) => value !== null && value !== undefined)) curves.push({ name, values, style: "steps" });
  }
  return { ...chart, t, curves };
}

/** Whether a flow of a run is affected, and why. */
export function flowVerdict({ trustworthy, doubt }: FlowRow): { words: string; is: "good" | "bad" | "" } {
  if (trustworthy === true) return { words: "not affected", is: "good" };
  if (trustworthy === false) return { words: `affected: ${doubt || "no reason is recorded"}`, is: "bad" };
  return { words: `unknown whether it is affected${doubt ? `: ${doubt}` : ""}`, is: "" };
}

/** The number of a flow's flagged samples; empty for a flow without samples. */
export const flagged = ({ samples, marked_samples }: FlowRow): string => (samples ? `${marked_samples ?? 0} of ${samples} samples flagged` : "");

/** A chart as a table: a column of lab times and one for each curve, with its unit. Empty cells are gaps. */
export function csv({ unit, t, curves }: Drawn): string {
  const cell = (text: string) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const head = ["t_s", ...curves.map((curve) => cell(`${curve.name} (${unit})`))].join(",");
  const rows = t.map((instant, i) => [instant, ...curves.map((curve) => curve.values[i] ?? "")].join(","));
  return `${[head, ...rows].join("\n")}\n`;
}

/** Most curves of a chart of several flows: more could not be told apart by colour and dashes. */
const MOST_CURVES = 8;

/** Several flows in one chart for each unit: the main curve of each, over the instants of all. */
export function together(flows: { name: string; charts: Drawn[] }[]): Drawn[] {
  const units = [...new Set(flows.flatMap(({ charts }) => charts.map(({ unit }) => unit)))];
  const drawn = units.map((unit): Drawn => {
    const own = flows.flatMap(({ name, charts }) => {
      const chart = charts.find((one) => one.unit === unit);
      return chart?.curves.length ? [{ name, t: chart.t, curve: chart.curves[0] }] : [];
    });
    const shown = own.slice(0, MOST_CURVES);
    const t = [...new Set(shown.flatMap((one) => one.t))].sort((a, b) => a - b);
    const place = new Map(t.map((instant, i) => [instant, i]));
    const curves = shown.map(({ name, t: at, curve }): Curve => {
      const values: Value[] = t.map(() => undefined);
      curve.values.forEach((value, i) => (values[place.get(at[i]) as number] = value));
      return { name: `${name}, ${curve.name}`, values };
    });
    return { unit, t, curves };
  });
  return drawn.filter(({ curves }) => curves.length > 1);
}

/** The range of time after a zoom around an instant, within all of it. `null`: all. */
export function zoomed([from, to]: [number, number], all: [number, number], by: number, at = (from + to) / 2): [number, number] | null {
  const [low, high] = [Math.max(all[0], at - (at - from) * by), Math.min(all[1], at + (to - at) * by)];
  return low <= all[0] && high >= all[1] ? null : [low, high];
}
