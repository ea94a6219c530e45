"""The part `formation` of `run`: daemons for networks without infrastructure on 25 craft that move, one of which dies on the way."""

import csv
import subprocess
import time

import swarm
from swarm import HERE, WORK, Bridge, Lab, points, say

WIDTH = 5
CRAFT = WIDTH * WIDTH
SECONDS = 90
# From then on, whoever is in the middle of the way from corner to corner is taken out.
DIES_S = 45
SPACING_KM = 10
# Neighbours in a line and a column, but none across: so far that columns that slide past each other are never apart.
RANGE_KM = 12
BRIDGE_SECONDS = 30


def craft(number):
    return f"craft-{number:02d}"


def formation():
    """babeld and batmand on 25 craft: how long until all have routes, until there is a way round one that dies, at what cost."""
    points("formation", [{"protocol": protocol, "with": kind} for protocol in ("babeld", "batmand") for kind in ("constel", "bridge")],
           lambda protocol, **kind: [{"constel": flown, "bridge": bridged}[kind["with"]](protocol)])


def places():
    """Five columns of five, 10 km apart; every other column slides along itself at 100 m/s."""
    rows = []
    for number in range(CRAFT):
        row, column = divmod(number, WIDTH)
        slide = "100 m/s" if column % 2 else "0 m/s"
        rows.append(f"    - {{along: {column * SPACING_KM} km, cross: {row * SPACING_KM} km, cross_speed: {slide}}}")
    return "\n".join(rows)


