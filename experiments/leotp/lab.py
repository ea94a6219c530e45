"""Labs: scenario files for chains of hops, a running lab, transfers in its nodes.

Everything that is started here runs inside the lab's own network namespaces and ends with it. Needs root, tcpdump,
and target/release/constel, constel-transfer and leotp."""
import json, math, os, signal, socket, struct, subprocess, tempfile, time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CONSTEL = os.environ.get("CONSTEL", os.path.join(ROOT, "target/release/constel"))
LEOTP = os.environ.get("LEOTP", os.path.join(ROOT, "target/release/leotp"))
TRANSFER = os.environ.get("TRANSFER", os.path.join(ROOT, "target/release/constel-transfer"))
LIGHT = 299_792_458.0
# CPU 0 is the relay's, which spins there in real time: whoever wakes up there waits until it rests, and when others have
# waited for too long the kernel takes the CPU from the relay for 50 ms, which every protocol sees as a queue.
OTHERS = set(range(1, os.cpu_count())) or {0}


def plane_scenario(name, description, seconds, satellites, pairs, link, more=""):
    """One plane of `satellites`, all at rest to each other, of which `pairs` are linked, each by `link`; and `more` keys."""
    listed = "\n".join(f"          - {{from: {a}, to: {b}}}" for a, b in pairs)
    return f"""constel: 1
name: {name}
description: {description}
seed: 1
start: 2026-11-21T00:00:00Z
duration: {seconds} s
step: 1 s
constellations:
  chain:
    walker: {{pattern: delta, inclination: 53 deg, satellites: {satellites}, planes: 1, phasing: 0, altitude: 550 km}}
    isl:
      pattern:
        list:
{listed}
      link: {{{link}}}
    serves_ground: false
{more}routing: {{mode: computed, destinations: all, families: [ipv4]}}
transport: {{congestion: [hybla, westwood, vegas]}}
"""


def chain_scenario(hops, seconds, delay_ms, mbps=20, loss=0.0, queue="128 KiB", name="study", slots=48):
    """Nodes chain-p00-s00 (sender) to chain-p00-sNN (receiver): neighbours in one plane of `slots`, padded to
    `delay_ms` each. It must be more than light takes from one to the next: 3.03 ms with 48 slots, 1.47 ms with 99."""
    radius = 6_378_137.0 + 550_000.0
    light_ms = 2 * radius * math.sin(math.pi / slots) / LIGHT * 1e3
    link = f"rate: {mbps} Mbit/s, queue: {queue}, loss: {100 * loss:.6f} %, extra_delay: {(delay_ms - light_ms) * 1e6:.0f} ns"
    return plane_scenario(name, f"{hops} hops of {delay_ms} ms each way", seconds, slots, [(node(i), node(i + 1)) for i in range(hops)], link)


def commit():
    """The commit that runs are of. Programs may be newer: `-dirty` where a crate is not as committed."""
    git = lambda *words: subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True).stdout.strip()
    return git("rev-parse", "--short", "HEAD") + ("-dirty" if git("status", "--porcelain", "crates") else "")


def rows_of(path):
    """The rows that earlier runs left in a file of raw data; none without one."""
    try:
        with open(path) as f:
            return json.load(f)["rows"]
    except (OSError, ValueError):
        return []


def node(i, digits=2):
    """A satellite of `plane_scenario`; with 100 and more of them names have three digits."""
    return f"chain-p00-s{i:0{digits}d}"


