// Numbers and events as text.

/** A number with this many decimals; what rounds to zero has no sign. */
export function fixed(value: number, decimals: number): string {
  const text = value.toFixed(decimals);
  return Number(text) === 0 ? text.replace("-", "") : text;
}

export const ms = (ns: number): string => `${fixed(ns / 1e6, 3)} ms`;

export function rate(bps: number | null | undefined): string {
  if (bps === null || bps === undefined) return "no limit";
  if (bps >= 1e9) return `${(bps / 1e9).toFixed(2)} Gbit/s`;
  if (bps >= 1e6) return `${(bps / 1e6).toFixed(2)} Mbit/s`;
  return `${(bps / 1e3).toFixed(1)} kbit/s`;
}

export function seconds(t: number): string {
  const whole = Math.floor(t);
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (n: number) => String(n).padStart(2, "0");
  const part = String(Math.floor((t - whole) * 10));
  return h ? `${h}:${two(m)}:${two(s)}.${part}` : `${m}:${two(s)}.${part}`;
}

export const utc = (unixMs: number): string => new Date(unixMs).toISOString().replace("T", " ").slice(0, 19) + " UTC";

export const count = (n: number): string => n.toLocaleString("en-GB");

const TITLES: Record<string, string> = { "routes-converged": "routes converged", "link-set": "link changed", "nodes-set": "nodes changed", "daemon-died": "daemon ended", "helper-died": "helper ended" };

/** The number of events, and the lab time up to which they are known: `all` of them, or a time in seconds. */
export function numberOfEvents(number: number, computed: boolean, until: number | "all" | "not started"): string {
  const extent = until === "all" ? "" : until === "not started" ? " so far (the clock has not started)" : ` so far (to ${seconds(until)})`;
  return `${count(number)} event${number === 1 ? "" : "s"}${computed ? " computed" : ""}${extent}`;
}

/** The kind of an event, as people read it. */
export const title = (kind: string): string => TITLES[kind] ?? kind.replace(/-/g, " ");

/** An event in a line. */
export function event(what: Record<string, unknown>): string {
  const more = detail(what);
  return `${title(String(what.kind))}${more ? `: ${more}` : ""}`;
}

/** The fields of an event in a line, without its kind. */
export function detail(what: Record<string, unknown>): string {
  const text = (name: string) => (what[name] === null || what[name] === undefined ? "none" : String(what[name]));
  switch (what.kind) {
    case "handover":
      return `${text("station")}: ${text("from")} → ${text("to")}`;
    case "failure":
      return `${text("cause")}: ${(what.objects as string[]).slice(0, 4).join(", ")}${(what.objects as string[]).length > 4 ? " …" : ""}`;
    case "repair":
    case "flow-started":
      return text(what.kind === "repair" ? "cause" : "flow");
    case "delays-set": {
      const range = what.range as Record<string, number> | null | undefined;
      const set = range ? `${ms(range.min_ns)} to ${ms(range.max_ns)}, median ${ms(range.median_ns)}` : "as in the scenario";
      return `${text("network")}: ${text("edges")} edges by hand${range || what.reset ? `: ${set}` : ""}`;
    }
    case "nodes-set":
      return `${(what.nodes as string[]).slice(0, 4).join(", ")}${(what.nodes as string[]).length > 4 ? " …" : ""} by hand: ${text("change")}`;
    case "stations-set": {
      const to = what.change as { kind: string; satellite?: string };
      const how = to.kind === "attach" ? `attached to ${to.satellite}` : to.kind === "detach" ? "detached" : "by policy";
      return `${(what.stations as string[]).slice(0, 4).join(", ")}${(what.stations as string[]).length > 4 ? " …" : ""} by hand: ${how}`;
    }
    case "link-set":
      return `${text("link")} by hand: ${effects(what.effects as Record<string, unknown>)}`;
    case "flow-ended":
      return `${text("flow")}, exit code ${text("exit")}`;
    case "path-changed": {
      const to = what.to as string[];
      return `${text("flow")}: ${to.length ? `${to.length - 1} links` : "no path"}`;
    }
    case "routes-converged":
      return typeof what.after_s === "number" ? `after ${what.after_s.toFixed(1)} s` : "";
    case "starting":
      return `${text("lab")}, ${text("nodes")} nodes`;
    case "edges-up":
      return text("edges");
    case "running":
      return typeof what.bring_up_s === "number" ? `after ${what.bring_up_s.toFixed(1)} s of bring-up` : "";
    case "finished":
      return `${what.trustworthy ? "trustworthy" : "NOT trustworthy"}${what.failed ? ", software FAILED" : ""}`;
    default: {
      const rest = Object.entries(what).filter(([name, value]) => !SHARED.has(name) && value !== null);
      return rest.map(([name, value]) => `${name.replace(/_/g, " ")} ${typeof value === "object" ? JSON.stringify(value) : value}`).join(", ");
    }
  }
}

const SHARED = new Set(["seq", "t_ns", "wall", "kind", "catalogued"]);

export function effects(all: Record<string, unknown> | undefined): string {
  const set = Object.entries(all ?? {}).filter(([, value]) => value !== null && value !== undefined);
  return set.length ? set.map(([name, value]) => `${name} ${typeof value === "object" ? JSON.stringify(value) : value}`).join(", ") : "none";
}
