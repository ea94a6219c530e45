"""Cost of many links of one interface: netem's classes and filters beside Constel's drivers, in one guest (Figs 1 to 3 and 5 to 7)."""

import json
import os
import re
import statistics

import kept
from guest import ROOT, Guest, Host

BENCH = os.environ.get("BENCH", str(ROOT / "target/release/examples/ports_bench"))
COUNTS = [0, 1, 1000, 2000, 5000, 10_000, 20_000, 30_000, 40_000, 50_000, 65_000]
# The relay's thread shares the guest's only processor with the programs: a few counts show whether it depends on the number of links.
DRIVERS = {"edt": COUNTS[1:], "relay": [1, 10_000, 65_000]}
ROUNDS = int(os.environ.get("ROUNDS", "2"))
PINGS, SECONDS = 200, 3
# The filter that matches the address 10.0.0.3, as in the paper.
MATCHING = 30_000
# This kernel refuses the 2,048th priority of u32, and the 4,096th filter of one priority.
FILTERS_OF_A_PRIORITY = 32

WIRE = """set -e
ip netns add {0}near; ip netns add {0}far
ip link add eth0 netns {0}near type veth peer name eth1 netns {0}far
ip -n {0}near addr add 10.0.0.1/24 dev eth0
for n in 2 3; do ip -n {0}far addr add 10.0.0.$n/24 dev eth1; done
ip -n {0}near link set eth0 up; ip -n {0}far link set eth1 up
"""
# Namespaces of a bench that holds a port, with addresses as above. Neighbours are written down: a request would go over all edges.
HELD = """mkfifo /run/{driver}.in; sleep 1000000 > /run/{driver}.in & echo $! > /run/{driver}.pid
'{bench}' hold {driver} {edges} < /run/{driver}.in > /run/{driver}.row &
holder=$!
until [ -s /run/{driver}.row ]; do kill -0 $holder || exit 1; sleep 0.1; done
near=$(sed 's/.*"near":"\\([^"]*\\)".*/\\1/' /run/{driver}.row); far=$(sed 's/.*"far":"\\([^"]*\\)".*/\\1/' /run/{driver}.row)
mkdir -p /run/netns
for end in near far; do eval "file=\\$$end"; touch /run/netns/edt-{driver}-$end; mount --bind $file /run/netns/edt-{driver}-$end; done
ip -n edt-{driver}-near addr add 10.0.0.1/24 dev eth0; ip -n edt-{driver}-far addr add 10.0.0.2/24 dev eth1
mac() {{ ip -n $1 -o link show dev $2 | sed 's/.*link.ether \\([^ ]*\\).*/\\1/'; }}
ip -n edt-{driver}-near neigh replace 10.0.0.2 lladdr $(mac edt-{driver}-far eth1) dev eth0 nud permanent
ip -n edt-{driver}-far neigh replace 10.0.0.1 lladdr $(mac edt-{driver}-near eth0) dev eth1 nud permanent
cat /run/{driver}.row
"""
LET_GO = """umount /run/netns/edt-{driver}-near /run/netns/edt-{driver}-far; rm /run/netns/edt-{driver}-near /run/netns/edt-{driver}-far
kill $(cat /run/{driver}.pid); rm /run/{driver}.*; sleep 1
"""


def links(first, last, with_netem):
    """The commands of `tc` for links of the interface: a class, netem without delay, and a filter by destination, as in the paper.

    Packets that no filter matches never reach netem, so that a kernel without it shows the cost of classes and filters as well."""
    for n in range(first, last + 1):
        # Class 1:1 is that of packets that no filter matches.
        handle = n + 1
        to = "10.0.0.3" if n == MATCHING else f"10.{1 + n // 65_536}.{n // 256 % 256}.{n % 256}"
        yield f"class add dev eth0 parent 1: classid 1:{handle:x} htb rate 32gbit quantum 1514"
        if with_netem:
            yield f"qdisc add dev eth0 parent 1:{handle:x} handle {handle:x}: netem delay 0ms limit 1000000"
        yield f"filter add dev eth0 protocol ip parent 1: prio {1 + n // FILTERS_OF_A_PRIORITY} u32 match ip dst {to} classid 1:{handle:x}"


def batch(guest, commands):
    """(processor time, time) of commands of `tc`, in one process."""
    text = "\n".join(commands)
    return guest.ask(f"ip netns exec edt-near tc -batch - <<'END'\n{text}\nEND\n")[1:]


