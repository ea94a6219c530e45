"""Labs: scenario files for chains of hops, a running lab, LEOTP and TCP in its nodes, one-way delays from captures.

Everything that is started here runs inside the lab's own network namespaces and ends with it. Needs root, tcpdump,
iperf3, and target/release/constel and leotp."""
import json, math, os, signal, socket, struct, subprocess, tempfile, time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CONSTEL = os.environ.get("CONSTEL", os.path.join(ROOT, "target/release/constel"))
LEOTP = os.environ.get("LEOTP", os.path.join(ROOT, "target/release/leotp"))
LIGHT = 299_792_458.0


def chain_scenario(hops, seconds, delay_ms, mbps=20, loss=0.0, queue="128 KiB", name="study"):
    """Nodes chain-p00-s00 (sender) to chain-p00-sNN (receiver): neighbours in one plane, padded to `delay_ms` each."""
    slots, radius = 48, 6_378_137.0 + 550_000.0
    light_ms = 2 * radius * math.sin(math.pi / slots) / LIGHT * 1e3
    pairs = "\n".join(f"        - {{from: {node(i)}, to: {node(i + 1)}}}" for i in range(hops))
    return f"""constel: 1
name: {name}
description: {hops} hops of {delay_ms} ms each way
seed: 1
start: 2026-11-21T00:00:00Z
duration: {seconds} s
step: 1 s
constellations:
  chain:
    walker: {{pattern: delta, inclination: 53 deg, satellites: {slots}, planes: 1, phasing: 0, altitude: 550 km}}
    isl:
      pattern: list
      pairs:
{pairs}
      link: {{rate: {mbps} Mbit/s, queue: {queue}, loss: {100 * loss:.6f} %, extra_delay: {(delay_ms - light_ms) * 1e6:.0f} ns}}
    serves_ground: false
routing: {{mode: computed, destinations: all, families: [ipv4]}}
"""


def node(i):
    return f"chain-p00-s{i:02d}"


