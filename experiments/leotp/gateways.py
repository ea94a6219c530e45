"""TCP gateways (`transport.leotp.gateways`) in a lab: an unmodified client (curl) and server over Iridium, Beijing to New York. Client and
server use TCP from end to end, TCP split at every satellite, and LEOTP between gateways at both stations. A second part has 1,000 connections at once while Midnodes
are killed.

Raw data: raw/lab-gateways.json, a row for each transport and repeat with its lab's verdict; raw/lab-gateways-many.json."""
import hashlib, http.server, json, os, random, signal, socket, subprocess, sys, threading, time
from lab import LEOTP, Lab, TRANSFER, commit

HERE = os.path.dirname(os.path.abspath(__file__))
PORT = 8080
SHORT, TIMES = (10_000, 100_000), 10
PAGES, LONG_S = 5, 12
PAGE = json.load(open(os.path.join(HERE, "page.json")))
KINDS = ["cubic", "bbr", "split-cubic", "split-bbr", "gateways"]


def scenario(gateways, lossy, seconds, name, seed=3):
    """Iridium; ground links of 1 % loss and lasers of 0.1 % as in the paper's evaluation (`lossy`), 20 Mbit/s all."""
    ground, laser = ("1 %", "0.1 %") if lossy else ("0 %", "0 %")
    over = "transport: {leotp: {satellites: 100 %, gateways: [beijing, new-york], variant: beyond, set: [cache_bytes=4194304]}}\n" if gateways else ""
    return f"""constel: 1
name: {name}
seed: {seed}
start: 2026-11-21T05:14:00Z
duration: {seconds} s
step: 1 s
constellations:
  iridium:
    preset: iridium
    isl: {{pattern: plus-grid, seam: false, polar_cutoff: 60 deg, max_range: 6000 km, link: {{rate: 20 Mbit/s, queue: 128 KiB, loss: {laser}}}}}
    gsl: {{min_elevation: 8.2 deg, policy: nearest, link: {{rate: 20 Mbit/s, queue: 128 KiB, loss: {ground}}}}}
ground:
  stations:
    beijing: {{latitude: 39.9 deg, longitude: 116.4 deg}}
    new-york: {{latitude: 40.7 deg, longitude: -74 deg}}
  hosts:
    server: {{latitude: 39.9 deg, longitude: 116.5 deg}}
    client: {{latitude: 40.7 deg, longitude: -74.1 deg}}
  cables:
    - {{from: server, to: beijing, delay: 100 us, link: {{rate: 1 Gbit/s}}}}
    - {{from: client, to: new-york, delay: 100 us, link: {{rate: 1 Gbit/s}}}}
routing: {{mode: computed, families: [ipv4]}}
{over}"""


def content(size):
    return random.Random(size).randbytes(size)


class Serve(http.server.BaseHTTPRequestHandler):
    """/SIZE is that number of bytes, the same each time; /0 bytes without end."""
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    known, lock = {}, threading.Lock()

    def do_GET(self):
        size = int(self.path.strip("/"))
        with self.lock:
            body = self.known.setdefault(size, content(size or 1 << 20))
        self.send_response(200)
        self.send_header("Content-Length", str(size or 1 << 40))
        self.end_headers()
        try:
            self.wfile.write(body)
            while not size:
                self.wfile.write(body)
        except OSError:
            self.close_connection = True

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 2048
    daemon_threads = True

    def handle_error(self, *_):
        pass


