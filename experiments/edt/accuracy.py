"""Figs 8 and 9: 20 ms for a minute of pings, and TCP over 100 Mbit/s and 5 ms, by each driver and by netem as the paper has it, in guests of virtual time.

Processors take no time there, so that only the emulators' own errors remain. TCP runs for a minute, not ten: it is steady after a second.
"""

import json
import os
import re
import subprocess
import tempfile
from pathlib import Path

import kept
from guest import ROOT

HERE = Path(__file__).resolve().parent
CONSTEL = os.environ.get("CONSTEL", str(ROOT / "target/release/constel"))
WAYS = ["bare", "netem", "edt", "relay"]
TCP_S = 60
# By hand, as the paper describes it: a class of HTB, netem below it, and a filter by destination, on both ends.
BY_HAND = """set -e
ip netns add a; ip netns add b
ip link add eth0 netns a type veth peer name eth1 netns b
ip -n a addr add 10.0.0.1/24 dev eth0; ip -n b addr add 10.0.0.2/24 dev eth1
ip -n a link set eth0 up; ip -n b link set eth1 up
emulate() {{
  for end in 'a eth0 10.0.0.2' 'b eth1 10.0.0.1'; do
    set -- $end $1 $2
    ip netns exec $1 tc qdisc replace dev $2 root handle 1: htb default 1 r2q 1
    ip netns exec $1 tc class add dev $2 parent 1: classid 1:1 htb rate 32gbit quantum 1514
    ip netns exec $1 tc class add dev $2 parent 1: classid 1:2 htb rate $5 quantum 1514
    ip netns exec $1 tc qdisc add dev $2 parent 1:2 handle 2: netem delay $4 limit 1000000
    ip netns exec $1 tc filter add dev $2 protocol ip parent 1: prio 2 u32 match ip dst $3 classid 1:2
    shift 3
  done
}}
{before}
ip netns exec a ping -c 60 -i 1 10.0.0.2
{between}
ip netns exec b iperf3 -s -D -1 -I /run/iperf3.pid; sleep 0.5
ip netns exec a iperf3 -c 10.0.0.2 -t {seconds} -J > /run/json || {{ cat /run/json; exit 1; }}
echo '=== json'; cat /run/json
"""


def by_hand(way):
    """Without an emulator TCP has no limit: in virtual time it would send for ever."""
    before, between = ("emulate 10ms 32gbit", "for end in 'a eth0' 'b eth1'; do set -- $end; ip netns exec $1 tc qdisc del dev $2 root; done\nemulate 5ms 100mbit") if way == "netem" else ("", "exit 0")
    with tempfile.NamedTemporaryFile("w", suffix=".job") as job:
        job.write(BY_HAND.format(before=before, between=between, seconds=TCP_S))
        job.flush()
        done = subprocess.run([ROOT / "tools/virtual/boot", job.name, "1024"], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{way}: {done.stdout[-1000:]}{done.stderr[-1000:]}")
    pings, _, document = done.stdout.partition("=== json")
    times = [float(t) for t in re.findall(r"time=([\d.]+) ms", pings)]
    told = json.loads(document) if document else None
    mbps = [interval["sum"]["bits_per_second"] / 1e6 for interval in told["intervals"]] if told else []
    # Seconds are those of the sender's socket: the first ones fill its buffer.
    return {"rtt_ms": times, "mbps": mbps, **({"received_mbps": told["end"]["sum_received"]["bits_per_second"] / 1e6} if told else {})}


def by_driver(driver):
    with tempfile.TemporaryDirectory(prefix="edt-") as folder:
        results = Path(folder) / "results"
        command = [CONSTEL, "run", HERE / "edges.yaml", "--time", "virtual", "--set", f"links.driver={driver}", "--results", results]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode not in (0, 3):
            raise SystemExit(f"{driver}: {done.stderr[-1000:]}")
        summary = json.loads((results / "summary.json").read_text())
        return {"flows": {flow["name"]: flow for flow in summary["flows"]}, "verdict": summary["verdict"]}


def part(afresh):
    rows = kept.rows_of("accuracy", afresh)
    for way in WAYS:
        if any(row["way"] == way for row in rows):
            continue
        row = by_hand(way) if way in ("bare", "netem") else by_driver(way)
        rows.append({"way": way, **row})
        print(way, {key: value for key, value in row.items() if key != "mbps"}, flush=True)
        kept.keep("accuracy", rows, tcp_s=TCP_S)
