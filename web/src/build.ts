// The builder of scenarios: fields on one side, the sky on the other. The server checks and plans each draft; nothing is written but what the reader saves.

import { draft as ask } from "./api";
import { save } from "./charts";
import { find } from "./cities";
import { byField, type Draft, empty, type Flow, free, KINDS, LASERS, PATTERNS, POLICIES, renamed, restored, ROUTINGS, type Shell, SHELLS, slug, type Station, yaml } from "./draft";
import { el, fill, need, patch, table } from "./dom";
import { Preview } from "./preview";
import type { DraftError, DraftPlan, DraftView, World } from "./types";
import { count, ms } from "./words";

/** The draft is sent so long after the last change. */
const QUIET_MS = 350;
const KEPT = "constel-draft";
/** Cities that the field offers: a list of all of them would be slow to draw. Others are found too. */
const OFFERED = 300;

type Keyed = Record<string, unknown>;

class Builder {
  private draft: Draft;
  private errors = new Map<string, DraftError[]>();
  private plan: DraftPlan | null = null;
  private state = "";
  /** Fields of another draft are other fields. */
  private generation = 0;
  private due = 0;
  private asking = false;
  private again = false;
  private readonly form = el("div", { id: "builder" });
  private readonly preview: Preview;

  constructor(private readonly world: World) {
    // The property of this name cannot be set.
    this.cityField.setAttribute("list", "cities");
    this.draft = restored(sessionStorage.getItem(KEPT)) ?? empty();
    document.body.classList.add("building");
    document.title = "A new scenario – Constel";
    need("#mode").textContent = "new";
    need("#panel").setAttribute("aria-label", "the scenario");
    fill(need("#inspect"), this.form);
    this.preview = new Preview(
      (lat, lon) => this.stationAt(lat, lon),
      () => this.draw(),
    );
    this.changed();
  }

  /** A field's value has changed: the draft is checked as soon as the reader pauses. */
  private changed(): void {
    sessionStorage.setItem(KEPT, JSON.stringify(this.draft));
    need("#name").textContent = this.draft.name;
    this.draw();
    clearTimeout(this.due);
    this.due = window.setTimeout(() => void this.check(), QUIET_MS);
  }

  private async check(): Promise<void> {
    if (this.asking) {
      this.again = true;
      return;
    }
    this.asking = true;
    do {
      this.again = false;
      const { text, fields } = yaml(this.draft);
      try {
        this.take(await ask(text), fields);
      } catch (error) {
        this.state = (error as Error).message;
      }
      this.draw();
    } while (this.again);
    this.asking = false;
  }

  private take({ errors, plan }: DraftView, fields: ReadonlyMap<number, string>): void {
    this.errors = byField(errors, fields);
    this.plan = plan ?? null;
    if (!this.draft.shells.length && !this.draft.stations.length) {
      this.errors.clear();
      this.state = "Add a constellation and stations.";
      return;
    }
    if (errors.length) {
      this.state = `${errors.length} error${errors.length === 1 ? "" : "s"}`;
      return;
    }
    if (!plan) return;
    const satellites = plan.world.constellations.reduce((all, one) => all + one.satellites, 0);
    const some = (number: number, word: string) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;
    this.state = `valid: ${some(satellites, "satellite")}, ${some(plan.stations.length, "station")}, ${some(plan.edges, "edge")} at 0 s, ${some(plan.flows.length, "flow")}`;
    this.preview.show(plan);
  }

  private replace(draft: Draft): void {
    this.draft = draft;
    this.generation++;
    this.changed();
  }

  /** A field with its errors below it. */
  private field<T>(of: T, key: keyof T & string, at: string, title: string, more: { words?: string[]; list?: string; hint?: string; set?: (value: string) => void } = {}): HTMLElement {
    const id = `field-${at.replaceAll(".", "-")}`;
    const errors = this.errors.get(at) ?? [];
    const set = (event: Event) => {
      const { value } = event.target as HTMLInputElement;
      if (more.set) more.set(value);
      (of as Keyed)[key] = value;
      this.changed();
    };
    const value = String(of[key] ?? "");
    const described = errors.length ? { "aria-invalid": "true", "aria-describedby": `${id}-errors` } : {};
    const control = more.words
      ? el("select", { id, onchange: set, ...described }, ...more.words.map((word) => el("option", { value: word, selected: word === value }, word)))
      : el("input", { id, value, oninput: set, placeholder: more.hint ?? "", autocomplete: "off", spellcheck: false, ...described });
    if (more.list) control.setAttribute("list", more.list);
    const words = (error: DraftError) => [error.message, ...error.help].join("; ");
    return el(
      "div",
      { class: "field", "data-key": `${this.generation} ${at}` },
      el("label", { for: id }, title),
      control,
      errors.length ? el("p", { class: "bad", id: `${id}-errors` }, errors.map(words).join(" ")) : null,
    );
  }

