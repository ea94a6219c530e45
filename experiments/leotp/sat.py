"""The satellite cases (Figs 16-18, Table II): the 1,600 satellites and 100 cities of section V.C, the path between two
cities second by second, and the same path in virtual time."""
import csv, heapq, json, os, random, subprocess, tempfile
from lab import CONSTEL, ROOT
from vt import CACHE

START = "2026-11-21T00:10:00Z"
CITIES = {"beijing": "Beijing", "shanghai": "Shanghai", "hong-kong": "Hong-Kong", "paris": "Paris", "new-york": "New-York-Newark"}


def scenario(seconds, isl=True, name="study-sat", cities=100):
    names = "".join(f"        - {{city: {c}, as: {n}}}\n" for n, c in CITIES.items())
    lasers = """{pattern: plus-grid, link: {rate: 20 Mbit/s, queue: 128 KiB, loss: 0.1 %}}""" if isl else "{pattern: none}"
    stations = f"    - file: {ROOT}/scenarios/data/cities-top-1000-by-2025-population.csv\n      names:\n{names}"
    if cities > len(CITIES):
        stations += f"    - file: {write_others(cities - len(CITIES))}\n      first: {cities - len(CITIES)}\n"
    return f"""constel: 1
name: {name}
description: The core of Starlink and {cities} cities, LEOTP's section V.C
seed: 1
start: {START}
duration: {seconds} s
step: 1 s
constellations:
  core:
    preset: starlink-core
    isl: {lasers}
    gsl:
      min_elevation: 25 deg
      policy: nearest
      link: {{rate: 20 Mbit/s, queue: 128 KiB, loss: 1 %}}
ground:
  from:
{stations}routing: {{mode: computed, families: [ipv4]}}
transport: {{congestion: [hybla, westwood, vegas]}}
"""


def stacks(names):
    """Keys of a scenario in which these satellites have network stacks of their own and all others only forward."""
    return f"nodes:\n  satellites: {{runtime: forward}}\n  overrides:\n    - {{nodes: [{', '.join(names)}], set: {{runtime: netns}}}}\n"


def recording(station, rates):
    """Keys of a scenario in which a station's uplink has these rates, Mbit/s, second by second."""
    path = os.path.join(tempfile.gettempdir(), f"leotp-study-uplink-{os.getpid()}.csv")
    with open(path, "w") as f:
        f.write("t_s,up_bit_per_s\n" + "".join(f"{t},{int(rate * 1e6)}\n" for t, rate in enumerate(rates)))
    return f"recordings:\n  - {{stations: [{station}], file: {path}}}\n"


def free_choice(seconds, isl=True, before=0):
    """The five cities alone, each with an antenna to every satellite in view, so that routes choose among them: as the
    paper's route computation (Hypatia's) does. Begins `before` seconds earlier."""
    text = scenario(seconds + before, isl, cities=len(CITIES)).replace(START, earlier(before))
    rows = {r["name"]: r for r in csv.DictReader(open(f"{ROOT}/scenarios/data/cities-top-1000-by-2025-population.csv"))}
    places = "".join(f"    {n}: {{latitude: {rows[c]['latitude_deg']} deg, longitude: {rows[c]['longitude_deg']} deg, antennas: 32}}\n"
                     for n, c in CITIES.items())
    head, rest = text.split("ground:\n")
    return f"{head}ground:\n  stations:\n{places}routing:{rest.split('routing:')[1]}"


def free_timeline(to, seconds, isl, before):
    """From Beijing by free choice, `before` seconds earlier and later as well: contacts at the ends are whole then."""
    return timeline(free_choice(seconds + before, isl, before), "beijing", to, seconds + 2 * before)


def v_curve(line, first, seconds, seed=1):
    """Mbit/s of the uplink in each of `seconds` from `first` on: as `uplink`, over the stretches of time in which the path
    leaves by the same satellite."""
    r, rates, used = random.Random(seed), [], [x[1][1] if x[1] else None for x in line]
    for t in range(first, first + seconds):
        a = b = t
        while a > 0 and used[a - 1] == used[t]:
            a -= 1
        while b < len(used) and used[b] == used[t]:
            b += 1
        rates.append(in_contact((t - a) / (b - a), r))
    return rates


def in_contact(share, r):
    """10 Mbit/s in the middle of a contact, 6 at its ends, with a random bias of up to 0.5 either way, at most 10."""
    return min(10.0, 6 + 4 * (1 - abs(2 * share - 1)) + r.uniform(-0.5, 0.5))


def earlier(seconds):
    return f"2026-11-21T00:{10 - seconds // 60:02d}:00Z"


