// Opens a CZML file with Cesium itself and compares its positions with a table of true ones (CSV: t_utc, id, x, y, z).
// What a browser has and node has not: only the names are asked for.
for (const name of ["Image", "HTMLCanvasElement", "HTMLImageElement", "HTMLVideoElement", "ImageBitmap", "OffscreenCanvas"]) globalThis[name] ??= class {};
import fs from "node:fs";
import { CzmlDataSource, JulianDate, Cartesian3 } from "@cesium/engine";
const [czml, truth] = process.argv.slice(2);
const source = await CzmlDataSource.load(JSON.parse(fs.readFileSync(czml)));
const entities = source.entities.values;
console.log("entities", entities.length, "clock", JulianDate.toIso8601(source.clock.startTime), JulianDate.toIso8601(source.clock.stopTime));
let worst = 0, n = 0;
for (const line of fs.readFileSync(truth, "utf8").trim().split("\n")) {
  const [t, id, x, y, z] = line.split(",");
  const entity = source.entities.getById(id);
  if (!entity) throw new Error("no entity " + id);
  const p = entity.position.getValue(JulianDate.fromIso8601(t));
  if (!p) throw new Error("no position of " + id + " at " + t);
  worst = Math.max(worst, Cartesian3.distance(p, new Cartesian3(+x, +y, +z)));
  n++;
}
if (worst > 0.1) process.exitCode = 1;
console.log(n, "positions, largest difference", worst, "m");
console.log(entities.filter(e => e.polyline).length, "lines,", entities.filter(e => e.point || e.billboard || e.label).length, "points or labels");