def pairs():
    """Pairs of craft: each probes one and is probed by one, half the formation on."""
    return [(number, (number + CRAFT // 2) % CRAFT) for number in range(CRAFT)]


def scenario(protocol):
    traffic = [f"  - {{name: routing-{n}, at: 0 s, for: {SECONDS - 1} s, run: {{node: {craft(n)}, command: [sh, /mnt/{protocol}]}}}}" for n in range(CRAFT)]
    ping = "  - {{name: {}, at: 0 s, for: {} s, ping: {{from: {}, to: {}, interval: {} ms, family: ipv4}}}}"
    traffic.append(ping.format("corners", SECONDS - 2, craft(0), craft(CRAFT - 1), 100))
    traffic += [ping.format(f"pair-{a}", SECONDS - 2, craft(a), craft(b), 500) for a, b in pairs()]
    return f"""spacecraft:
  craft:
    orbit: {{altitude: 560 km, inclination: 97.6 deg}}
    relative:
{places()}
networks:
  radio: {{members: [craft-*], law: {{range: {RANGE_KM} km}}, link: {{rate: 2 Mbit/s, queue: 64 KiB}}}}
routing: {{mode: none}}
mounts:
  - {{host: {HERE}/manet, at: /mnt}}
traffic:
""" + "\n".join(traffic) + "\n"


def flown(protocol):
    with Lab("swarm-formation", scenario(protocol), seconds=SECONDS, more=["--profile", "10"]) as lab:
        died = kill_on_the_way(lab)
        lab.finish()
    summary = lab.summary()
    corners = probes(lab.results, "corners")
    firsts = {a: next((t for t, ok in probes(lab.results, f"pair-{a}") if ok), None) for a, _ in pairs()}
    alive = [(a, b) for a, b in pairs() if died["craft"] not in (a, b)]
    found = [firsts[a] for a, _ in pairs() if firsts[a] is not None]
    later = [[ok for t, ok in probes(lab.results, f"pair-{a}") if t >= SECONDS - 12] for a, _ in alive]
    return {"n": CRAFT, "first_answer_s": next((t for t, ok in corners if ok), None), "pairs": CRAFT, "pairs_found": len(found),
            "all_found_s": max(found) if len(found) == CRAFT else None, **died, **outage(corners, died["died_s"]),
            "pairs_whole_at_the_end": sum(bool(oks) and all(oks) for oks in later), "pairs_left": len(alive),
            "loss_ratio": 1 - sum(ok for _, ok in corners) / max(1, len(corners)), "sent": len(corners), "verdict": summary["verdict"],
            **sent_bytes(lab.results / "interfaces", CRAFT, SECONDS),
            "answered_by_second": answered_by_second(corners, SECONDS)}


def answered_by_second(sent, seconds):
    """The share of answered probes in each second of sending."""
    of_second = [[ok for t, ok in sent if s <= t < s + 1] for s in range(seconds)]
    return [sum(oks) / len(oks) if oks else None for oks in of_second]


def kill_on_the_way(lab):
    """Takes the middle craft of the way from corner to corner out of the network for good; who, and when."""
    while clock(lab) < DIES_S * 1e9:
        time.sleep(0.1)
    way = walk(lab)
    # Without a way nobody is on it: the middle of the formation.
    victim = way[len(way) // 2] if len(way) > 2 else CRAFT // 2
    shown = lab.verb("network", "leave", lab.name, "radio", craft(victim))
    # Both clocks are read as near to each other as can be; a tenth of a second is a probe.
    off_ns = clock(lab) - time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    return {"craft": victim, "way": way, "died_s": (shown["at_mono_ns"] + off_ns) / 1e9}


def clock(lab):
    """Lab time, nanoseconds."""
    shown = lab.verb("show", lab.name)
    if shown is None:
        raise SystemExit(f"{lab.name} is over: see {lab.log}")
    return shown.get("t_ns") or 0


def walk(lab):
    """The way from corner to corner by the kernels' tables, as numbers of craft; empty where it does not lead there."""
    of_port, own = {}, {}
    for number in range(CRAFT):
        out = subprocess.run([swarm.CONSTEL, "exec", lab.name, craft(number), "--", "ip", "-4", "-o", "address"], capture_output=True, text=True).stdout
        for line in out.splitlines():
            words = line.split()
            if words[1] == "net0":
                of_port[words[3].split("/")[0]] = number
            elif words[1] == "lo" and not words[3].startswith("127."):
                own[number] = words[3].split("/")[0]
    way, goal = [0], CRAFT - 1
    while way[-1] != goal:
        out = subprocess.run([swarm.CONSTEL, "exec", lab.name, craft(way[-1]), "--", "ip", "-4", "route", "get", own[goal]], capture_output=True, text=True).stdout
        words = out.split()
        following = of_port.get(words[words.index("via") + 1]) if "via" in words else goal if "net0" in words else None
        if following is None or following in way:
            return []
        way.append(following)
    return way


def probes(results, flow):
    """When each was sent, and whether it was answered; rows come when a probe's fate is known, which of a lost one is later."""
    rows = csv.DictReader(open(results / f"flows/{flow}.out"))
    return sorted((float(r["sent_s"]), r["fate"] in ("ok", "reordered")) for r in rows if r["sent_s"])


def outage(sent, since_s):
    """From the first loss after the death to the first answer after it; no more than three probes later."""
    lost = [t for t, ok in sent if t >= since_s - 0.1 and not ok]
    if not lost:
        return {"outage_s": 0.0, "lost_after": 0}
    back = next((t for t, ok in sent if ok and t > lost[0]), None)
    return {"outage_s": back and back - lost[0], "lost_after": sum(back is None or t < back for t in lost)}


def sent_bytes(folder, nodes, seconds):
    """Frames that left all nodes, by second, from the profile."""
    index = list(csv.DictReader(open(folder / "index.csv")))
    tx = memoryview((folder / "tx_bytes.u64").read_bytes()).cast("Q")
    times = memoryview((folder / "t_ns.i64").read_bytes()).cast("q")
    ports = [int(row["place"]) for row in index if row["port"] == "net0"]
    at = lambda look: sum(tx[look * len(index) + place] for place in ports)
    looks = [next((k for k, t in enumerate(times) if t >= s * 1e9), len(times) - 1) for s in range(seconds + 1)]
    by_second = [at(b) - at(a) for a, b in zip(looks, looks[1:])]
    return {"bytes": at(len(times) - 1), "bytes_per_node_s": at(len(times) - 1) / nodes / seconds, "bytes_by_second": by_second}


def bridged(protocol):
    """Runs the daemons on a bridge, where all nodes hear each other and nothing is to be repaired."""
    WORK.mkdir(parents=True, exist_ok=True)
    with Bridge(CRAFT) as bridge:
        own = [f"10.0.0.{n + 1}" for n in range(CRAFT)]
        for n in range(CRAFT):
            subprocess.run(["ip", "-n", bridge.name(n), "address", "add", f"{own[n]}/32", "dev", "lo"], check=True)
        counted = lambda: [int(open(f"/sys/class/net/{bridge.mark}v{n}/statistics/rx_bytes").read()) for n in range(CRAFT)]
        begun, before = time.monotonic(), counted()
        daemons, asking = [], []
        try:
            for n in range(CRAFT):
                # Files of their own, as nodes have them.
                quarters = ["unshare", "-m", "sh", "-c", f"mount -t tmpfs none /tmp && mount -t tmpfs none /run && mkdir -p /run/lock && exec sh {HERE}/manet/{protocol}"]
                daemons.append(subprocess.Popen(["ip", "netns", "exec", bridge.name(n), *quarters], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            for a, b in pairs():
                # One at a time: without a route ping gives up at once.
                words = ["timeout", str(BRIDGE_SECONDS), "sh", "-c", f"while :; do ping -n -D -c 1 -W 1 {own[b]}; sleep 0.5; done"]
                asking.append(subprocess.Popen(["ip", "netns", "exec", bridge.name(a), *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True))
            wall = time.time() - (time.monotonic() - begun)
            firsts = []
            for one in asking:
                lines = [line for line in one.communicate()[0].splitlines() if "bytes from" in line]
                firsts += [float(lines[0].split("]")[0].lstrip("[")) - wall] if lines else []
            sent, took_s = sum(counted()) - sum(before), time.monotonic() - begun
        finally:
            for one in (*daemons, *asking):
                one.kill()
                one.wait()
    say(f"{protocol}: {len(firsts)} of {CRAFT} pairs on a bridge")
    return {"n": CRAFT, "pairs": CRAFT, "pairs_found": len(firsts), "first_answer_s": min(firsts, default=None),
            "all_found_s": max(firsts) if len(firsts) == CRAFT else None, "bytes": sent, "bytes_per_node_s": sent / CRAFT / took_s}
