// A scenario that is being built, as the values of its fields, and as YAML. Every field has a line of its own, by which errors find it. No browser is needed.

export interface Shell {
  name: string;
  pattern: string;
  altitude: string;
  inclination: string;
  satellites: string;
  planes: string;
  phasing: string;
  isl: string;
  islRate: string;
  elevation: string;
  policy: string;
  gslRate: string;
}

export interface Station {
  name: string;
  latitude: string;
  longitude: string;
}

export interface Flow {
  name: string;
  kind: string;
  from: string;
  to: string;
  at: string;
  for: string;
  rate: string;
}

export interface Draft {
  name: string;
  description: string;
  seed: string;
  start: string;
  duration: string;
  step: string;
  routing: string;
  shells: Shell[];
  stations: Station[];
  flows: Flow[];
}

export const PATTERNS = ["star", "delta"];
export const LASERS = ["plus-grid", "ring", "none"];
export const POLICIES = ["nearest", "highest-elevation", "longest-visible", "least-loaded"];
export const ROUTINGS = ["computed", "bird"];
export const KINDS = ["ping", "tcp", "udp"];

const shell = (name: string, pattern: string, altitude: string, inclination: string, satellites: string, planes: string, phasing: string, elevation: string): Shell => ({
  name, pattern, altitude, inclination, satellites, planes, phasing,
  isl: "plus-grid", islRate: "100 Mbit/s", elevation, policy: "nearest", gslRate: "50 Mbit/s",
});

/** Constellations to begin with. */
export const SHELLS: { title: string; shell: Shell }[] = [
  { title: "Iridium NEXT", shell: shell("iridium", "star", "780 km", "86.4 deg", "66", "6", "2", "8.2 deg") },
  { title: "OneWeb", shell: shell("oneweb", "star", "1200 km", "87.9 deg", "588", "12", "1", "15 deg") },
  { title: "Starlink, shell I", shell: shell("starlink", "delta", "550 km", "53 deg", "1584", "72", "39", "25 deg") },
  { title: "Kuiper, 630 km", shell: shell("kuiper", "delta", "630 km", "51.9 deg", "1156", "34", "1", "20 deg") },
  { title: "another", shell: shell("", "delta", "", "", "", "", "0", "10 deg") },
];

export const empty = (): Draft => ({
  name: "new", description: "", seed: "1", start: "2026-11-21T00:00:00Z", duration: "10 min", step: "1 s", routing: "computed", shells: [], stations: [], flows: [],
});

/** A name for a node or a flow of the words of a text. */
export function slug(text: string): string {
  const plain = text.normalize("NFD").replace(/[\u0300-\u036f]/g, "").toLowerCase();
  return plain.replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 40) || "node";
}

/** A name like the wanted one that is not taken. */
export function free(wanted: string, taken: string[]): string {
  for (let i = 1; ; i++) {
    const name = i === 1 ? wanted : `${wanted}-${i}`;
    if (!taken.includes(name)) return name;
  }
}

/** A value as YAML: as it is where that is safe, else in quotes. */
export function scalar(text: string): string {
  return /^[A-Za-z0-9.+-][\w.+/ :-]*$/.test(text) && !/: |:$| $|^[-?] |^-$/.test(text) ? text : JSON.stringify(text);
}

/** The text of a draft, and the field of each of its lines. */
export function yaml(draft: Draft): { text: string; fields: Map<number, string> } {
  const lines: string[] = [];
  const fields = new Map<number, string>();
  const line = (indent: number, key: string, value?: string, field?: string) => {
    lines.push(`${" ".repeat(indent)}${key}:${value === undefined ? "" : ` ${scalar(value)}`}`);
    if (field) fields.set(lines.length, field);
  };
  /** A line with a key that is a name: errors of the name are at its field. */
  const named = (indent: number, name: string, field: string) => {
    lines.push(`${" ".repeat(indent)}${scalar(name)}:`);
    fields.set(lines.length, field);
  };
  lines.push("constel: 1");
  for (const key of ["name", "description", "seed", "start", "duration", "step"] as const) {
    if (draft[key] !== "" || key !== "description") line(0, key, draft[key], key);
  }
  if (draft.shells.length) line(0, "constellations");
  draft.shells.forEach((shell, i) => {
    const at = (key: keyof Shell) => `shells.${i}.${key}`;
    named(2, shell.name, at("name"));
    line(4, "walker");
    for (const key of ["pattern", "inclination", "satellites", "planes", "phasing", "altitude"] as const) line(6, key, shell[key], at(key));
    if (shell.isl !== "none") {
      line(4, "isl");
      line(6, "pattern", shell.isl, at("isl"));
      // The first and the last plane of a star fly past each other.
      if (shell.pattern === "star" && shell.isl === "plus-grid") line(6, "seam", "false", at("isl"));
      line(6, "link");
      line(8, "rate", shell.islRate, at("islRate"));
      line(8, "queue", "256 KiB", at("islRate"));
    }
    line(4, "gsl");
    line(6, "min_elevation", shell.elevation, at("elevation"));
    line(6, "policy", shell.policy, at("policy"));
    line(6, "link");
    line(8, "rate", shell.gslRate, at("gslRate"));
    line(8, "queue", "128 KiB", at("gslRate"));
  });
  if (draft.stations.length) {
    line(0, "ground");
    line(2, "stations");
  }
  draft.stations.forEach(({ name, latitude, longitude }, i) => {
    named(4, name, `stations.${i}.name`);
    line(6, "latitude", latitude, `stations.${i}.latitude`);
    line(6, "longitude", longitude, `stations.${i}.longitude`);
  });
  line(0, "routing", undefined, "routing");
  line(2, "mode", draft.routing, "routing");
  if (draft.flows.length) line(0, "traffic");
  draft.flows.forEach((flow, i) => {
    const at = (key: keyof Flow) => `flows.${i}.${key}`;
    line(2, "- name", flow.name, at("name"));
    line(4, "at", flow.at, at("at"));
    line(4, "for", flow.for, at("for"));
    line(4, flow.kind === "ping" ? "ping" : "iperf3", undefined, at("kind"));
    line(6, "from", flow.from, at("from"));
    line(6, "to", flow.to, at("to"));
    if (flow.kind !== "ping") line(6, "protocol", flow.kind, at("kind"));
    if (flow.kind === "udp") line(6, "rate", flow.rate, at("rate"));
  });
  return { text: `${lines.join("\n")}\n`, fields };
}

/** Errors by their field; those that have none are under an empty name. */
export function byField<E extends { line: number }>(errors: readonly E[], fields: ReadonlyMap<number, string>): Map<string, E[]> {
  const all = new Map<string, E[]>();
  for (const error of errors) {
    const field = fields.get(error.line) ?? "";
    all.set(field, [...(all.get(field) ?? []), error]);
  }
  return all;
}

/** Renames a station in the flows that lead to it. */
export function renamed(draft: Draft, was: string, now: string): void {
  for (const flow of draft.flows) {
    if (flow.from === was) flow.from = now;
    if (flow.to === was) flow.to = now;
  }
}

/** A draft that was kept as text; `null` if it is none. */
export function restored(text: string | null): Draft | null {
  try {
    const kept = JSON.parse(text ?? "null") as Draft | null;
    return kept && [kept.shells, kept.stations, kept.flows].every(Array.isArray) ? { ...empty(), ...kept } : null;
  } catch {
    return null;
  }
}
