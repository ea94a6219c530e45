// Builds the page into crates/web/page: four files, compressed, the same bytes from the same sources.

import { build } from "esbuild";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

/** Names in parentheses that are older than the ones before them, or less known. */
const FORMER = new Set(["Benares", "Bombay", "Calcutta", "Calicut", "Cochin", "Gauhati", "Kiev", "Madras", "Ordoss", "Poona", "Ujung Pandang", "West Midlands", "Wulumqi"]);

const here = dirname(fileURLToPath(import.meta.url));
const page = process.argv[2] ?? join(here, "../crates/web/page");

const made = await build({
  entryPoints: { app: join(here, "src/main.ts") },
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  legalComments: "none",
  outdir: join(here, "out"),
  write: false,
  logLevel: "warning",
});
const files = new Map(made.outputFiles.map((file) => [file.path.endsWith(".css") ? "app.css" : "app.js", Buffer.from(file.contents)]));
files.set("index.html", readFileSync(join(here, "src/index.html")));
files.set("land.json", Buffer.from(JSON.stringify(land())));

/** Land, the borders of countries without their names, and the 1,000 largest cities. */
function land() {
  const world = JSON.parse(readFileSync(join(here, "node_modules/world-atlas/countries-50m.json")));
  world.objects.countries.geometries = world.objects.countries.geometries.map(({ type, arcs }) => ({ type, arcs }));
  const rows = readFileSync(join(here, "../scenarios/data/cities-top-1000-by-2025-population.csv"), "utf8").trimEnd().split("\n").slice(1);
  world.cities = rows.map((row) => row.split(",")).map(([, name, lat, lon]) => {
    const [shown, ...other] = names(name);
    return [shown, Number(Number(lat).toFixed(2)), Number(Number(lon).toFixed(2)), ...other];
  });
  return world;
}

/** The names of a city of the file, the one in English first: `Al-Qahirah-(Cairo)` is Cairo, `Mumbai-(Bombay)` is Mumbai. */
function names(text) {
  const [local, other] = text.split(/-*\(/).map((name) => name.replace(/\)$/, "").replaceAll("--", ", ").replaceAll("-", " "));
  if (!other || other.startsWith("incl")) return [local];
  return FORMER.has(other) ? [local, other] : [other, local];
}

mkdirSync(page, { recursive: true });
let all = 0;
for (const [name, bytes] of files) {
  const small = gzipSync(bytes, { level: 9 });
  // The system's number in the head is the only thing that differs between machines.
  small[9] = 255;
  writeFileSync(join(page, `${name}.gz`), small);
  all += small.length;
  console.log(`${name.padEnd(12)} ${String(bytes.length).padStart(9)} bytes, ${String(small.length).padStart(7)} compressed`);
}
console.log(`${"all".padEnd(12)} ${" ".repeat(15)} ${String(all).padStart(9)} compressed`);
