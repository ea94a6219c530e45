#!/usr/bin/env python3
"""Speed of LEOTP next to QUIC (quinn) and kernel TCP, in one run: Gbit/s, processor time per Gbit of each party, memory.

    benches/leotp/run        builds what it needs, then this (root: network namespaces of our own)

Loopback: sender and receiver in one namespace. Path: three namespaces, sender - router - receiver, veth pairs of
unlimited rate. Lab: three nodes of a Constel lab, two links of 100 Gbit/s and 1.5 ms. With LEOTP the one in the
middle is a Midnode. Each for SECONDS (default 5). `--only lab`, `loopback`, `path`, `memory` or `thousand` replaces that
part of speed.json."""
import argparse, json, os, re, signal, subprocess, sys, time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "experiments", "leotp"))
from lab import Lab, chain_scenario, node

LEOTP = os.environ.get("LEOTP", f"{ROOT}/target/release/leotp")
QUIC = os.environ.get("QUIC", f"{ROOT}/benches/leotp/quic/target/release/quic-bench")
STATIC = os.environ.get("STATIC", f"{ROOT}/target/x86_64-unknown-linux-musl/release/leotp")
SECONDS = int(os.environ.get("SECONDS", "5"))
HZ = os.sysconf("SC_CLK_TCK")


class Namespaces:
    """Network namespaces that live as long as their processes, which die with this one."""

    def __init__(self, names):
        self.p = {n: subprocess.Popen(["unshare", "-n", "sleep", "600"]) for n in names}
        time.sleep(0.3)
        for n in names:
            self.sh(n, "ip link set lo up")

    def argv(self, n, cmd):
        return ["nsenter", f"--net=/proc/{self.p[n].pid}/ns/net"] + cmd

    def sh(self, n, script):
        r = subprocess.run(self.argv(n, ["sh", "-ec", script]), capture_output=True, text=True)
        if r.returncode:
            raise RuntimeError(f"{n}: {script}: {r.stderr}")
        return r.stdout

    def veth(self, a, an, aa, b, bn, ba):
        self.sh(a, f"ip link add {an} type veth peer name {bn} netns {self.p[b].pid}; ip addr add {aa} dev {an}; ip link set {an} up")
        self.sh(b, f"ip addr add {ba} dev {bn}; ip link set {bn} up")

    def close(self):
        for p in self.p.values():
            p.kill()
            p.wait()


def stat(pid):
    """Processor seconds and resident bytes of a process."""
    f = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    rss = re.search(r"VmHWM:\s+(\d+)", open(f"/proc/{pid}/status").read())
    return (int(f[11]) + int(f[12])) / HZ, int(rss[1]) * 1024 if rss else 0


def machine_cpu():
    v = list(map(int, open("/proc/stat").readline().split()[1:9]))
    return (sum(v) - v[3] - v[4]) / HZ


