// The results of a run: its verdict, its flows as a table and as curves beside each other, and what was lost why.

import { get } from "./api";
import type { App } from "./app";
import { chart } from "./charts";
import { type Drawn, flagged, flowCharts, flowVerdict, together } from "./curves";
import { el, fill, need, table } from "./dom";
import { flowCells, FLOW_HEAD, lossRows } from "./flowtable";
import type { Palette } from "./palette";
import type { Columns, FlowRow, RunView } from "./types";

/** Flows whose curves are beside each other from the beginning. */
const FIRST = 2;

export class Results {
  private readonly body = need<HTMLElement>("#results");
  private readonly drawn = new Map<string, Drawn[]>();
  private readonly compared = new Set<string>();
  private readonly comparison = el("div", { id: "compared" });

  constructor(
    private readonly app: App,
    private readonly palette: () => Palette,
  ) {}

  async draw(): Promise<void> {
    const { summary, manifest } = await get<RunView>("run");
    const chip = need("#verdict");
    const trusted = summary?.verdict.trustworthy;
    const failed = summary?.software?.failed ?? false;
    const verdict = trusted ? "trustworthy" : "NOT trustworthy";
    chip.textContent = trusted === undefined ? "the run did not finish" : failed ? `software FAILED · ${verdict}` : verdict;
    chip.className = `chip ${trusted && !failed ? "good" : "bad"}`;
    const failures = (summary?.software?.failures ?? []).map((failure) => failure.reason);
    const reasons = [...failures, ...(summary?.verdict.reasons ?? [])];
    chip.title = reasons.join("\n") || "The measurements of this run are trustworthy.";
    const flows = summary?.flows ?? [];
    // The reasons of a flow are below its own heading.
    const general = reasons.filter((why) => !flows.some(({ name, doubt }) => doubt && why.startsWith(`flow ${name} `) && why.endsWith(doubt)));
    const parts: (HTMLElement | null)[] = [el("h2", {}, `Seed ${manifest.seed}, driver ${manifest.driver.name}`), ...general.map((why) => el("p", { class: "warn" }, why))];
    if (flows.length) parts.push(this.flows(flows), this.comparison);
    const lost = summary ? lossRows(summary.relay) : [];
    if (summary) parts.push(lost.length ? table(["Frames lost, all links", "Number"], lost, "Causes of loss") : el("p", { class: "hint" }, "No frame was lost on any link."));
    fill(this.body, ...parts);
    for (const flow of flows) parts.push(await this.flow(flow));
    // A run that did not finish has no summary, but may have samples.
    if (!summary) for (const flow of this.app.world.flows) parts.push(...(await this.curves(flow.name, true)));
    const machine = await this.columns("machine");
    const at = machine?.columns[machine.names.indexOf("t_s")] ?? [];
    const busy = (machine?.columns[machine.names.indexOf("processor_ratio")] ?? []).map((one) => (one === null ? null : 100 * one));
    if (busy.length) parts.push(chart("The machine’s processors", "%", at.map((one) => one ?? 0), [{ name: "busy", values: busy }], this.palette(), (t) => this.app.clock.scrub(t)));
    fill(this.body, ...parts);
    this.compare();
  }

  /** All flows in a table. The ticked ones are drawn in one chart. */
  private flows(flows: FlowRow[]): HTMLElement {
    const curved = flows.filter((flow) => flow.samples);
    if (!this.compared.size) for (const flow of curved.slice(0, FIRST)) this.compared.add(flow.name);
    const tick = (flow: FlowRow) =>
      flow.samples
        ? el("input", {
            type: "checkbox",
            checked: this.compared.has(flow.name),
            "aria-label": `draw ${flow.name} beside others`,
            onchange: (event: Event) => {
              if ((event.target as HTMLInputElement).checked) this.compared.add(flow.name);
              else this.compared.delete(flow.name);
              this.compare();
            },
          })
        : null;
    const name = (flow: FlowRow) => el("button", { class: "name", onclick: () => this.body.querySelector(`[data-flow="${CSS.escape(flow.name)}"]`)?.scrollIntoView({ block: "start" }) }, flow.name);
    return el("div", { class: "wide", id: "flow-table", tabIndex: 0, role: "region", "aria-label": "flows" }, table(["Chart", ...FLOW_HEAD], flows.map((flow) => [tick(flow), name(flow), ...flowCells(flow).slice(1)]), `${flows.length} flows`));
  }

  private compare(): void {
    const chosen = [...this.compared].flatMap((name) => {
      const charts = this.drawn.get(name);
      return charts ? [{ name, charts }] : [];
    });
    const charts = chosen.length > 1 ? together(chosen) : [];
    const title = (unit: string) => (unit === "ms" ? "Delay of flows" : "Throughput of flows");
    fill(this.comparison, ...charts.map(({ unit, t, curves }) => chart(title(unit), unit, t, curves, this.palette(), (at) => this.app.clock.scrub(at))));
  }

  /** A flow of a run: whether it is affected and why, and its curves. */
  private async flow(flow: FlowRow): Promise<HTMLElement> {
    const { words, is } = flowVerdict(flow);
    const status = flow.status === "ok" ? "" : `${flow.status === "failed" ? "FAILED" : "cut short"}${flow.reason ? `: ${flow.reason}` : ""}`;
    return el(
      "section",
      { class: "flow", "data-flow": flow.name },
      el("h3", {}, flow.name, el("small", {}, ` ${[flow.kind, `${flow.from}${flow.to ? ` → ${flow.to}` : ""}`, flagged(flow)].filter(Boolean).join(", ")}`)),
      status ? el("p", { class: "bad" }, status) : null,
      el("p", { class: `verdict ${is}` }, words),
      ...(flow.samples ? await this.curves(flow.name, !!(flow.path_rtt || flow.bound_rtt)) : []),
    );
  }

  private async curves(flow: string, hasPaths: boolean): Promise<HTMLElement[]> {
    const samples = await this.columns(flow);
    if (!samples?.columns[0]?.length) return [];
    const paths = hasPaths ? await this.columns(flow, { paths: 1 }) : null;
    const drawn = flowCharts(samples, paths);
    this.drawn.set(flow, drawn);
    const charts = drawn.map(({ unit, t, curves }) => chart(`${flow}: ${unit === "ms" ? "delay" : "throughput"}`, unit, t, curves, this.palette(), (at) => this.app.clock.scrub(at)));
    return hasPaths && !paths ? [...charts, el("p", { class: "warn" }, "The lower bound is not drawn: `paths.csv` cannot be read.")] : charts;
  }

  /** A table of results; `null` where there is none, as for a flow without samples. */
  private async columns(of: string, more: Record<string, number> = {}): Promise<Columns | null> {
    try {
      return await get<Columns>("columns", { of, ...more });
    } catch {
      return null;
    }
  }
}
