"""The parts of `run`."""

import csv
import json
import os
import pathlib
import random
import subprocess
import time

import swarm
from chains import manet, node  # noqa: F401 - a part
from flying import formation  # noqa: F401 - a part
from guests import drivers, manet_guest  # noqa: F401 - parts
from swarm import HERE, WORK, Bridge, Lab, build_mesh, keep, mesh, points, say

PYTHON = os.environ.get("PYTHON", "python3")
ALL = ["profile", "tcp", "udp", "multicast", "consistency", "medium", "manet", "manet_guest", "formation", "matrix", "drivers", "dds"]
LAN = "ground: {{hosts: {{node: {{count: {n}, latitude: 0 deg, longitude: 0 deg}}}}}}\n" \
      "networks: {{lan: {{members: [node-*], medium: switched}}}}\nrouting: {{mode: none}}\n"
SIZE = 1460


def lan(n, **more):
    return Lab(f"swarm-lan{n}", LAN.format(n=n), **more)


def addresses(n):
    """As Constel numbers ports of the first network."""
    return [f"10.96.{(i + 1) // 256}.{(i + 1) % 256}" for i in range(n)]


def both(n, measure):
    """Runs a part with Constel and with a bridge; with Constel, returns the lab's verdict."""
    rows = []
    with lan(n) as lab:
        rows += [{"with": "constel", **row} for row in measure(lambda i, c: lab.start(node(i, n), c), addresses(n), lab)]
    summary = lab.summary()
    verdict = summary["verdict"]
    for row in rows:
        row.update(trustworthy=verdict["trustworthy"], reasons=verdict["reasons"])
    with Bridge(n) as bridge:
        rows += [{"with": "bridge", **row} for row in measure(bridge.start, bridge.addresses, None)]
    say(f"n = {n}: " + ("trustworthy" if verdict["trustworthy"] else "; ".join(verdict["reasons"])))
    return rows


def relay_drops(lab):
    """Frames that the relay lost against the scenario, by cause, and those that it carried."""
    if lab is None:
        return None
    flat = {}
    for key, value in lab.counters().items():
        named = value.items() if isinstance(value, dict) else [(None, value)]
        flat |= {key if name is None else f"{key}.{name}": v for name, v in named if isinstance(v, int) and v}
    return flat