def fetch_many(at, connections, size):
    """In a node: a number of connections at once. Prints how many brought every byte, failed, or brought a wrong one."""
    import resource
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    threading.stack_size(256 << 10)
    expected, said = content(size), []

    def one():
        try:
            with socket.create_connection((at, PORT), timeout=100) as s:
                s.sendall(f"GET /{size} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
                got = b"".join(iter(lambda: s.recv(1 << 16), b""))
            body = got.partition(b"\r\n\r\n")[2]
            said.append("right" if body == expected else "short" if expected.startswith(body) else "wrong")
        except OSError as e:
            said.append(type(e).__name__)
    began = time.monotonic()
    all_ = [threading.Thread(target=one) for _ in range(connections)]
    [t.start() for t in all_], [t.join() for t in all_]
    print(json.dumps({"seconds": time.monotonic() - began, **{what: said.count(what) for what in sorted(set(said))}}))


def served(lab, congestion):
    """Starts the server, which sends with this congestion control."""
    lab.start("server", [sys.executable, os.path.abspath(__file__), "serve", congestion])
    while "LISTEN" not in lab.sh("server", f"ss -Hltn 'sport = :{PORT}'"):
        time.sleep(0.05)
    return lab.address("server")


def curl(lab, urls, seconds=60, more=()):
    """(wall time s, bytes, digest of the bytes) of one curl in the client."""
    cmd = ["curl", "-s", "--max-time", str(seconds), *more, *urls]
    began = time.monotonic()
    digest, count = hashlib.sha256(), 0
    p = subprocess.Popen(lab.argv("client", cmd), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    while part := p.stdout.read1(1 << 16):
        digest.update(part)
        count += len(part)
    p.wait()
    return time.monotonic() - began, count, digest.hexdigest()


def workloads(lab, at):
    """Times of short downloads and page loads, s, and the rate of a long download, Mbit/s."""
    row, url = {}, lambda size: f"http://{at}:{PORT}/{size}"
    for size in SHORT:
        right = hashlib.sha256(content(size)).hexdigest()
        runs = [curl(lab, [url(size)]) for _ in range(TIMES)]
        row[f"short_{size}_s"] = [r[0] for r in runs if r[2] == right]
        row[f"short_{size}_failed"] = sum(r[2] != right for r in runs)
    pages, failed = [], 0
    for _ in range(PAGES):
        first = curl(lab, [url(PAGE["document"])])
        rest = curl(lab, [url(x) for x in PAGE["objects"]], more=["-Z", "--parallel-immediate", "--parallel-max", "6"])
        whole = first[1] == PAGE["document"] and rest[1] == sum(PAGE["objects"])
        pages += [first[0] + rest[0]] if whole else []
        failed += not whole
    row.update(page_s=pages, page_failed=failed)
    _, count, _ = curl(lab, [url(0)], seconds=LONG_S)
    row["long_mbps"] = count * 8e-6 / LONG_S
    return row


def last_words(lab, begin):
    """The counters that helpers of a kind left in the results, by node."""
    folder, out = os.path.join(lab.dir, "results", "transport"), {}
    for f in sorted(os.listdir(folder)):
        lines = open(os.path.join(folder, f)).read().splitlines()
        if f.startswith(begin) and lines and lines[-1].startswith("{"):
            out[f[len(begin):-len(".log")]] = json.loads(lines[-1])
    return out


def one(kind, lossy, name, seed, work=workloads):
    """The result of `work(lab, address of the server)` over one of `KINDS`."""
    how = kind.removeprefix("split-") if kind != "gateways" else "cubic"
    with Lab(scenario(kind == "gateways", lossy, 300, name, seed), name) as lab:
        at = served(lab, how)
        if kind.startswith("split-"):
            for n in [n for n in lab.netns if n.startswith("iridium-")]:
                lab.start(n, [TRANSFER, "split", "--ports", str(PORT), "--congestion", how])
            time.sleep(2)
        row = {"kind": kind, "lossy": lossy, "seed": seed, **work(lab, at)}
    if kind == "gateways":
        row["gateways"] = last_words(lab, "leotp-gateway-")
    return {**row, "verdict": lab.verdict(), "when": time.strftime("%Y-%m-%d %H:%M")}


def many(connections, size, name):
    """Connections at once over gateways; after a second the Midnodes of every second satellite are killed."""
    with Lab(scenario(True, True, 300, name), name) as lab:
        at = served(lab, "cubic")
        p = subprocess.Popen(lab.argv("client", [sys.executable, os.path.abspath(__file__), "fetch", at, str(connections), str(size)]), stdout=subprocess.PIPE, text=True)
        time.sleep(1)
        killed = 0
        for pid in [int(d) for d in os.listdir("/proc") if d.isdigit()]:
            try:
                words = open(f"/proc/{pid}/cmdline").read().split("\0")
                net = os.stat(f"/proc/{pid}/ns/net").st_ino
            except OSError:
                continue
            ours = {os.stat(path).st_ino for n, path in lab.netns.items() if n.startswith("iridium-") and int(n[-2:]) % 2}
            if "mid" in words[1:2] and net in ours:
                os.kill(pid, signal.SIGKILL)
                killed += 1
        row = {"connections": connections, "size": size, "midnodes_killed": killed, **json.loads(p.communicate(timeout=150)[0])}
    return {**row, "gateways": last_words(lab, "leotp-gateway-"), "verdict": lab.verdict(), "when": time.strftime("%Y-%m-%d %H:%M")}


def write(path, head, rows):
    # That of the first run: rows of it may still be there.
    first = json.load(open(path)).get("commit") if os.path.exists(path) and len(rows) > 1 else None
    with open(path, "w") as f:
        json.dump({**head, "commit": first or commit(), "rows": rows}, f, indent=1)
        f.write("\n")


def gateways(raw, name, rounds=int(os.environ.get("ROUNDS", "3")), kinds=tuple(os.environ.get("ONLY", ",".join(KINDS)).split(","))):
    """All kinds in turn, again and again; rows are added to those of earlier runs. LOSSLESS=1: without losses; MANY=1: the connections alone."""
    path = os.path.join(raw, "lab-gateways.json")
    rows = json.load(open(path))["rows"] if os.path.exists(path) else []
    for kind in list(kinds) * rounds if os.environ.get("MANY") != "1" else []:
        # Each repeat has losses of its own.
        lossy = os.environ.get("LOSSLESS") != "1"
        seed = 3 + sum(r["kind"] == kind and r["lossy"] == lossy for r in rows)
        rows.append(one(kind, lossy, name, seed))
        print({k: v for k, v in rows[-1].items() if k != "gateways"}, flush=True)
        write(path, {"figure": "gateways", "page": PAGE["source"], "long_s": LONG_S}, rows)
    if os.environ.get("MANY") != "0":
        write(os.path.join(raw, "lab-gateways-many.json"), {"figure": "gateways-many"}, [many(1000, 20_000, name)])


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        server = Server(("", PORT), Serve)
        # For all that it accepts; a namespace's own default cannot be one that the host restricts.
        server.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, sys.argv[2].encode())
        server.serve_forever()
    fetch_many(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