def run(ns, sender, receiver, to, back, what, mid=None, params=()):
    """One transfer of SECONDS; every party's processor time measured from outside, the same way for all."""
    started, sets = [], [x for p in params for x in ("--set", p)]

    def start(n, cmd):
        p = subprocess.Popen(ns.argv(n, cmd), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        started.append(p)
        return p

    parties = {}
    if what.startswith("leotp"):
        variant = what.split()[1]
        if mid:
            parties["midnode"] = start(mid, [LEOTP, "mid", "--variant", variant] + sets)
        parties["sender"] = start(sender, [LEOTP, "bench", "server", "--variant", variant] + sets)
        time.sleep(0.5)
        client = parties["receiver"] = start(receiver, [LEOTP, "bench", "client", f"{back}:5047", "-t", str(SECONDS), "--variant", variant, "--json"] + sets)
    elif what == "quinn":
        parties["sender"] = start(sender, [QUIC, "server", f"{back}:4433"])
        time.sleep(0.5)
        client = parties["receiver"] = start(receiver, [QUIC, "client", f"{back}:4433", str(SECONDS)])
    else:
        parties["receiver"] = start(receiver, ["iperf3", "-s", "-1"])
        time.sleep(0.5)
        client = parties["sender"] = start(sender, ["iperf3", "-c", to, "-t", str(SECONDS), "-C", what.split()[1], "-J"])
    before, t0 = {k: stat(p.pid)[0] for k, p in parties.items()}, machine_cpu()
    time.sleep(SECONDS - 0.3)
    after, t1 = {k: stat(p.pid) for k, p in parties.items()}, machine_cpu()
    out = client.communicate(timeout=20)[0]
    for p in started:
        if p.poll() is None:
            p.send_signal(signal.SIGINT)
            try:
                p.wait(5)
            except subprocess.TimeoutExpired:
                p.kill()
    j = json.loads(out)
    gbps = (j["end"]["sum_received"]["bits_per_second"] if "end" in j else j["rate_bps"]) / 1e9
    gbit = max(gbps * (SECONDS - 0.3), 1e-9)
    row = {"what": what, "gbps": round(gbps, 3), "machine_cpu_s_per_gbit": round((t1 - t0) / gbit, 4)}
    for k, (cpu, rss) in after.items():
        row[f"{k}_cpu_s_per_gbit"] = round((cpu - before[k]) / gbit, 4)
        row[f"{k}_peak_rss_mib"] = round(rss / 2**20, 2)
    return row


def thousand(ns):
    """A Midnode under 1,000 flows at once: one Producer, ten receiving processes' worth of flows each in turn."""
    small = ["cache_bytes=33554432"]
    mid = subprocess.Popen(ns.argv("router", [LEOTP, "mid", "--json"] + [x for p in small for x in ("--set", p)]), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    server = subprocess.Popen(ns.argv("sender", [LEOTP, "bench", "server"]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(0.5)
    rate = ["--set", "max_rate_bps=400000"]
    clients = [subprocess.Popen(ns.argv("receiver", [LEOTP, "bench", "client", "10.9.1.1:5047", "-t", "20", "--json"] + rate), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) for _ in range(1000)]
    time.sleep(8)
    c0, _ = stat(mid.pid)
    time.sleep(5)
    c1, rss = stat(mid.pid)
    rates = []
    for c in clients:
        try:
            rates.append(json.loads(c.communicate(timeout=60)[0])["rate_bps"] / 1e6)
        except (ValueError, KeyError, subprocess.TimeoutExpired):
            c.kill()
            rates.append(0.0)
    for p in (mid, server):
        p.send_signal(signal.SIGINT)
    j = json.loads(mid.communicate(timeout=10)[0])
    server.wait(10)
    rates.sort()
    return {"flows": j["flows"], "answered": sum(r > 0 for r in rates), "mbps_total": round(sum(rates), 1), "mbps_p1": round(rates[10], 3), "mbps_p50": round(rates[500], 3),
            "midnode_cpu_share": round((c1 - c0) / 5, 3), "midnode_peak_rss_mib": round(rss / 2**20, 1)}


def memory(ns, binary):
    """Resident memory of a Midnode without flows and after 5 s of 20 Mbit/s, with a cache of 1 MiB."""
    mid = subprocess.Popen(ns.argv("router", [binary, "mid", "--set", "cache_bytes=1048576"]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    server = subprocess.Popen(ns.argv("sender", [LEOTP, "bench", "server"]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(0.7)
    idle = stat(mid.pid)[1]
    got = subprocess.run(ns.argv("receiver", [LEOTP, "bench", "client", "10.9.1.1:5047", "-t", "5", "--json", "--set", "max_rate_bps=20000000"]), capture_output=True, text=True)
    busy = stat(mid.pid)[1]
    for p in (mid, server):
        p.send_signal(signal.SIGINT)
        p.wait(10)
    return {"mbps": round(json.loads(got.stdout)["rate_bps"] / 1e6, 2), "idle_mib": round(idle / 2**20, 2), "busy_mib": round(busy / 2**20, 2)}


def measured(part, ns, flows, sender, receiver, to, back, router=None):
    """One row for each flow; LEOTP has a Midnode on the router, if there is one."""
    rows = []
    for w in flows:
        rows.append(run(ns, sender, receiver, to, back, w, router if w.startswith("leotp") else None))
        print(part, rows[-1], flush=True)
    return rows


def in_lab(flows):
    """Measures the same through a lab: sender, router and receiver are its nodes, its relay moves the frames. All
    programs share the relay's processor, as in the other two. Rows, and the lab's verdict."""
    with Lab(chain_scenario(2, 600, 1.5, 100_000, queue="16 MiB", slots=99), "leotp-bench", apart=False) as l:
        sender, router, receiver = map(node, range(3))
        rows = measured("lab", l, flows, sender, receiver, l.address(receiver), l.address(sender), router)
    verdict = l.verdict()
    print("  verdict", verdict, flush=True)
    return rows, verdict


def main():
    parts = ["loopback", "path", "lab", "memory", "thousand"]
    options = argparse.ArgumentParser(description="Speed of LEOTP next to QUIC and kernel TCP")
    options.add_argument("--only", choices=parts, action="append", help="this part, the others stay as speed.json has them; may be repeated")
    wanted = options.parse_args().only or parts
    file = os.environ.get("OUT", os.path.join(os.path.dirname(os.path.abspath(__file__)), "speed.json"))
    out = {"seconds": SECONDS}
    if wanted != parts:
        with open(file) as f:
            out = {**json.load(f), **out}
    flows = ["leotp faithful", "leotp beyond", "tcp cubic", "tcp bbr"] + (["quinn"] if os.path.exists(QUIC) else [])
    ns = Namespaces(["sender", "router", "receiver"])
    try:
        ns.veth("sender", "v0", "10.9.1.1/24", "router", "v1", "10.9.1.2/24")
        ns.veth("router", "v2", "10.9.2.2/24", "receiver", "v3", "10.9.2.1/24")
        ns.sh("router", "sysctl -qw net.ipv4.ip_forward=1")
        ns.sh("sender", "ip route add 10.9.2.0/24 via 10.9.1.2")
        ns.sh("receiver", "ip route add 10.9.1.0/24 via 10.9.2.2")
        if "loopback" in wanted:
            out["loopback"] = measured("loopback", ns, flows, "sender", "sender", "127.0.0.1", "127.0.0.1")
        if "path" in wanted:
            out["path"] = measured("path", ns, flows, "sender", "receiver", "10.9.2.1", "10.9.1.1", "router")
        if "memory" in wanted:
            out["memory"] = {name: memory(ns, b) for name, b in (("glibc", LEOTP), ("musl, static", STATIC)) if os.path.exists(b)}
            print("memory of a Midnode", out["memory"], flush=True)
        if "thousand" in wanted:
            out["thousand"] = thousand(ns)
            print("1,000 flows", out["thousand"], flush=True)
    finally:
        ns.close()
    if "lab" in wanted:
        out["lab"], out["lab_verdict"] = in_lab(flows)
    with open(file, "w") as f:
        json.dump(out, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