class Lab:
    """A lab that runs while the `with` block does."""

    def __init__(self, scenario, name):
        self.dir = tempfile.mkdtemp(prefix=f"{name}-")
        self.name, self.procs = name, []
        self.file = os.path.join(self.dir, "scenario.yaml")
        with open(self.file, "w") as f:
            f.write(scenario)

    def __enter__(self):
        log = open(os.path.join(self.dir, "constel.log"), "w")
        self.run = subprocess.Popen([CONSTEL, "run", self.file, "--name", self.name, "--results", os.path.join(self.dir, "results")],
                                    stdout=log, stderr=log, start_new_session=True)
        api = f"/run/constel/{self.name}/api.sock"
        end = time.monotonic() + 180
        while True:
            try:
                if self.ask({"verb": "state"}, api).get("state") == "running":
                    break
            except (OSError, ValueError):
                pass
            if self.run.poll() is not None or time.monotonic() > end:
                raise RuntimeError(open(os.path.join(self.dir, "constel.log")).read()[-2000:])
            time.sleep(0.1)
        threads = subprocess.run(["ps", "-T", "-o", "tid=,cls=", "-p", str(self.run.pid)], capture_output=True, text=True).stdout
        for tid, cls in (t.split() for t in threads.splitlines()):
            if cls == "FF" and os.cpu_count() > 1:
                os.sched_setaffinity(int(tid), {0})
        self.netns = json.load(open(f"/run/constel/{self.name}/netns.json"))
        return self

    def __exit__(self, *_):
        for p in reversed(self.procs):
            if p.poll() is None:
                p.send_signal(signal.SIGINT)
        for p in self.procs:
            try:
                p.wait(5)
            except subprocess.TimeoutExpired:
                p.kill()
        if self.run.poll() is None:
            self.run.send_signal(signal.SIGINT)
        self.run.wait(120)

    def verdict(self):
        """Whether the host kept up, after the lab has ended; reasons when not."""
        try:
            return json.load(open(os.path.join(self.dir, "results", "summary.json")))["verdict"]
        except (OSError, KeyError, ValueError) as e:
            return {"trustworthy": False, "reasons": [f"no summary: {e}"]}

    def ask(self, request, api=None):
        if not hasattr(self, "sock"):
            s = socket.socket(socket.AF_UNIX)
            s.connect(api)
            self.sock = s.makefile("rw")
        self.sock.write(json.dumps(request) + "\n")
        self.sock.flush()
        a = json.loads(self.sock.readline())
        if not a["ok"]:
            raise ValueError(a["error"])
        return a["data"]

    def set_link(self, a, b, **effects):
        self.ask({"verb": "set-link", "a": a, "b": b, "effects": effects, "reset": False})

    def address(self, n):
        out = self.sh(n, "ip -4 -o addr show dev lo scope global; ip -4 -o addr show scope global")
        return out.split("inet ")[1].split("/")[0]

    def argv(self, n, cmd):
        return ["nsenter", f"--net={self.netns[n]}"] + cmd

    def leotp(self, n, args, out):
        """A LEOTP process. Kernel TCP runs in softirqs, before any process; so that other work on this machine does not
        pass for the network, LEOTP's processes run at nice -20 (NICE=0: they do not), and not on CPU 0, where the relay
        spins in real time: who wakes up there waits until it rests."""
        rt = [] if os.environ.get("NICE") == "0" else ["taskset", "-c", f"1-{os.cpu_count() - 1}", "nice", "-n", "-20"]
        return self.start(n, rt + [LEOTP] + args, out)

    def sh(self, n, script):
        return subprocess.run(self.argv(n, ["sh", "-c", script]), capture_output=True, text=True).stdout

    def start(self, n, cmd, out=None):
        f = open(os.path.join(self.dir, out), "w") if out else subprocess.DEVNULL
        p = subprocess.Popen(self.argv(n, cmd), stdout=f, stderr=subprocess.DEVNULL)
        self.procs.append(p)
        return p

    def capture(self, n, what, pcap):
        """tcpdump on all interfaces of a node; headers only."""
        p = subprocess.Popen(self.argv(n, ["tcpdump", "-i", "any", "-s", "120", "-U", "-B", "8192", "-w", os.path.join(self.dir, pcap), what]),
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.procs.append(p)
        p.stderr.readline()
        return p


def packets(pcap):
    """(time s, direction: 4 is out, IP packet) of a capture made by `Lab.capture` (Linux cooked v2)."""
    with open(pcap, "rb") as f:
        head = f.read(24)
        e = "<" if head[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
        scale = 1e-9 if head[:4] in (b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d") else 1e-6
        kind = struct.unpack(e + "I", head[20:])[0]
        while len(h := f.read(16)) == 16:
            s, frac, n, _ = struct.unpack(e + "IIII", h)
            b = f.read(n)
            if len(b) < n:
                return
            if kind == 276 and b[:2] == b"\x08\x00":
                yield s + frac * scale, b[10], b[20:]
            elif kind == 113 and b[14:16] == b"\x08\x00":
                yield s + frac * scale, b[1], b[16:]


def data_of(ip, proto):
    """(first byte, length, datagram bytes) of a packet that carries data; None for others."""
    ihl = (ip[0] & 15) * 4
    total = struct.unpack(">H", ip[2:4])[0]
    if proto == "leotp" and ip[9] == 17:
        u = ip[ihl + 8:]
        if len(u) >= 48 and u[0] >> 4 == 1 and u[0] & 15 == 2:
            start, end = struct.unpack(">QQ", u[16:32])
            return start, end - start, total
    if proto == "tcp" and ip[9] == 6:
        t = ip[ihl:]
        n = total - ihl - (t[12] >> 4) * 4
        if n > 0:
            return struct.unpack(">I", t[4:8])[0], n, total
    return None


def delays(sender_pcap, receiver_pcap, proto, skip_s=0.0, port=None):
    """First departure and first arrival of each byte range: [(sent s, delay s, bytes, sent more than once)], the
    sender's data bytes and the bytes delivered, all counted from `skip_s` after the first departure."""
    sent, times, base = {}, {}, None
    sender_bytes = 0
    for t, d, ip in packets(sender_pcap):
        x = data_of(ip, proto)
        if d != 4 or not x or (port and not _port(ip, port)):
            continue
        base = base if base is not None else t
        if t - base >= skip_s:
            sender_bytes += x[1]
        key = x[0]
        if key in sent and proto == "tcp" and t - sent[key][0] > 1000:
            del sent[key]
        if key not in sent:
            sent[key] = (t, x[1])
        times[key] = times.get(key, 0) + 1
    got, out, dup = set(), [], 0
    for t, d, ip in packets(receiver_pcap):
        x = data_of(ip, proto)
        if d == 4 or not x or (port and not _port(ip, port)):
            continue
        if x[0] in got:
            continue
        got.add(x[0])
        s = sent.get(x[0])
        if s and s[0] - base >= skip_s:
            out.append((s[0] - base, t - s[0], x[1], times[x[0]] > 1, t - base))
    return out, sender_bytes, base


def _port(ip, port):
    ihl = (ip[0] & 15) * 4
    a, b = struct.unpack(">HH", ip[ihl:ihl + 4])
    return port in (a, b)


def quantiles(values, n=200):
    v = sorted(values)
    return [v[i * (len(v) - 1) // n] for i in range(n + 1)] if v else []


def measure(lab, flow, sender, receiver, mids, seconds, warm=5.0, during=None):
    """One flow from `sender` to `receiver`: ("tcp", "bbr") or ("leotp", "beyond", {parameters}, {of Midnodes}).
    `during(lab, t)` is called again and again while it runs. Returns what the captures at both ends say."""
    tag = flow[0] + "-" + flow[1]
    to = lab.address(sender if flow[0] == "leotp" else receiver)
    tcp = flow[0] == "tcp"
    what = "tcp port 5201" if tcp else "udp port 5047"
    pids = {}
    if not tcp:
        def sets(p):
            return [x for k, v in p.items() for x in ("--set", f"{k}={json.dumps(v)}")]
        params = flow[2] if len(flow) > 2 else {}
        mparams = {**params, **(flow[3] if len(flow) > 3 else {})}

        def trace(n):
            return ["--trace", os.path.join(lab.dir, f"trace-{tag}-{n}.jsonl")] if os.environ.get("TRACE") else []
        for m in mids:
            pids[m] = lab.leotp(m, ["mid", "--variant", flow[1], "--json"] + trace(m) + sets(mparams), f"mid-{m}.json")
        server = lab.leotp(sender, ["bench", "server", "--variant", flow[1], "--json"] + sets(params), f"server-{tag}.json")
        time.sleep(0.5)
    else:
        server = lab.start(receiver, ["iperf3", "-s", "-1"])
        time.sleep(0.3)
    a = lab.capture(sender, what, "sender.pcap")
    b = lab.capture(receiver, what, "receiver.pcap")
    t0 = time.monotonic()
    if tcp:
        client = lab.start(sender, ["iperf3", "-c", to, "-t", str(seconds), "-C", flow[1], "-J"], f"client-{tag}.json")
    else:
        client = lab.leotp(receiver, ["bench", "client", f"{to}:5047", "-t", str(seconds), "--variant", flow[1], "--json"] + trace(receiver) + sets(params),
                           f"client-{tag}.json")
    while time.monotonic() - t0 < seconds:
        if during:
            during(lab, time.monotonic() - t0)
        time.sleep(0.02)
    try:
        client.wait(8)
    except subprocess.TimeoutExpired:
        client.kill()
    for p in (a, b):
        p.send_signal(signal.SIGINT)
        p.wait()
    for p in [server, *pids.values()]:
        if p.poll() is None:
            p.send_signal(signal.SIGINT)
            try:
                p.wait(5)
            except subprocess.TimeoutExpired:
                p.kill()
    out, sender_bytes, _ = delays(os.path.join(lab.dir, "sender.pcap"), os.path.join(lab.dir, "receiver.pcap"), flow[0], warm)
    if not out:
        return {"flow": tag, "mbps": 0.0, "owd_mean_ms": 0.0, "owd_ms": [], "error": "no data arrived"}
    span = seconds - warm
    inside = [o for o in out if o[4] <= seconds]
    delivered = sum(o[2] for o in inside)
    series = {}
    for o in inside:
        series[int(o[4])] = series.get(int(o[4]), 0) + o[2]
    ms = [o[1] * 1e3 for o in out]
    again = [o[1] * 1e3 for o in out if o[3]]
    r = {"flow": tag, "mbps": delivered * 8e-6 / span, "owd_mean_ms": sum(ms) / len(ms), "owd_ms": quantiles(ms),
         "again": len(again), "again_ms": quantiles(again), "sent_per_delivered": sender_bytes / max(1, sum(o[2] for o in out)),
         "mbps_series": [series.get(i, 0) * 8e-6 for i in range(int(warm), seconds)]}
    cpu = {}
    for m in pids:
        try:
            j = json.load(open(os.path.join(lab.dir, f"mid-{m}.json")))
            cpu[m] = {"cpu_s": j["cpu_s"], "peak_rss_bytes": j["peak_rss_bytes"], **j["midnode"]}
        except (OSError, ValueError):
            pass
    if cpu:
        r["midnodes"] = cpu
    return r