  private remove(title: string, from: unknown[], i: number): HTMLElement {
    return el("button", { class: "remove", "aria-label": `remove ${title}`, onclick: () => (from.splice(i, 1), this.generation++, this.changed()) }, "×");
  }

  private shell(shell: Shell, i: number): HTMLElement {
    const field = (key: keyof Shell, title: string, more = {}) => this.field(shell, key, `shells.${i}.${key}`, title, more);
    return el(
      "fieldset",
      { "data-key": `${this.generation} shell ${i}` },
      el("legend", {}, `Constellation ${i + 1} `, this.remove(`constellation ${i + 1}`, this.draft.shells, i)),
      el(
        "div",
        { class: "fields" },
        field("name", "Name"),
        field("pattern", "Pattern", { words: PATTERNS }),
        field("altitude", "Altitude", { hint: "550 km" }),
        field("inclination", "Inclination", { hint: "53 deg" }),
        field("satellites", "Satellites"),
        field("planes", "Planes"),
        field("phasing", "Phasing"),
        field("isl", "Laser links", { words: LASERS }),
        shell.isl === "none" ? null : field("islRate", "Laser rate", { hint: "10 Gbit/s" }),
        field("elevation", "Least elevation", { hint: "25 deg" }),
        field("policy", "Satellite of a station", { words: POLICIES }),
        field("gslRate", "Ground rate", { hint: "100 Mbit/s" }),
      ),
    );
  }

  private station(station: Station, i: number): HTMLElement {
    const at = (key: string) => `stations.${i}.${key}`;
    const rename = (name: string) => renamed(this.draft, station.name, name);
    return el(
      "div",
      { class: "row", role: "group", "aria-label": `station ${i + 1}`, "data-key": `${this.generation} station ${i}` },
      this.field(station, "name", at("name"), "Name", { set: rename }),
      this.field(station, "latitude", at("latitude"), "Latitude"),
      this.field(station, "longitude", at("longitude"), "Longitude"),
      this.remove(station.name, this.draft.stations, i),
    );
  }

  private flow(flow: Flow, i: number): HTMLElement {
    const field = (key: keyof Flow, title: string, more = {}) => this.field(flow, key, `flows.${i}.${key}`, title, more);
    // A name that no station has stays in the list, so that its error can be read.
    const names = (now: string) => [...new Set([...this.draft.stations.map((one) => one.name), now])].filter(Boolean);
    return el(
      "div",
      { class: "row", role: "group", "aria-label": `flow ${i + 1}`, "data-key": `${this.generation} flow ${i}` },
      field("name", "Name"),
      field("kind", "Kind", { words: KINDS }),
      field("from", "From", { words: names(flow.from) }),
      field("to", "To", { words: names(flow.to) }),
      field("at", "At"),
      field("for", "For"),
      flow.kind === "udp" ? field("rate", "Rate") : null,
      this.remove(flow.name, this.draft.flows, i),
    );
  }

  private addStation(name: string, lat: number, lon: number): void {
    const { stations } = this.draft;
    const degrees = (value: number) => `${Number(value.toFixed(3))} deg`;
    stations.push({ name: free(slug(name), stations.map((one) => one.name)), latitude: degrees(lat), longitude: degrees(lon) });
    this.changed();
  }

  /** A click on the ground is a station there, with the name of a city that is near. */
  private stationAt(lat: number, lon: number): void {
    const near = this.preview.cities.find(([, y, x]) => Math.abs(y - lat) < 1.5 && Math.abs(x - lon) < 2);
    this.addStation(near ? near[0] : "station", lat, lon);
  }

  private addFlow(): void {
    const { stations, flows } = this.draft;
    const [from, to] = [stations.at(-2)?.name ?? "", stations.at(-1)?.name ?? ""];
    flows.push({ name: free("flow-1", flows.map((one) => one.name)), kind: "ping", from, to, at: "5 s", for: "60 s", rate: "5 Mbit/s" });
    this.changed();
  }

  private results(): (HTMLElement | null)[] {
    const { plan } = this;
    if (!plan) return [];
    const share = (ratio: number | null | undefined) => (ratio === null || ratio === undefined ? "-" : `${(100 * ratio).toFixed(1)} %`);
    return [
      el("h3", {}, `Plan, sampled over ${count(Math.round(plan.sampled_s))} s`),
      ...plan.warnings.map((words) => el("p", { class: "warn" }, words)),
      plan.flows.length
        ? table(["Flow", "With a path", "Delay at 0 s", "Links"], plan.flows.map((flow) => [flow.flow, share(flow.path_ratio), flow.delay_ns ? ms(flow.delay_ns) : "no path", String(Math.max(0, flow.nodes.length - 1))]))
        : null,
      plan.stations.length ? table(["Station", "Without a link", "Handovers"], plan.stations.map((one) => [one.station, `${one.dark_s.toFixed(0)} s`, count(one.handovers)])) : null,
    ];
  }

