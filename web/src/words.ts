// Numbers as people read them.

export const ms = (ns: number): string => `${(ns / 1e6).toFixed(3)} ms`;

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

/** What happened, in a line. */
export function event(what: Record<string, unknown>): string {
  const kind = String(what.kind);
  const text = (name: string) => (what[name] === null || what[name] === undefined ? "nothing" : String(what[name]));
  switch (kind) {
    case "handover":
      return `${text("station")}: ${text("from")} → ${text("to")}`;
    case "failure":
      return `${text("cause")} fails: ${(what.objects as string[]).slice(0, 4).join(", ")}${(what.objects as string[]).length > 4 ? " …" : ""}`;
    case "repair":
      return `${text("cause")} is repaired`;
    case "link-set":
      return `${text("link")} set by hand: ${effects(what.effects as Record<string, unknown>)}`;
    case "flow-started":
      return `${text("flow")} starts`;
    case "flow-ended":
      return `${text("flow")} ends with ${text("exit")}`;
    case "path-changed":
      return `${text("flow")} takes another path (${(what.to as string[]).length - 1} hops)`;
    case "routes-stand":
      return "routes stand";
    case "finished":
      return `finished, ${what.trustworthy ? "trustworthy" : "NOT trustworthy"}${what.failed ? ", software FAILED" : ""}`;
    default: {
      const rest = Object.entries(what).filter(([name, value]) => !SHARED.has(name) && value !== null);
      return `${kind.replace(/-/g, " ")} ${rest.map(([name, value]) => `${name}=${typeof value === "object" ? JSON.stringify(value) : value}`).join(" ")}`;
    }
  }
}

const SHARED = new Set(["seq", "t_ns", "wall", "kind", "catalogued"]);

export function effects(all: Record<string, unknown> | undefined): string {
  const set = Object.entries(all ?? {}).filter(([, value]) => value !== null && value !== undefined);
  return set.length ? set.map(([name, value]) => `${name} ${typeof value === "object" ? JSON.stringify(value) : value}`).join(", ") : "nothing";
}