def tcp():
    """Figs 7 to 9."""
    program = build_mesh()

    def measure(n):
        rows = both(n, lambda start, at, _: [mesh(start, at, program, "tcp", 4, 0, 0)])
        for row in rows:
            rates = row.pop("per_connection_bps")
            row.update(least_bps=rates[0], median_bps=rates[len(rates) // 2], greatest_bps=rates[-1], heard=len(rates))
        return rows

    points("tcp", [{"n": n} for n in (2, 3, 4, 6, 8, 12, 16, 20, 25)], measure)


RATES_BPS = [10e3, 50e3, 100e3, 500e3, 1e6, 5e6, 10e6, 100e6, 1e9, 10e9]


def udp():
    """Tables 2 and 3."""
    program = build_mesh()

    def measure(start, at, lab):
        rows = []
        for rate_bps in RATES_BPS:
            if len(rows) > 1 and all(r["worst_loss"] is not None and r["sent"] * 8 * SIZE / r["seconds"] < 0.3 * r["connections"] * r["rate_bps"] for r in rows[-2:]):
                break  # Two rates that the machine cannot even offer: the next cannot be either.
            before = relay_drops(lab)
            row = mesh(start, at, program, "udp", 2, rate_bps, SIZE)
            row.pop("per_connection_bps")
            after = relay_drops(lab)
            if lab:
                row["relay"] = {k: v - before.get(k, 0) for k, v in after.items() if v != before.get(k, 0)}
            rows.append(row)
        return rows

    points("udp", [{"n": n} for n in (2, 4, 8, 16, 24, 32)], lambda n: both(n, measure))


CRAFT = "spacecraft:\n  craft: {{orbit: {{altitude: 560 km, inclination: 97.6 deg}}, preset: string-of-pearls, craft: {n}, size: {size}}}\n"


def craft(number, n):
    return f"craft-{number:0{len(str(n - 1))}d}"


def on_air(lab):
    """Sums of the channels' counters of a finished lab, and its verdict."""
    summary = lab.summary()
    all_of = lambda key: sum(c[key] for c in summary["channels"])
    return {"sent_on_air": all_of("sent"), "airtime_ns": all_of("airtime_ns"), "collisions": all_of("collisions"), "heard": all_of("received"),
            "deaf": all_of("missed_while_sending"), "refused_full": all_of("refused_full"), "airtimes_ns": [c["airtime_ns"] for c in summary["channels"]],
            "trustworthy": summary["verdict"]["trustworthy"], "reasons": summary["verdict"]["reasons"]}


def multicast():
    """Every craft to all, one airtime each, and the same over a bridge."""
    program = build_mesh()
    shared = "medium: shared, law: {range: 1000 km}, link: {rate: 20 Mbit/s, queue: 256 KiB}, channel: {access: {tdma: {slot: 1 ms}}, guard: 50 us}"

    def measure(n):
        body = CRAFT.format(n=n, size="100 m") + f"networks: {{radio: {{members: [craft-*], {shared}}}}}\nrouting: {{mode: none}}\n"
        with Lab(f"swarm-cast{n}", body) as lab:
            row = mesh(lambda i, c: lab.start(craft(i, n), c), addresses(n), program, "cast", 10, SIZE * 8 * 2, SIZE)
        rows = [{"with": "constel, one channel", **row, **on_air(lab)}]
        with Bridge(n) as bridge:
            rows.append({"with": "bridge", **mesh(bridge.start, bridge.addresses, program, "cast", 10, SIZE * 8 * 2, SIZE)})
        for row in rows:
            row.pop("per_connection_bps")
            row.pop("airtimes_ns", None)
        return rows

    points("multicast", [{"n": n} for n in (4, 32, 100)], measure, size=SIZE, channel_bps=20e6)


# Who hears whom: all three each other, or the two senders only the one in the middle.
HEARD = {"all": [(0, 1), (0, 2), (1, 2)], "middle": [(0, 1), (1, 2)]}
ACCESS = {"csma": "access: {csma: {slot: 50 us, window: 128}}, guard: 100 us", "tdma": "access: {tdma: {slot: 10 ms}}, guard: 100 us", "aloha": "access: aloha"}


def medium():
    """Two craft that always have something to send, a third that listens; and the channel in virtual time against closed forms."""
    program, seconds, rate_bps, size = build_mesh(), 8, 2e6, 1000
    curves = subprocess.run(["cargo", "run", "--release", "--locked", "-q", "-p", "constel-link", "--example", "curves"] if "CURVES" not in os.environ
                            else [os.environ["CURVES"]], cwd=swarm.ROOT, check=True, capture_output=True, text=True).stdout
    curves = [{"law": law, "x": float(x), "seen": float(seen), "said": float(said)} for law, x, seen, said in csv.reader(curves.splitlines()[1:])]

    def measure(access, hears):
        lines = ["from,to,delay_ms"] + [f"{node(a, 3)},{node(b, 3)},0.001" for pair in HEARD[hears] for a, b in (pair, pair[::-1])]
        WORK.mkdir(parents=True, exist_ok=True)
        (WORK / "heard.csv").write_text("\n".join(lines) + "\n")
        body = "ground: {hosts: {node: {count: 3, latitude: 0 deg, longitude: 0 deg}}}\nnetworks:\n" \
            "  radio: {members: [node-*], medium: shared, law: {matrix: heard.csv}, link: {rate: 2 Mbit/s, queue: 32 KiB}, channel: {" + ACCESS[access] + "}}\n" \
            "routing: {mode: none}\n"
        with Lab("swarm-medium", body) as lab:
            row = mesh(lambda i, c: lab.start(node(i, 3), c), addresses(3), program, "cast", seconds, 1.5 * rate_bps, size, silent=[1])
        row.update(on_air(lab))
        row.pop("per_connection_bps")
        return [row]

    keys = [{"access": access, "hears": hears} for access, hears in (("csma", "all"), ("csma", "middle"), ("aloha", "all"), ("tdma", "all"), ("tdma", "middle"))]
    points("medium", keys, measure, curves=curves, channel_bps=rate_bps, size=size)
    with Bridge(3) as bridge:
        row = mesh(bridge.start, bridge.addresses, program, "cast", seconds, 1.5 * rate_bps, size, silent=[1])
        row.pop("per_connection_bps")
    points("medium", [{"access": "bridge", "hears": "all"}], lambda access, hears: [row], curves=curves, channel_bps=rate_bps, size=size)


def profile():
    """Fig 6: the shipped swarm, 20 times a second."""
    results = WORK / "profile"
    subprocess.run(["rm", "-rf", str(results)], check=True)
    WORK.mkdir(parents=True, exist_ok=True)
    subprocess.run([swarm.CONSTEL, "run", str(swarm.ROOT / "scenarios/swarm.yaml"), "--name", f"swarm-profile-{os.getpid()}",
                    "--profile", "20", "--results", str(results)], stdout=open(WORK / "profile.log", "w"), stderr=subprocess.STDOUT)
    summary = json.loads((results / "summary.json").read_text())
    folder = results / "interfaces"
    index = list(csv.DictReader(open(folder / "index.csv")))
    read = lambda name: memoryview((folder / name).read_bytes()).cast("Q")
    ports = [row for row in index if row["port"] == "net0"]
    times, rx, tx = read("t_ns.i64"), read("rx_bytes.u64"), read("tx_bytes.u64")
    width = len(index)
    rows = {row["node"]: {way: [data[k * width + int(row["place"])] for k in range(len(data) // width)] for way, data in (("rx", rx), ("tx", tx))}
            for row in ports}
    subprocess.run([swarm.CONSTEL, "results", "plot", str(results), "--ports", "--out", str(HERE / "fig6.svg")], check=True)
    last = {name: {way: row[way][-1] - row[way][0] for way in row} for name, row in rows.items()}
    gaps = [b - a for a, b in zip(times, times[1:])]
    keep("profile", {"rows": [{"node": name, **bytes_of} for name, bytes_of in last.items()], "looks": len(times), "seconds": (times[-1] - times[0]) / 1e9,
                     "gap_ms": {"p50": sorted(gaps)[len(gaps) // 2] / 1e6, "p99": sorted(gaps)[len(gaps) * 99 // 100] / 1e6, "max": max(gaps) / 1e6},
                     "verdict": summary["verdict"], "agree": agreement(results)})


def agreement(results):
    said = subprocess.run(["python3", str(swarm.ROOT / "scenarios/swarm/agree.py"), str(results)], capture_output=True, text=True).stdout
    return said.splitlines()[-1:]


def consistency():
    """Fig 10: how much plans agree, by loss; twenty swarms of four in one lab, each with a seed of its own."""
    groups, of = 20, 4
    WORK.mkdir(parents=True, exist_ok=True)

    def measure(reliable, loss_percent):
        networks, traffic = [], []
        for g in range(groups):
            link = f"link: {{rate: 10 Mbit/s, queue: 256 KiB, loss: {loss_percent} %}}"
            networks.append(f"  radio-{g}: {{members: [g{g}-*], law: {{matrix: four-{g}.csv}}, {link}}}")
            names = [f"g{g}-{i}" for i in range(of)]
            square = "".join(f"{a}," + ",".join("0" if a == b else "0.3" for b in names) + "\n" for a in names)
            (WORK / f"four-{g}.csv").write_text("delay_ms," + ",".join(names) + "\n" + square)
            for i, name in enumerate(names):
                words = [PYTHON, "/mnt/agent.py", str(i), str(of), "--seed", str(g), "--cycle", "2"] + ([] if reliable else ["--best-effort"])
                traffic.append(f"  - {{name: {name}, at: 1 s, for: 58 s, run: {{node: {name}, command: {json.dumps(words)}}}}}")
        hosts = ", ".join(f"g{g}: {{count: {of}, latitude: 0 deg, longitude: 0 deg}}" for g in range(groups))
        body = f"ground: {{hosts: {{{hosts}}}}}\nnetworks:\n" + "\n".join(networks) + "\nrouting: {mode: none}\nmounts:\n" \
            f"  - {{host: {swarm.ROOT}/scenarios/swarm, at: /mnt}}\ntraffic:\n" + "\n".join(traffic) + "\n"
        with Lab("swarm-fig10", body, seconds=60, seed=loss_percent + 1) as lab:
            lab.finish()
        verdict = lab.summary()["verdict"]
        rows = [{"seed": g, **agreed(lab.results, g), "trustworthy": verdict["trustworthy"], "reasons": verdict["reasons"]} for g in range(groups)]
        say(f"reliable {reliable}, {loss_percent} %: {sum(r['agree'] for r in rows)} of {sum(r['complete'] for r in rows)}; {verdict}")
        return rows

    points("consistency", [{"reliable": r, "loss_percent": p} for p in (0, 50, 20, 10, 30, 40, 5, 15) for r in (True, False)], measure, groups=groups)


def agreed(results, g, of=4):
    """Counts of one swarm: cycles that all planned, those in which all plans were alike, rewards known; and after how many cycles all were first known."""
    cycles = {}
    for i in range(of):
        with open(results / "flows" / f"g{g}-{i}.out", newline="") as file:
            for row in csv.DictReader(file):
                if row.get("plan") not in (None, "", "plan"):
                    cycles.setdefault(int(row["cycle"]), []).append((int(row["known"]), row["plan"]))
    complete = [(c, plans) for c, plans in sorted(cycles.items()) if len(plans) == of]
    alike = [len({p for _, p in plans}) == 1 for _, plans in complete]
    first = next((n for n, (_, plans) in enumerate(complete) if all(k == of for k, _ in plans)), None)
    found = complete[first:] if first is not None else []
    return {"complete": len(complete), "agree": sum(alike), "known": sum(k for _, plans in complete for k, _ in plans) / max(1, of * of * len(complete)),
            "discovered_after_cycles": first, "after_discovery": len(found),
            "agree_after_discovery": sum(len({p for _, p in plans}) == 1 for _, plans in found),
            "known_after_discovery": sum(k for _, plans in found for k, _ in plans) / max(1, of * of * len(found))}


def matrix():
    """Meshes with a matrix of delays: up to 1,024 nodes, how true they are, and one change of all delays."""
    points("matrix", [{"n": n} for n in (64, 256, 512, 1024)], one_matrix)


def one_matrix(n):
    draw = random.Random(n)
    WORK.mkdir(parents=True, exist_ok=True)
    names = [node(i, n) for i in range(n)]
    places = [(draw.random(), draw.random()) for _ in names]
    delay = lambda a, b: round(1 + 40 * ((a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2) ** 0.5, 3)
    square = [[0 if a == b else delay(places[a], places[b]) for b in range(n)] for a in range(n)]
    write_square("matrix.csv", names, square)
    body = f"ground: {{hosts: {{node: {{count: {n}, latitude: 0 deg, longitude: 0 deg}}}}}}\n" \
        "networks: {mesh: {members: [node-*], law: {matrix: matrix.csv}, link: {rate: 1 Gbit/s, queue: 1 MiB}}}\nrouting: {mode: none}\n"
    with Lab(f"swarm-matrix{n}", body) as lab:
        row = {"n": n, "edges": n * (n - 1), "up_s": lab.up_s, "memory_bytes": lab.memory_bytes()}
        row.update(pinged(lab, names, square, draw, 1000 if n == 256 else 100))
        if n == 256:
            row["change"] = changed(lab, names, square, draw)
            row.update(figures_8_and_9(lab, names))
        began = time.monotonic()
    row["down_s"] = time.monotonic() - began
    summary = lab.summary()
    row.update(bringup=summary.get("bringup"), verdict=summary["verdict"])
    return [row]


def write_square(name, names, square):
    rows = "".join(f"{node},{','.join(map(str, row))}\n" for node, row in zip(names, square))
    (WORK / name).write_text(f"delay_ms,{','.join(names)}\n{rows}")


def changed(lab, names, square, draw):
    """All delays grow by 10 ms, by one command: how long that takes, and how true they are then."""
    later = [[delay and delay + 10 for delay in row] for row in square]
    write_square("later.csv", names, later)
    began = time.monotonic()
    said = lab.verb("network", "set", lab.name, "mesh", "--matrix", str(WORK / "later.csv"))
    took_s = time.monotonic() - began
    found = {"edges": said["edges"], "command_s": took_s, **pinged(lab, names, later, draw, 100)}
    began = time.monotonic()
    lab.verb("network", "set", lab.name, "mesh", "--reset")
    return {**found, "reset_s": time.monotonic() - began}


def pinged(lab, names, square, draw, pairs):
    """Errors of round trips of random pairs against the matrix, microseconds; ten pairs from each of some nodes."""
    errors = []
    sources = draw.sample(range(len(names)), pairs // 10)
    at = addresses(len(names))
    for a in sources:
        goals = draw.sample([b for b in range(len(names)) if b != a], 10)
        one = "ping -n -c 3 -i 0.2 -W 2 {} | sed -n 's/^64.*time=\\(.*\\) ms/{} \\1/p' &"
        script = " ".join(one.format(at[b], b) for b in goals) + " wait"
        out = lab.start(names[a], ["sh", "-c", script]).communicate()[0]
        best = {}
        for line in out.splitlines():
            b, ms = line.split()
            best.setdefault(int(b), []).append(float(ms))
        errors += [(min(v[1:] or v) - square[a][b] - square[b][a]) * 1e3 for b, v in best.items()]
    errors.sort()
    return {"pairs": len(errors), "pairs_asked": pairs, "error_us": {"min": errors[0], "p50": errors[len(errors) // 2], "p99": errors[len(errors) * 99 // 100], "max": errors[-1]}}


def figures_8_and_9(lab, names):
    """Becker's Fig. 8 (20 ms, ping for a minute) and, for a minute instead of ten, Fig. 9 (100 Mbit/s and 5 ms)."""
    a, b, at = names[0], names[1], addresses(2)
    subprocess.run([swarm.CONSTEL, "link", "set", lab.name, a, b, "--delay", "10ms"], check=True, stdout=subprocess.DEVNULL)
    out = lab.start(a, ["ping", "-n", "-i", "0.2", "-c", "300", at[1]]).communicate()[0]
    rtts = sorted(float(line.split("time=")[1].split()[0]) for line in out.splitlines() if "time=" in line)
    subprocess.run([swarm.CONSTEL, "link", "set", lab.name, a, b, "--delay", "5ms", "--rate", "100Mbit/s"], check=True, stdout=subprocess.DEVNULL)
    server = lab.start(b, ["iperf3", "-s", "-1"])
    time.sleep(0.5)
    done = json.loads(lab.start(a, ["iperf3", "-c", at[1], "-t", "60", "-i", "10", "-J"]).communicate()[0])
    server.wait(20)
    return {"fig8_rtt_ms": {"min": rtts[0], "p50": rtts[len(rtts) // 2], "p99": rtts[len(rtts) * 99 // 100], "max": rtts[-1], "count": len(rtts)},
            "fig9_mbps": [i["sum"]["bits_per_second"] / 1e6 for i in done["intervals"]]}


def dds():
    """Latency and throughput of Cyclone DDS and zenoh, and the largest burst of DDS that all hear."""
    keys = [{"kind": kind, "n": n} for n in (2, 4, 8, 16, 32) for kind in ("cyclone", "zenoh")]
    points("dds", keys, lambda kind, n: both(n, lambda start, *_: [published(start, n, kind)]))


def published(start, n, kind):
    folder = WORK / "pubsub"
    subprocess.run(["rm", "-rf", str(folder)], check=True)
    folder.mkdir(parents=True)
    words = [PYTHON, str(HERE / "pubsub.py"), kind]
    all_of = [start(i, [*words, str(i), str(n), str(folder)]) for i in range(n)]
    seen = []
    for process in all_of:
        out = process.communicate(timeout=240)[0]
        seen.append(json.loads(out.splitlines()[-1]) if out.strip() else {})
    latencies = sorted(x for s in seen for x in s.get("latencies_us", []))
    quantile = lambda q: latencies[min(len(latencies) - 1, int(q * len(latencies)))] if latencies else None
    bursts = [s["burst"] for s in seen if s.get("burst")]
    return {"kind": kind, "n": n, "matched_s": max((s.get("matched_s") or 0) for s in seen), "samples": len(latencies),
            "expected": sum(s.get("sent", 0) for s in seen) * (n - 1), "p50_us": quantile(0.5), "p99_us": quantile(0.99),
            "burst_received_bps": min((b["bps"] for b in bursts), default=None), "largest_burst": min((b["whole"] for b in bursts), default=None)}
