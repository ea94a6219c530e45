// Land and borders (Natural Earth, by the npm package world-atlas) as a texture: red land, green coasts and borders, blue graticule. Cities come with them.

import { feature, mesh } from "topojson-client";
import type { FeatureCollection, MultiPolygon, Polygon } from "geojson";
import type { GeometryCollection, Topology } from "topojson-specification";
import type { City } from "./cities";

function rings(land: FeatureCollection): number[][][] {
  return land.features.flatMap((one) => {
    const shape = one.geometry as Polygon | MultiPolygon;
    return shape.type === "Polygon" ? shape.coordinates : shape.coordinates.flat();
  });
}

/** The map, twice as wide as high, in pixels, and the cities, the largest first. */
export async function land(wide: number): Promise<{ canvas: HTMLCanvasElement; cities: City[] }> {
  const topology = (await (await fetch("/land.json")).json()) as Topology & { cities?: City[] };
  return { canvas: texture(wide, topology), cities: topology.cities ?? [] };
}

function texture(wide: number, topology: Topology): HTMLCanvasElement {
  const high = wide / 2;
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [wide, high];
  const pen = canvas.getContext("2d", { willReadFrequently: false });
  if (!pen) return canvas;
  pen.fillStyle = "#000";
  pen.fillRect(0, 0, wide, high);
  pen.globalCompositeOperation = "lighter";
  pen.strokeStyle = "#0000a0";
  pen.lineWidth = (1.5 * wide) / 4096;
  pen.beginPath();
  for (let lon = -180; lon < 180; lon += 15) {
    pen.moveTo(((lon + 180) / 360) * wide, 0);
    pen.lineTo(((lon + 180) / 360) * wide, high);
  }
  for (let lat = -75; lat < 90; lat += 15) {
    pen.moveTo(0, ((90 - lat) / 180) * high);
    pen.lineTo(wide, ((90 - lat) / 180) * high);
  }
  pen.stroke();
  const land = feature(topology, topology.objects.land) as unknown as FeatureCollection;
  pen.fillStyle = "#ff0000";
  pen.strokeStyle = "#00ff00";
  pen.lineWidth = (2 * wide) / 4096;
  const all = rings(land).map(whole);
  const draw = (each: (ring: [number, number][], x: (lon: number) => number, y: (lat: number) => number) => void) => {
    pen.beginPath();
    // A ring that leaves the map on one side comes in on the other.
    for (const turn of [-360, 0, 360]) {
      for (const ring of all) each(ring, (lon) => ((lon + turn + 180) / 360) * wide, (lat) => ((90 - lat) / 180) * high);
    }
  };
  draw((ring, x, y) => {
    ring.forEach(([lon, lat], i) => (i ? pen.lineTo(x(lon), y(lat)) : pen.moveTo(x(lon), y(lat))));
    pen.closePath();
  });
  pen.fill("nonzero");
  draw((ring, x, y) => {
    ring.forEach(([lon, lat], i) => {
      // Edges along the cut of the map, and to the pole, are no coasts.
      const cut = i > 0 && ((Math.abs(Math.abs(lon) - 180) < 0.02 && Math.abs(lon - ring[i - 1][0]) < 0.02) || lat < -89.5 || ring[i - 1][1] < -89.5);
      if (i && !cut) pen.lineTo(x(lon), y(lat));
      else pen.moveTo(x(lon), y(lat));
    });
  });
  pen.stroke();
  const { countries } = topology.objects;
  if (countries) {
    pen.strokeStyle = "#006000";
    pen.lineWidth = (1.2 * wide) / 4096;
    pen.beginPath();
    for (const line of mesh(topology, countries as GeometryCollection, (a, b) => a !== b).coordinates) {
      line.forEach(([lon, lat], i) => {
        const [x, y] = [((lon + 180) / 360) * wide, ((90 - lat) / 180) * high];
        if (i && Math.abs(lon - line[i - 1][0]) < 180) pen.lineTo(x, y);
        else pen.moveTo(x, y);
      });
    }
    pen.stroke();
  }
  return canvas;
}

/** A ring without jumps of longitude; one around the pole is closed over it. */
function whole(ring: number[][]): [number, number][] {
  const out: [number, number][] = [];
  let turn = 0;
  ring.forEach(([lon, lat], i) => {
    if (i) {
      const step = lon - ring[i - 1][0];
      if (step > 180) turn -= 360;
      else if (step < -180) turn += 360;
    }
    out.push([lon + turn, lat]);
  });
  const [first, last] = [out[0], out[out.length - 1]];
  if (Math.abs(last[0] - first[0]) > 300) {
    const pole = first[1] < 0 ? -90 : 90;
    out.push([last[0], pole], [first[0], pole]);
  }
  return out;
}