class Lab:
    """A lab that runs while the `with` block does. `apart`: nothing but the relay's thread runs on CPU 0 (above)."""

    def __init__(self, scenario, name, apart=True):
        for program in (CONSTEL, LEOTP, TRANSFER):
            if not os.path.exists(program):
                raise SystemExit(f"{program} is missing: `cargo build --release --bins` makes it")
        self.apart = apart and os.cpu_count() > 1
        self.cpus = OTHERS if apart else set(range(os.cpu_count()))
        os.sched_setaffinity(0, self.cpus)
        # Where the scheduler shares out time by session first, `nice` (below) orders only what is in this one.
        if os.environ.get("NICE") != "0" and os.path.exists("/proc/self/autogroup"):
            with open("/proc/self/autogroup", "w") as f:
                f.write("-20")
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
            if self.apart:
                os.sched_setaffinity(int(tid), {0} if cls == "FF" else OTHERS)
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

    def counters(self, a, b):
        """Counters of the edge from a to b."""
        return self.ask({"verb": "link", "a": a, "b": b})["edges"][0]["counters"]["counters"]

    def address(self, n):
        out = self.sh(n, "ip -4 -o addr show dev lo scope global; ip -4 -o addr show scope global")
        return out.split("inet ")[1].split("/")[0]

    def argv(self, n, cmd):
        return ["taskset", "-c", ",".join(map(str, self.cpus)), "nsenter", f"--net={self.netns[n]}"] + cmd

    def sh(self, n, script):
        return subprocess.run(self.argv(n, ["sh", "-c", script]), capture_output=True, text=True).stdout

    def start(self, n, cmd, out=None):
        """A program in a node. Kernel TCP runs in softirqs, before any process; so that other work on this machine does
        not pass for the network, programs run at nice -20 (NICE=0: they do not), those of all transports alike."""
        cmd = cmd if os.environ.get("NICE") == "0" else ["nice", "-n", "-20"] + cmd
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


# Version of LEOTP's packets, docs/reference/leotp-wire.md.
LEOTP_WIRE = 3


def data_of(ip, proto):
    """(first byte, length, bytes of LEOTP's or TCP's header before it) of a packet that carries data; None for others."""
    ihl = (ip[0] & 15) * 4
    total = struct.unpack(">H", ip[2:4])[0]
    if proto == "leotp" and ip[9] == 17:
        u = ip[ihl + 8:]
        if len(u) >= 14 and u[0] == LEOTP_WIRE << 4 | 2:
            wide, timed = u[1] & 0x80, u[1] & 0x40
            header = 10 + (8 if wide else 4) + (12 if timed else 0)
            start = struct.unpack(">Q", u[10:18])[0] if wide else struct.unpack(">I", u[10:14])[0]
            return start, total - ihl - 8 - header, header
    if proto == "tcp" and ip[9] == 6:
        t = ip[ihl:]
        header = (t[12] >> 4) * 4
        n = total - ihl - header
        if n > 0:
            return struct.unpack(">I", t[4:8])[0], n, header
    return None


def delays(sender_pcap, receiver_pcap, proto, skip_s):
    """First departure to first arrival of each byte range, s; of those that were lost and recovered; and the mean header of the sender's packets,
    byte; all of those that left `skip_s` after the first. Links keep the order: what first left before another and arrived after it was lost."""
    sent, base, headers = {}, None, []
    for t, d, ip in packets(sender_pcap):
        x = data_of(ip, proto)
        if d == 4 and x:
            base = base if base is not None else t
            sent.setdefault(x[0], t)
            if t - base >= skip_s:
                headers.append(x[2])
    got, out, recovered, newest = set(), [], [], 0.0
    for t, d, ip in packets(receiver_pcap):
        x = data_of(ip, proto)
        if d == 4 or not x or x[0] in got:
            continue
        got.add(x[0])
        if x[0] in sent:
            left = sent[x[0]]
            if left - base >= skip_s:
                out.append(t - left)
                if left < newest:
                    recovered.append(t - left)
            newest = max(newest, left)
    return out, recovered, sum(headers) / max(1, len(headers))