  private readonly cityField = el("input", {
    id: "add-city",
    placeholder: "a city, or click the globe",
    "aria-label": "add a station in a city",
    "aria-describedby": "city-error",
    autocomplete: "off",
    onkeydown: (event: Event) => (event as KeyboardEvent).key === "Enter" && this.addCity(),
    onchange: () => this.addCity(),
  });

  private readonly cityError = el("p", { id: "city-error", class: "bad", role: "status" });
  private readonly cityBox = el("div", { class: "field", "data-key": "city", "data-whole": "" }, this.cityField, this.cityError);

  /** The field of cities, or a mark that `patch` replaces by it. A field that leaves the page, even for a moment, loses the focus. */
  private cities(): HTMLElement {
    return this.form.contains(this.cityBox) ? el("div", { "data-key": "city", "data-whole": "" }) : this.cityBox;
  }

  private addCity(): void {
    const wanted = this.cityField.value.trim();
    const found = wanted ? find(this.preview.cities, wanted) : null;
    const isUnknown = wanted !== "" && !found;
    this.cityField.setAttribute("aria-invalid", String(isUnknown));
    this.cityError.textContent = isUnknown ? `“${wanted}” is not among the 1,000 largest cities: click the globe to add a station there` : "";
    if (!found) return;
    this.cityField.value = "";
    this.addStation(wanted, found[1], found[2]);
  }

  private draw(): void {
    const { draft, world } = this;
    const { text } = yaml(draft);
    const add = el("select", { id: "add-shell", "aria-label": "add a constellation", onchange: (event: Event) => this.addShell(event.target as HTMLSelectElement) }, el("option", { value: "" }, "Add a constellation"), ...SHELLS.map(({ title }, i) => el("option", { value: String(i) }, title)));
    const general = this.errors.get("") ?? [];
    patch(
      this.form,
      el("h2", {}, "Build a scenario"),
      el(
        "div",
        { class: "buttons" },
        el("button", { id: "save-draft", onclick: () => save([yaml(this.draft).text], "application/yaml", this.draft.name || "scenario", "yaml") }, "Save YAML"),
        el("button", { id: "new-draft", onclick: () => this.replace(empty()) }, "Start again"),
        world.file ? el("button", { onclick: () => ((location.hash = ""), location.reload()) }, `Back to ${world.name}`) : null,
      ),
      el("p", { id: "draft-state", role: "status", class: this.errors.size ? "bad" : "good" }, this.state),
      ...general.map((error) => el("p", { class: "bad" }, [error.message, ...error.help].join("; "))),
      el(
        "fieldset",
        { "data-key": "general" },
        el("legend", {}, "Scenario"),
        el(
          "div",
          { class: "fields" },
          this.field(draft, "name", "name", "Name"),
          this.field(draft, "start", "start", "Start (UTC)"),
          this.field(draft, "duration", "duration", "Duration"),
          this.field(draft, "step", "step", "Step"),
          this.field(draft, "seed", "seed", "Seed"),
          this.field(draft, "routing", "routing", "Routing", { words: ROUTINGS }),
        ),
      ),
      ...draft.shells.map((one, i) => this.shell(one, i)),
      el("p", { "data-key": "add shell" }, add),
      el(
        "fieldset",
        { "data-key": "stations" },
        el("legend", {}, `Stations (${draft.stations.length})`),
        ...draft.stations.map((one, i) => this.station(one, i)),
        this.cities(),
        el("datalist", { id: "cities" }, ...this.preview.cities.slice(0, OFFERED).map(([name]) => el("option", { value: name }))),
      ),
      el(
        "fieldset",
        { "data-key": "flows" },
        el("legend", {}, `Traffic (${draft.flows.length})`),
        ...draft.flows.map((one, i) => this.flow(one, i)),
        el("button", { id: "add-flow", "data-key": "add", disabled: draft.stations.length < 2, onclick: () => this.addFlow() }, "Add a flow"),
      ),
      el("section", { id: "draft-plan", "data-key": "plan" }, ...this.results()),
      el("details", { "data-key": "yaml" }, el("summary", {}, "YAML"), el("pre", { id: "draft-yaml" }, text)),
    );
  }

  private addShell(from: HTMLSelectElement): void {
    const chosen = SHELLS[Number(from.value)];
    if (from.value === "" || !chosen) return;
    const { shells } = this.draft;
    const name = free(chosen.shell.name || "shell", shells.map((one) => one.name));
    shells.push({ ...chosen.shell, name });
    from.value = "";
    this.changed();
  }
}

/** Opens the builder in the place of the page's other views. */
export function build(world: World): void {
  const builder = new Builder(world);
  // For tests; the page does not use it.
  Object.assign(window, { constel: { builder } });
}
