// The health of a running lab in a line. No browser is needed.

import type { PlaneReport } from "./types";
import { count } from "./words";

/**
 * Compares a lab's link plane with the scenario's bound on lateness (`links.max_lateness`), as the verdict of its run will. `null`: the lab has not
 * reported yet.
 */
export function health(report: PlaneReport | null, maxLatenessNs: number): { words: string[]; isGood: boolean | null } {
  if (!report) return { words: [], isGood: null };
  const late = report.lateness?.p99_ns;
  const dropped = Object.values((report.emulator_drops as unknown as Record<string, number>) ?? {}).reduce((sum, one) => sum + one, 0);
  const us = (ns: number) => `${(ns / 1e3).toFixed(0)} µs`;
  const words = [
    late === undefined ? "" : `p99 late ${us(late)}${late > maxLatenessNs ? `, more than ${us(maxLatenessNs)}` : ""}`,
    dropped ? `${count(dropped)} frames dropped by the emulator` : "",
  ];
  return { words: words.filter(Boolean), isGood: (late ?? 0) <= maxLatenessNs && dropped === 0 };
}