def pinged(guest, space, to):
    """Round trips over an interface, us."""
    out, used, _ = guest.ask(f"ip netns exec {space} ping -i 0.002 -c {PINGS} {to}\n")
    times = sorted(float(t) * 1e3 for t in re.findall(r"time=([\d.]+) ms", out))
    if len(times) < PINGS * 0.9:
        raise SystemExit(f"{len(times)} of {PINGS} pings came back: {out[-500:]}")
    return {"rtt_min_us": times[0], "rtt_p50_us": statistics.median(times), "rtt_max_us": times[-1], **({"ping_processor_us": used / PINGS * 1e6} if used else {})}


def carried(guest, near, far, to):
    """Throughput of a TCP connection, Mbit/s: by the clock, and by the processor time of the guest."""
    guest.ask(f"ip netns exec {far} iperf3 -s -D -1 -I /run/iperf3.pid; sleep 0.3\n")
    out, used, _ = guest.ask(f"ip netns exec {near} iperf3 -c {to} -t {SECONDS} -J\n")
    told = json.loads(out)["end"]
    bits = told["sum_received"]["bytes"] * 8
    return {"mbps": bits / told["sum_received"]["seconds"] / 1e6, **({"mbps_of_processor": bits / used / 1e6} if used else {}), "retransmits": told["sum_sent"]["retransmits"]}


def measured(guest, near, far, to, is_single):
    """One row. Single frames: the sender's kernel cuts TCP's data up before the classes, as drivers need it."""
    guest.ask(f"ip -n {near} link set eth0 gso_max_segs {1 if is_single else 65_535}\n")
    return {**pinged(guest, near, to), **carried(guest, near, far, to)}


def of_count(guest, count, rows):
    """Everything at one number of links, each beside the bare interface that was measured just before."""
    # (name, namespaces, destination, whether TCP leaves as single frames)
    filtered = "netem" if isinstance(guest, Guest) else "filters"
    ways = [(filtered, "edt-near", "edt-far", "10.0.0.2", single) for single in (False, True)]
    if count >= MATCHING:
        ways.append((f"{filtered}, matched", "edt-near", "edt-far", "10.0.0.3", False))
    drivers = [driver for driver, counts in DRIVERS.items() if count in counts] if isinstance(guest, Guest) else []
    for driver in drivers:
        told, used, _ = guest.ask(HELD.format(driver=driver, bench=BENCH, edges=count))
        rows.append({"what": "configure", "way": driver, "links": count, "ms": json.loads(told)["configure_ms"], "setup_processor_ms": used * 1e3})
        ways.append((driver, f"edt-{driver}-near", f"edt-{driver}-far", "10.0.0.2", True))
    for around in range(ROUNDS):
        for way, near, far, to, single in ways:
            for name, ends in (("bare", ("edt-bare-near", "edt-bare-far", "10.0.0.2")), (way, (near, far, to))):
                row = {"what": "path", "way": name, "beside": way, "links": count, "single_frames": single, "round": around, **measured(guest, *ends, single)}
                rows.append(row)
                print({key: round(value, 1) if isinstance(value, float) else value for key, value in row.items()}, flush=True)
    for driver in drivers:
        guest.ask(LET_GO.format(driver=driver))


def part(afresh, name="filters", place=Guest):
    rows = kept.rows_of(name, afresh)
    # Links are only added, so that an interrupted run begins again with a new interface, and keeps the counts that are complete.
    done = {row["links"] for row in rows if row["what"] == "complete"}
    rows = [row for row in rows if row["links"] in done]
    if done >= set(COUNTS):
        return
    if place is Guest and not os.access(BENCH, os.X_OK):
        raise SystemExit(f"{BENCH} is missing: `cargo build --release -p constel-drivers --example ports_bench` makes it")
    with place() as guest:
        guest.ask(WIRE.format("edt-bare-"))
        guest.ask(WIRE.format("edt-"))
        batch(guest, ["qdisc add dev eth0 root handle 1: htb default 1 r2q 1", "class add dev eth0 parent 1: classid 1:1 htb rate 32gbit quantum 1514"])
        there = 0
        for count in COUNTS:
            # A thousand links at a time: the time of one grows with those that are there.
            for first in range(there + 1, count + 1, 1000):
                last = min(first + 999, count)
                used, took = batch(guest, links(first, last, place is Guest))
                if count not in done and last % 1000 == 0:
                    rows.append({"what": "configure", "way": "netem", "links": last, "us_a_link": took / (last - first + 1) * 1e6,
                                 **({"processor_us_a_link": used / (last - first + 1) * 1e6} if used else {})})
            there = count
            if count in done:
                continue
            of_count(guest, count, rows)
            rows.append({"what": "complete", "links": count})
            kept.keep(name, rows, pings=PINGS, seconds=SECONDS, rounds=ROUNDS)


def native(afresh):
    """Classes and filters without netem on this machine's kernel, where pings and TCP do not pay for a guest."""
    part(afresh, "native", Host)