def write_others(n):
    """The most populous cities that are not among CITIES, as a file of places."""
    path = os.path.join(tempfile.gettempdir(), f"leotp-study-cities-{n}.csv")
    rows = open(f"{ROOT}/scenarios/data/cities-top-1000-by-2025-population.csv").read().splitlines()
    rest = [r for r in rows[1:] if r.split(",")[1] not in CITIES.values()][:n]
    with open(path, "w") as f:
        f.write("\n".join([rows[0]] + rest) + "\n")
    return path


def timeline(text, a, b, seconds, first=0):
    """Per second the least-delay path from a to b: [(t, [nodes], [delay_ms])]; None without a path."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False) as f:
        f.write(text)
    out = []
    try:
        for t in range(first, first + seconds):
            p = json.loads(subprocess.run([CONSTEL, "plan", f.name, "--at", f"{t}s", "--json"], capture_output=True, check=True).stdout)
            graph, ground = {}, {n["name"] for n in p["nodes"] if n["kind"] != "satellite"}
            for e in p["edges"]:
                graph.setdefault(e["from_node"], []).append((e["to_node"], e["delay_ns"]))
            out.append((t, *shortest(graph, ground, a, b)))
    finally:
        os.unlink(f.name)
    return out


def shortest(graph, ground, a, b):
    best, via, q = {a: 0}, {}, [(0, a)]
    while q:
        d, n = heapq.heappop(q)
        if n == b:
            break
        if d > best[n] or (n in ground and n != a):
            continue
        for m, w in graph.get(n, ()):
            if d + w < best.get(m, 1 << 62):
                best[m], via[m] = d + w, n
                heapq.heappush(q, (d + w, m))
    if b not in best:
        return None, None
    path = [b]
    while path[-1] != a:
        path.append(via[path[-1]])
    path.reverse()
    return path, [(best[y] - best[x]) / 1e6 for x, y in zip(path, path[1:])]


def uplink(station, seconds, seed=1, margin=300):
    """Mbit/s of a station's ground link per second: the "V" around each handover (`in_contact`). Contacts come from `constel plan --contacts`, over a sky
    that starts `margin` seconds earlier, so that those cut off by the run's ends are whole."""
    r = random.Random(seed)
    text = scenario(seconds + 2 * margin).replace(START, earlier(margin))
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False) as f:
        f.write(text)
    out = subprocess.run([CONSTEL, "plan", f.name, "--contacts", "--csv", "--from", "0s", "--to", f"{seconds + 2 * margin}s"],
                         capture_output=True, check=True, text=True).stdout.splitlines()
    os.unlink(f.name)
    head = out[0].split(",")
    contacts = []
    for line in out[1:]:
        c = dict(zip(head, line.split(",")))
        if c["kind"] == "gsl" and station in (c["a_node"], c["b_node"]):
            contacts.append((float(c["from_s"]) - margin, float(c["to_s"]) - margin))
    rates = []
    for t in range(seconds):
        a, b = next((c for c in contacts if c[0] <= t < c[1]), (t - 1, t + 1))
        rates.append(in_contact((t - a) / (b - a), r))
    return rates


def virtual(line, rates, protocol, params=None, mid_params=None, mids=None, seed=7, t0=5, t1=None):
    """Returns the path as a description for `vt.run`. `mids`: None (all), "none", or a share such as 0.25."""
    line, rates = zip(*[(x, up) for x, up in zip(line, rates) if x[1]])
    names = [line[0][1][0]] + sorted({n for _, p, _ in line for n in p[1:-1]}) + [line[0][1][-1]]
    number = {n: i for i, n in enumerate(names)}
    start = line[0][0]
    stretches = []
    for (t, path, delays), up in zip(line, rates):
        hops = []
        for i, d in enumerate(delays):
            ground = i in (0, len(delays) - 1)
            h = {"mbps": up if i == 0 else 20, "back_mbps": 20, "delay_ms": d, "loss": 0.01 if ground else 0.001}
            hops.append(h)
        stretches.append({"at_s": t - start, "path": [number[n] for n in path], "hops": hops})
    d = {"seed": seed, "protocol": protocol, "params": {**CACHE, **(params or {})}, "mid_params": mid_params or {}, "nodes": len(names),
         "timeline": stretches, "from_s": t0, "to_s": t1 or line[-1][0] - start}
    if mids == "none":
        d["mids"] = []
    elif mids:
        r = random.Random(seed)
        d["mids"] = sorted(i for i in range(1, len(names) - 1) if r.random() < mids)
    return d
