// The rules of a box in NIST Net's columns: one row for each rule and direction, with its counters, edited in place.

import { change, get } from "./api";
import { el, fill, need } from "./dom";
import type { BoxShown, RuleShown, ViaShown, DirectionCounters, World } from "./types";
import { count, rate } from "./words";

const EVERY_MS = 1000;

type Path = Record<string, unknown>;
type Rule = { name?: string; match?: Record<string, unknown>; both?: Path | string; forward?: Path | string; reverse?: Path | string };

/** A column of NIST Net, and where a rule has it: a key, or a key within a key. */
interface Column {
  title: string;
  hint: string;
  key: [string] | [string, string];
  whole?: boolean;
}

const MATCH: Column[] = [
  { title: "Source", hint: "10.0.0.0/8", key: ["src"] },
  { title: "Dest", hint: "10.0.0.1", key: ["dst"] },
  { title: "Proto", hint: "udp", key: ["protocol"] },
  { title: "Sport", hint: "any", key: ["sport"] },
  { title: "Dport", hint: "80", key: ["dport"] },
  { title: "CoS", hint: "any", key: ["traffic_class"] },
];

const PATH: Column[] = [
  { title: "Delay", hint: "20 ms", key: ["delay"] },
  { title: "DelSigma", hint: "1 ms", key: ["jitter", "pareto_normal"] },
  { title: "Bandwidth", hint: "10 Mbit/s", key: ["rate"] },
  { title: "Drop", hint: "1 %", key: ["loss"] },
  { title: "Dup", hint: "1 %", key: ["duplicate"] },
  { title: "DRDmin", hint: "frames", key: ["aqm", "drd", "min_frames"] as unknown as [string, string], whole: true },
  { title: "DRDmax", hint: "frames", key: ["aqm", "drd", "max_frames"] as unknown as [string, string], whole: true },
];

/** The counters of a rule: NIST Net's columns. */
const DID: { title: string; stat: string; of: (did: DirectionCounters) => string }[] = [
  { title: "Packets", stat: "frames", of: (did) => count(did.frames) },
  { title: "Bytes", stat: "bytes", of: (did) => count(did.bytes) },
  { title: "Drops", stat: "drops", of: (did) => count(did.drops) },
  { title: "Dups", stat: "duplicates", of: (did) => count(did.duplicates) },
  { title: "Queue", stat: "queue", of: (did) => count(did.queue_frames) },
  { title: "Avg rate", stat: "average", of: (did) => rate(did.average_bps) },
  { title: "Rate now", stat: "present", of: (did) => rate(did.present_bps) },
  { title: "Satellite path", stat: "via", of: (did) => (did.via ? way(did.via) : "") },
  { title: "Last packet", stat: "last", of: (did) => (did.last_frame_s === null || did.last_frame_s === undefined ? "never" : `${did.last_frame_s.toFixed(1)} s ago`) },
];

/** The counters that are shown: satellite paths only where a rule leads through a constellation. */
function columns({ rules }: BoxShown): typeof DID {
  const isInSpace = rules.some(({ directions }) => Object.values(directions).some(({ via }) => via));
  return DID.filter(({ stat }) => stat !== "via" || isInSpace);
}

/** The present path through a constellation: its delay, its satellites, and the rate of its radio link. */
function way(via: ViaShown): string {
  if (via.delay_ns === null || via.delay_ns === undefined) return "no path";
  const radio = via.radio_bps === null || via.radio_bps === undefined ? "" : `, radio ${rate(via.radio_bps)}`;
  return `${(via.delay_ns / 1e6).toFixed(2)} ms over ${via.satellites.join(", ")}${radio}`;
}

function look(of: unknown, key: readonly string[]): unknown {
  return key.reduce<unknown>((at, name) => (at && typeof at === "object" ? (at as Record<string, unknown>)[name] : undefined), of);
}

/** A copy with a value at a key, or without it. Objects that become empty are removed. */
function put(of: Record<string, unknown>, key: readonly string[], value: unknown): Record<string, unknown> {
  const [first, ...rest] = key;
  const copy = { ...of };
  const inner = rest.length ? put((typeof copy[first] === "object" && copy[first] ? copy[first] : {}) as Record<string, unknown>, rest, value) : value;
  if (inner === undefined || (rest.length && !Object.keys(inner as object).length)) delete copy[first];
  else copy[first] = inner;
  return copy;
}

const text = (value: unknown): string => (value === undefined || value === null ? "" : Array.isArray(value) ? value.join(" ") : typeof value === "object" ? JSON.stringify(value) : String(value));

