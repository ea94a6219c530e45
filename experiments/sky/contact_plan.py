"""A day of contact plan at steps of 1 s: Shell I of Starlink and 100 cities.

Constel computes the whole day. skyfield + numpy + networkx do the same for SHARE seconds of it, from the same
satellites as two-line elements; their time is scaled to the day. The work is positions, elevation of every
satellite over every city, nearest choice, ISL ranges and line of sight, a graph a step, and contacts by comparing
it with the one before.
"""

import csv
import math
import os
import sys
import time

import common

SHARE = int(os.environ.get("SHARE", "300"))
DAY = int(os.environ.get("DAY", "86400"))
EARTH = 6378137.0


def constel(file):
    result = {}
    for threads in sorted({1, os.cpu_count()}):
        out = common.RAW / "contacts.csv"
        wall, cpu, mb, _ = common.run("plan", file, "--contacts", "--csv", "--to", f"{DAY}s", "--threads", str(threads), out=out)
        rows = sum(1 for _ in open(out)) - 1
        result[threads] = {"wall_s": wall, "cpu_s": cpu, "peak_mb": mb, "contacts": rows}
        print(f"constel, {threads} thread(s): {wall:.1f} s, {mb:.0f} MB, {rows} contacts", flush=True)
    return result


def python(file):
    import networkx as nx
    import numpy as np
    from skyfield.api import EarthSatellite, load, wgs84
    from skyfield.framelib import itrs

    folder = common.RAW / "hypatia"
    for old in folder.glob("*"):
        old.unlink()
    common.run("plan", file, "--export", "hypatia", "--out", str(folder))
    lines = (folder / "tles.txt").read_text().splitlines()[1:]
    timescale = load.timescale(builtin=True)
    satellites = [EarthSatellite(lines[n + 1], lines[n + 2], lines[n], timescale) for n in range(0, len(lines), 3)]
    isls = np.array([[int(x) for x in line.split()] for line in (folder / "isls.txt").read_text().splitlines()])
    stations = [row.split(",") for row in (folder / "ground_stations.basic.txt").read_text().splitlines()]
    names = [row[1] for row in stations]
    latitude = np.radians([float(row[2]) for row in stations])
    longitude = np.radians([float(row[3]) for row in stations])
    ground = np.array([wgs84.latlon(float(r[2]), float(r[3]), float(r[4])).itrs_xyz.m for r in stations])
    up = np.stack([np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude)], axis=1)
    sin_mask = math.sin(math.radians(25))

    spent = {"positions": 0.0, "links": 0.0, "graph": 0.0}
    begun, cpu = time.perf_counter(), time.process_time()
    times = timescale.utc(2026, 11, 21, 0, 0, range(SHARE))
    where = np.stack([s.at(times).frame_xyz(itrs).m for s in satellites])
    spent["positions"] = time.perf_counter() - begun
    count = len(satellites)
    before, contacts, open_since, serving_of = None, [], {}, []
    for step in range(SHARE):
        t0 = time.perf_counter()
        sky = where[:, :, step]
        away = sky[None, :, :] - ground[:, None, :]
        far = np.linalg.norm(away, axis=2)
        above = np.einsum("ijk,ik->ij", away, up) >= sin_mask * far
        nearest = np.where(above, far, np.inf).argmin(axis=1)
        lit = above.any(axis=1)
        a, b = sky[isls[:, 0]], sky[isls[:, 1]]
        along = b - a
        isl_m = np.linalg.norm(along, axis=1)
        share = np.clip(-(a * along).sum(axis=1) / isl_m**2, 0, 1)
        clear = np.linalg.norm(a + along * share[:, None], axis=1) >= EARTH + 80e3
        t1 = time.perf_counter()
        graph = nx.Graph()
        graph.add_weighted_edges_from((int(i), int(j), m) for (i, j), m, c in zip(isls, isl_m, clear) if c)
        graph.add_weighted_edges_from((count + g, int(s), far[g, s]) for g, s in enumerate(nearest) if lit[g])
        now = set(map(frozenset, graph.edges))
        if before is not None:
            for gone in before - now:
                contacts.append((gone, open_since.pop(gone), step))
        for new in now if before is None else now - before:
            open_since[new] = step
        before = now
        t2 = time.perf_counter()
        spent["links"] += t1 - t0
        spent["graph"] += t2 - t1
        serving_of.append(nearest.copy())
    total, cpu = time.perf_counter() - begun, time.process_time() - cpu
    contacts += [(k, v, SHARE) for k, v in open_since.items()]
    return {
        "share_s": SHARE, "wall_s": total, "cpu_s": cpu, "cpu_scaled_to_day_s": cpu * DAY / SHARE, "parts_s": spent, "peak_mb": common.peak_mb(), "contacts": len(contacts),
        "scaled_to_day_s": total * DAY / SHARE,
        "scaled_without_graph_s": (spent["positions"] + spent["links"]) * DAY / SHARE,
    }, serving_of, names


def agreement(serving_of, names):
    """How often both chose the same satellite: the same orbits by Kepler + J2 and by SGP4 are kilometres apart."""
    same = asked = 0
    with open(common.RAW / "contacts.csv") as f:
        for row in csv.DictReader(f):
            if row["kind"] != "gsl" or float(row["from_s"]) >= SHARE:
                continue
            satellite, city = sorted((row["a_node"], row["b_node"]), key=lambda n: not n.startswith("shell1-p"))
            plane, slot = satellite.removeprefix("shell1-p").split("-s")
            number, place = int(plane) * 22 + int(slot), names.index(city)
            for t in range(math.ceil(float(row["from_s"])), min(SHARE, math.ceil(float(row["to_s"])))):
                asked += 1
                same += int(serving_of[t][place] == number)
    return same / max(asked, 1)


def main():
    file = common.shell1("contact-plan", common.cities(100))
    ours = constel(file)
    theirs, serving_of, names = python(file)
    share = agreement(serving_of, names)
    data = {"host": common.host(), "day_s": DAY, "constel": ours, "python": theirs, "same_satellite_ratio": share}
    common.save("contact-plan", data)
    print(f"skyfield + numpy + networkx: {theirs['wall_s']:.1f} s for {SHARE} s, scaled {theirs['scaled_to_day_s']:.0f} s a day"
          f" ({theirs['scaled_without_graph_s']:.0f} s without the graph), {theirs['peak_mb']:.0f} MB")
    print(f"both chose the same satellite in {share:.2%} of the city-seconds compared")
    for threads, run in ours.items():
        print(f"| Constel, {threads} thread(s) | {run['wall_s']:.1f} s | {run['peak_mb']:.0f} MB"
              f" | {theirs['scaled_to_day_s'] / run['wall_s']:.0f}x"
              f" | {theirs['scaled_without_graph_s'] / run['wall_s']:.0f}x without the graph"
              f" | {theirs['cpu_scaled_to_day_s'] / run['cpu_s']:.0f}x by CPU time |")


if __name__ == "__main__":
    sys.exit(main())