def quantiles(values, n=200):
    v = sorted(values)
    return [v[i * (len(v) - 1) // n] for i in range(n + 1)] if v else []


PORT = 5047
# A cache for a path of 20 Mbit/s; LEOTP's own of 64 MiB is for more.
SMALL = {"cache_bytes": 4 << 20}


def sets(params):
    """LEOTP's flags for these parameters."""
    return [x for k, v in params.items() for x in ("--set", f"{k}={json.dumps(v)}")]


def measure(lab, flow, sender, receiver, mids, seconds, warm=5.0, during=None):
    """One flow from `sender` to `receiver` by constel-transfer, which stamps each record of 1,400 bytes when it first
    leaves and takes its time when the receiver can read it, in order: `owd`. `packet_owd` is from captures at both ends: first departure
    to first arrival of a byte range, in any order. `flow`: ("tcp", "bbr"), ("vivace", ""), ("split", "cubic"):
    TCP, split at `mids`, or ("leotp", "beyond", {parameters}, {of Midnodes}) with Midnodes at `mids`. `during(lab, t)` is
    called again and again while it runs. The first `warm` seconds are not counted."""
    kind, how = flow[:2]
    tag = f"{kind}-{how}" if how else kind
    over = "tcp" if kind == "split" else kind
    params = flow[2] if len(flow) > 2 else {}
    more = ["--variant", how] + sets(params) if kind == "leotp" else []
    traced = lambda n: ["--trace", os.path.join(lab.dir, f"trace-{tag}-{n}.jsonl")] if os.environ.get("TRACE") else []
    helpers = {}
    for m in mids if kind in ("leotp", "split") else []:
        if kind == "leotp":
            cmd = [LEOTP, "mid", "--json", "--variant", how] + traced(m) + sets({**params, **(flow[3] if len(flow) > 3 else {})})
        else:
            cmd = [TRANSFER, "split", "--ports", str(PORT), "--congestion", how]
        helpers[m] = lab.start(m, cmd, f"mid-{m}.json")
    at = f"{lab.address(sender)}:{PORT}"
    serve = more if kind == "leotp" else ["--congestion", how] if over == "tcp" else []
    server = lab.start(sender, [TRANSFER, "serve", over, "--listen", at] + serve, f"server-{tag}.json")
    time.sleep(0.5)
    records = os.path.join(lab.dir, f"records-{tag}.csv")
    # Split TCP has other sequence numbers at its ends, Vivace none that these captures know.
    ends = [(n, os.path.join(lab.dir, f"{n}.pcap")) for n in (sender, receiver)] if kind in ("leotp", "tcp") else []
    captures = [lab.capture(n, f"port {PORT}", pcap) for n, pcap in ends]
    client = lab.start(receiver, [TRANSFER, "fetch", over, at, "--time", str(seconds), "--records", records] + more, f"client-{tag}.json")
    t0 = time.monotonic()
    while client.poll() is None and time.monotonic() - t0 < seconds + 20:
        if during:
            during(lab, time.monotonic() - t0)
        time.sleep(0.02)
    for p in [client, *captures, server, *helpers.values()]:
        if p.poll() is None:
            p.send_signal(signal.SIGINT)
            try:
                p.wait(5)
            except subprocess.TimeoutExpired:
                p.kill()
    r = {"flow": tag, "mbps": 0.0, "owd_mean_ms": 0.0, "owd_ms": []}
    try:
        got, sent = (last_json(os.path.join(lab.dir, f"{x}-{tag}.json")) for x in ("client", "server"))
    except (IndexError, ValueError) as e:
        return {**r, "error": f"no report: {e}"}
    rows = [l.split(",") for l in open(records).read().splitlines()[1:]]
    if not rows:
        return {**r, "error": "no data arrived"}
    ms = [int(x[3]) / 1e6 for x in rows if float(x[2]) >= warm]
    per_s = [sum(i["bytes"] for i in got["intervals"][k * 10:k * 10 + 10]) * 8e-6 for k in range(int(seconds))]
    inside = per_s[int(warm):int(seconds)]
    r.update(mbps=sum(inside) / len(inside), owd_mean_ms=sum(ms) / max(1, len(ms)), owd_ms=quantiles(ms), owd_p99_ms=quantiles(ms)[198] if ms else None, mbps_series=per_s,
             sent_per_delivered=sent["sent_bytes"] / max(1, got["bytes"]), damaged=got["damaged"])
    if kind == "leotp":
        r["wire"] = LEOTP_WIRE
    if ends:
        out, recovered, r["header_bytes"] = delays(ends[0][1], ends[1][1], kind, warm)
        r.update(packet_owd_mean_ms=sum(out) * 1e3 / max(1, len(out)), packet_owd_ms=quantiles([o * 1e3 for o in out]))
        if recovered:
            # Beyond what the median packet takes.
            r.update(recovered=len(recovered), recovered_owd_ms=quantiles([o * 1e3 for o in recovered]),
                     recovery_mean_ms=sum(recovered) * 1e3 / len(recovered) - r["packet_owd_ms"][100])
    cpu = {}
    for m in helpers if kind == "leotp" else []:
        try:
            j = last_json(os.path.join(lab.dir, f"mid-{m}.json"))
            cpu[m] = {"cpu_s": j["cpu_s"], "peak_rss_bytes": j["peak_rss_bytes"], **j["midnode"]}
        except (IndexError, ValueError):
            pass
    if cpu:
        r["midnodes"] = cpu
    return r


def last_json(path):
    return json.loads(open(path).read().splitlines()[-1])