/** The keys that have no column. */
function other(of: unknown, columns: Column[]): string {
  if (!of || typeof of !== "object") return "";
  const rest = columns.reduce((at, column) => (typeof look(at, column.key) === "object" && !Array.isArray(look(at, column.key)) ? at : put(at, column.key, undefined)), of as Record<string, unknown>);
  return Object.keys(rest).length ? JSON.stringify(rest).replace(/["{}]/g, "").replace(/([:,])/g, "$1 ") : "";
}

/** The key of a rule that has the settings of a direction. */
function placeOf(rule: Rule, way: string): "both" | "forward" | "reverse" {
  return rule.both !== undefined ? "both" : (way as "forward" | "reverse");
}

export class Rules {
  private readonly body = need<HTMLElement>("#rules");
  /** The rule whose cells are fields, or whose text is shown. */
  private editing: { name: string; fields: { column: Column; of: "match" | "both" | "forward" | "reverse"; input: HTMLInputElement }[] } | null = null;
  private asText = false;
  private shown: BoxShown | null = null;
  /** The content of the table without its counters: while it is the same, only the counters are updated. */
  private made = "";

  constructor(
    private readonly world: World,
    private readonly say: (words: string) => void,
  ) {
    this.body.hidden = false;
    void this.look();
    setInterval(() => !document.hidden && void this.look(), EVERY_MS);
  }

  private async look(): Promise<void> {
    try {
      this.shown = await get<BoxShown>("rules");
    } catch (error) {
      fill(this.body, el("p", { class: "bad" }, (error as Error).message));
      this.made = "";
      return;
    }
    if (!this.asText) this.draw();
  }

  private async act(order: Record<string, unknown>, done: string): Promise<void> {
    try {
      await change({ verb: "change-rules", change: order });
      this.say(done);
      this.editing = null;
      this.asText = false;
    } catch (error) {
      this.say(`refused: ${(error as Error).message}`);
    }
    await this.look();
  }

  private draw(): void {
    const shown = this.shown;
    if (!shown) return;
    const made = JSON.stringify([shown.rules.map(({ name, rule, directions }) => [name, rule, Object.keys(directions)]), this.editing?.name ?? null, columns(shown).length]);
    // Fields under edit stay when other rules change.
    if (made !== this.made && !(this.editing && this.body.querySelector("#save-rule"))) {
      this.made = made;
      this.table(shown);
    }
    for (const [way, did] of Object.entries(shown.unmatched)) this.count("", way, did);
    for (const rule of shown.rules) for (const [way, did] of Object.entries(rule.directions)) this.count(rule.name, way, did);
  }

  private count(name: string, way: string, did: DirectionCounters): void {
    const row = this.body.querySelector(`tr[data-rule="${CSS.escape(name)}"][data-way="${CSS.escape(way)}"]`);
    for (const { stat, of } of DID) {
      const cell = row?.querySelector(`[data-stat=${stat}]`);
      const words = of(did);
      if (cell && cell.textContent !== words) cell.textContent = words;
    }
  }

  private table(shown: BoxShown): void {
    const did = columns(shown);
    const head = ["#", "Rule", ...(this.world.may_write ? [""] : []), ...MATCH.map((one) => one.title), "Direction", ...PATH.map((one) => one.title), "Other keys", ...did.map((one) => one.title)];
    const rows = shown.rules.flatMap((rule, i) => this.rows(rule, i, shown.rules.length, did));
    const rest = Object.keys(shown.unmatched).map((way) =>
      el("tr", { "data-rule": "", "data-way": way }, el("td", {}), el("td", { colSpan: (this.world.may_write ? 2 : 1) + MATCH.length }, "no rule matches: unchanged"), el("td", {}, way), ...PATH.map(() => el("td", {})), el("td", {}), ...did.map(({ stat }) => el("td", { "data-stat": stat, class: "num" }))),
    );
    // The table may be wider than the window, and scrolls; the text of a rule may not.
    this.body.classList.add("wide");
    fill(
      this.body,
      el("h2", {}, `${shown.lab}: ${shown.interfaces.map((wire) => wire.name).join(" ⇄ ")}`),
      el("p", { class: "hint" }, `${shown.mode}; ${shown.rules.length} rules. The first rule that matches a frame applies. The columns are those of NIST Net; every value has its unit.`),
      el("table", { id: "rule-table" }, el("thead", {}, el("tr", {}, ...head.map((name) => (name ? el("th", { scope: "col" }, name) : el("td"))))), el("tbody", {}, ...rows, ...rest)),
      this.world.may_write ? el("button", { id: "add-rule", onclick: () => this.write(null, { name: "new", match: {}, both: { delay: "20 ms" } }) }, "Add a rule") : el("p", { class: "hint" }, "`constel web --write` allows changes."),
    );
  }

  /** A cell of a column: its value, or a field while the rule is edited. */
  private cell(rule: RuleShown, of: "match" | "both" | "forward" | "reverse", column: Column, span: number): HTMLElement {
    const value = text(look((rule.rule as Rule)[of], column.key));
    const set = { rowSpan: span, class: "code", "data-key": `${of}.${column.key.join(".")}` };
    if (this.editing?.name !== rule.name) return el("td", set, value);
    const input = el("input", { value, placeholder: column.hint, "aria-label": `${column.title} of ${rule.name}${of === "match" || of === "both" ? "" : `, ${of}`}` });
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.save(rule);
      if (event.key === "Escape") this.leave();
    });
    this.editing.fields.push({ column, of, input });
    return el("td", set, input);
  }

  private rows(rule: RuleShown, i: number, all: number, did: typeof DID): HTMLElement[] {
    const written = rule.rule as Rule;
    const ways = Object.keys(rule.directions);
    const own = (name: string, label: string, act: () => void, disabled = false) => el("button", { title: label, "aria-label": `${label} ${rule.name}`, disabled, onclick: act }, name);
    const move = (at: number) => void this.act({ kind: "move", name: rule.name, at }, `${rule.name} moved`);
    const buttons = !this.world.may_write
      ? null
      : this.editing?.name === rule.name
        ? el("span", { class: "buttons" }, el("button", { id: "save-rule", onclick: () => this.save(rule) }, "Apply"), el("button", { onclick: () => this.leave() }, "Cancel"))
        : el(
            "span",
            { class: "buttons" },
            own("✎", "edit", () => this.edit(rule)),
            own("{}", "write", () => this.write(rule.name, written)),
            own("↑", "move up", () => move(i), i === 0),
            own("↓", "move down", () => move(i + 2), i + 1 === all),
            own("×", "remove", () => void this.act({ kind: "remove", name: rule.name }, `${rule.name} removed`)),
          );
    const shared = ways.length > 1 && written.both !== undefined;
    return ways.map((way, place) => {
      const of = placeOf(written, way);
      const said = written[of];
      const spans = shared ? ways.length : 1;
      const path =
        shared && place
          ? []
          : [
              ...(typeof said === "string"
                ? [el("td", { rowSpan: spans, colSpan: PATH.length, class: "code" }, said)]
                : PATH.map((column) => this.cell(rule, of, column, spans))),
              el("td", { rowSpan: spans, class: "code other" }, [place ? "" : other(written.match, MATCH), other(said, PATH)].filter(Boolean).join("; ")),
            ];
      return el(
        "tr",
        { "data-rule": rule.name, "data-way": way },
        ...(place ? [] : [el("td", { rowSpan: ways.length }, String(i + 1)), el("td", { rowSpan: ways.length }, rule.name), ...(buttons ? [el("td", { rowSpan: ways.length }, buttons)] : []), ...MATCH.map((column) => this.cell(rule, "match", column, ways.length))]),
        el("td", {}, way),
        ...path,
        ...did.map(({ stat }) => el("td", { "data-stat": stat, class: "num" })),
      );
    });
  }

  private edit(rule: RuleShown): void {
    this.editing = { name: rule.name, fields: [] };
    this.made = "";
    if (this.shown) this.table(this.shown);
    this.draw();
    this.editing?.fields.find(({ of }) => of !== "match")?.input.focus();
  }

  private leave(): void {
    this.editing = null;
    this.asText = false;
    this.body.replaceChildren();
    this.made = "";
    this.draw();
  }

  /** Applies the fields' values; keys without a field stay as they are. */
  private save(rule: RuleShown): void {
    let changed = { ...(rule.rule as Rule) } as Record<string, unknown>;
    for (const { column, of, input } of this.editing?.fields ?? []) {
      const before = look(changed[of], column.key);
      const value = input.value.trim();
      if (value === text(before)) continue;
      const list = Array.isArray(before) || value.includes(" ");
      const wanted = value === "" ? undefined : column.whole ? Number(value) : of === "match" && list ? value.split(/[\s,]+/) : value;
      changed = { ...changed, [of]: put((changed[of] ?? {}) as Record<string, unknown>, column.key, wanted) };
    }
    void this.act({ kind: "edit", name: rule.name, rule: changed }, `${rule.name} applied`).then(() => {
      if (!this.editing) this.leave();
    });
  }

  /** A rule as text with all its keys (JSON is YAML as well). */
  private write(name: string | null, rule: unknown): void {
    this.asText = true;
    this.body.classList.remove("wide");
    this.editing = null;
    this.made = "";
    const area = el("textarea", { id: "rule-text", rows: 14, spellcheck: false, "aria-label": "the rule" });
    area.value = JSON.stringify(rule, null, 2);
    area.addEventListener("keydown", (event) => event.key === "Escape" && this.leave());
    const save = () => {
      let parsed: unknown;
      try {
        parsed = JSON.parse(area.value);
      } catch (error) {
        this.say(`refused: not JSON: ${(error as Error).message}`);
        return;
      }
      void this.act(name === null ? { kind: "add", rule: parsed } : { kind: "edit", name, rule: parsed }, `${name ?? "the rule"} applied`);
    };
    fill(this.body, el("h2", {}, name === null ? "A new rule" : `The rule ${name}`), area, el("div", { class: "buttons" }, el("button", { id: "save-rule", onclick: save }, "Apply"), el("button", { onclick: () => this.leave() }, "Cancel")));
    area.focus();
  }
}
