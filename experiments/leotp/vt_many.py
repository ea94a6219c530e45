"""beyond() on paths drawn by a seed, none of which any constant was chosen on: constellation, cities, moment, rates, losses, queues. In virtual
time over each path's own timeline, handovers included, against bbr-like.

The draw is `SEED`'s alone; what has no path for the whole time is drawn again. `vt beyond-many` writes raw/vt-beyond-many.json."""
import csv, json, math, os, random
from vt import CACHE, mean, run, run_all
import sat

SEED, PATHS = 20261126, 20
# Mean elevation masks of the presets' publications.
SKIES = {"iridium": 8.2, "oneweb": 15, "starlink-core": 25, "telesat-inclined": 10, "kuiper-610": 25}
SECONDS, EVERY = 20, 4
PROTOCOLS = ("beyond", "bbr")


def cities():
    with open(f"{sat.ROOT}/scenarios/data/cities-top-1000-by-2025-population.csv") as f:
        return [(r["name"], float(r["latitude_deg"]), float(r["longitude_deg"])) for r in csv.DictReader(f)]


def draw(r, known):
    sky = r.choice(sorted(SKIES))
    a, b = r.sample(known, 2)
    minute = r.randrange(24 * 60)
    loss = lambda low, high: round(math.exp(r.uniform(math.log(low), math.log(high))), 5)
    return {"sky": sky, "from": a, "to": b, "start": f"2026-11-21T{minute // 60:02d}:{minute % 60:02d}:00Z",
            "ground_mbps": r.choice((5, 10, 20, 50)), "laser_mbps": r.choice((10, 20, 50, 100)),
            "ground_loss": loss(0.0005, 0.02), "laser_loss": loss(0.0001, 0.003), "queue_bytes": r.choice((65_536, 131_072, 262_144))}


def scenario(p):
    place = lambda name, c: f"    {name}: {{latitude: {c[1]} deg, longitude: {c[2]} deg}}\n"
    return f"""constel: 1
name: drawn
seed: 1
start: {p["start"]}
duration: {SECONDS + 60} s
constellations:
  sky:
    preset: {p["sky"]}
    isl: {{pattern: plus-grid, link: {{rate: {p["laser_mbps"]} Mbit/s, queue: 128 KiB}}}}
    gsl: {{min_elevation: {SKIES[p["sky"]]} deg, policy: nearest, link: {{rate: {p["ground_mbps"]} Mbit/s, queue: 128 KiB}}}}
ground:
  stations:
{place("here", p["from"])}{place("there", p["to"])}routing: {{mode: computed, families: [ipv4]}}
"""


def stretches(p, line):
    """The timeline as `vt.run` has it, and the names of its nodes in order."""
    names = ["here"] + sorted({n for _, path, _ in line for n in path[1:-1]}) + ["there"]
    number = {n: i for i, n in enumerate(names)}
    out = []
    for t, path, delays in line:
        end = lambda i: i in (0, len(delays) - 1)
        hops = [{"mbps": p["ground_mbps"] if end(i) else p["laser_mbps"], "delay_ms": d, "loss": p["ground_loss"] if end(i) else p["laser_loss"],
                 "queue_bytes": p["queue_bytes"]} for i, d in enumerate(delays)]
        out.append({"at_s": t, "path": [number[n] for n in path], "hops": hops})
    return out, names


def timeline(p):
    """Every `EVERY` seconds the least-delay path; None if at some time no path exists."""
    line = []
    for t in range(0, SECONDS, EVERY):
        (_, path, delays), = sat.timeline(scenario(p), "here", "there", 1, t)
        if not path:
            return None
        line.append((t, path, delays))
    return line


def drawn(paths=PATHS, seed=SEED):
    r, known, out = random.Random(seed), cities(), []
    while len(out) < paths:
        p = draw(r, known)
        line = timeline(p)
        if line:
            out.append((p, line))
    return out


def table(seeds=(11, 12), paths=int(os.environ.get("PATHS", PATHS))):
    all_, specs = drawn(paths), {}
    for n, (p, line) in enumerate(all_):
        parts, names = stretches(p, line)
        for protocol in PROTOCOLS:
            specs[n, protocol] = [{"seed": s, "protocol": protocol, "params": CACHE, "nodes": len(names), "timeline": parts, "from_s": 6, "to_s": SECONDS}
                                  for s in seeds]
    r = run_all(specs)
    rows = []
    for n, (p, line) in enumerate(all_):
        changes = sum(a[1] != b[1] for a, b in zip(line, line[1:]))
        row = {**p, "hops": [len(d) for *_, d in line], "propagation_ms": sum(sum(d) for *_, d in line) / len(line), "path_changes": changes}
        for protocol in PROTOCOLS:
            runs = r[n, protocol]
            row[protocol] = {k: mean(runs, k) for k in ("mbps", "owd_mean_ms", "sent_per_delivered")}
            row[protocol]["mbps_each"] = [x["mbps"] for x in runs]
            row[protocol]["mbps_series"] = [round(x, 3) for x in runs[0]["mbps_series"]]
        row["gain"] = row["beyond"]["mbps"] / row["bbr"]["mbps"] - 1
        row["owd_gain"] = row["beyond"]["owd_mean_ms"] / row["bbr"]["owd_mean_ms"] - 1
        rows.append(row)
    return rows


def places(worst=3):
    """Waiting times on the paths on which beyond() adds most delay: ms in each node from the Producer on."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "raw", "vt-beyond-many.json")) as f:
        rows = sorted(json.load(f)["rows"], key=lambda r: r["beyond"]["owd_mean_ms"] - r["bbr"]["owd_mean_ms"])
    for p in rows[-worst:]:
        parts, names = stretches(p, timeline(p))
        r = run({"seed": 11, "protocol": "beyond", "params": CACHE, "nodes": len(names), "timeline": parts, "from_s": 6, "to_s": SECONDS, "places": True})
        waits = r["places"]["wait_ms"]
        print(p["sky"], p["from"][0], "to", p["to"][0], [round(waits.get(str(n), 0), 1) for n in parts[0]["path"][1:-1]])


if __name__ == "__main__":
    places()
