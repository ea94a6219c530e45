"""Labs, plain bridges and the mesh program; shared by the parts of `run`. Needs root, a C compiler and a built `constel`."""

import itertools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CONSTEL = os.environ.get("CONSTEL", str(ROOT / "target/release/constel"))
# Not below /tmp, /run and /dev/shm, which programs in nodes have of their own.
WORK = pathlib.Path(os.environ.get("WORK", f"/var/tmp/constel-swarm-{os.getpid()}"))
RAW = HERE / "raw"
HEAD = "constel: 1\nname: {name}\nseed: {seed}\nstart: 2026-11-21T00:00:00Z\nduration: {seconds} s\nstep: 1 s\n"


def say(text):
    print(text, file=sys.stderr, flush=True)


def keep(name, document):
    """raw/NAME.json, from which report.py writes the page; a line for each row and each long list."""
    RAW.mkdir(exist_ok=True)
    document = {**ABOUT, **document}
    one = lambda value: "[\n  " + ",\n  ".join(json.dumps(row) for row in value) + "\n ]" if isinstance(value, list) and value and isinstance(value[0], dict) else json.dumps(value)
    text = ",\n".join(f" {json.dumps(key)}: {one(value)}" for key, value in document.items())
    part = RAW / f"{name}.part"
    part.write_text("{\n" + text + "\n}\n")
    part.rename(RAW / f"{name}.json")
    say(f"kept raw/{name}.json")


def points(name, keys, measure, **more):
    """Measures each of `keys`, dicts of what its rows have in common, that raw/NAME.json does not have yet, and keeps all after each.

    A part that was interrupted, or that is to have more points, therefore goes on where it was. `measure(**key)` gives rows.
    """
    file = RAW / f"{name}.json"
    rows = json.loads(file.read_text())["rows"] if file.exists() else []
    has = lambda key: any(all(row.get(k) == v for k, v in key.items()) for row in rows)
    for key in keys:
        if has(key):
            say(f"{name}, {key}: is there")
            continue
        load = os.getloadavg()[0]
        now = [{**key, **row, "load_before": load, "load_after": os.getloadavg()[0]} for row in measure(**key)]
        rows += now
        keep(name, {**more, "rows": rows})
        say(f"{name}, {key}: {len(now)} rows")


ABOUT = {"date": time.strftime("%Y-%m-%d", time.gmtime()), "kernel": os.uname().release, "cores": os.cpu_count(), "load": os.getloadavg()[0]}
RUNS = itertools.count(1)


def build_mesh():
    WORK.mkdir(parents=True, exist_ok=True)
    program = WORK / "mesh"
    subprocess.run(["cc", "-O2", "-o", program, HERE / "mesh.c"], check=True)
    return program


class Lab:
    """A `constel run` in the background; ends with the `with` block."""

    def __init__(self, name, body, seconds=3600, seed=1, more=()):
        WORK.mkdir(parents=True, exist_ok=True)
        self.name, self.results = f"{name}-{os.getpid()}", WORK / f"{name}-results"
        self.file = WORK / f"{name}.yaml"
        self.file.write_text(HEAD.format(name=name, seconds=seconds, seed=seed) + body)
        shutil.rmtree(self.results, ignore_errors=True)
        self.log = WORK / f"{name}.log"
        self.more, self.began, self.cpu_s = list(more), time.monotonic(), None

    def __enter__(self):
        command = [CONSTEL, "run", str(self.file), "--name", self.name, "--results", str(self.results), *self.more]
        self.process = subprocess.Popen(command, stdout=open(self.log, "w"), stderr=subprocess.STDOUT)
        while self.process.poll() is None and self.row().get("state") != "running":
            time.sleep(0.05)
        self.up_s = time.monotonic() - self.began
        if self.process.poll() is not None:
            sys.exit(f"{self.name} did not come up: see {self.log}")
        return self

    def __exit__(self, *error):
        if self.process.poll() is None:
            self.process.send_signal(2)
        self.process.wait(300)

    def finish(self):
        """Waits until the scenario is over."""
        self.process.wait()

    def row(self):
        rows = [row for row in self.verb("list") or [] if row["lab"] == self.name]
        return rows[0] if rows else {}

    def verb(self, *words):
        done = subprocess.run([CONSTEL, *words, "--json"], capture_output=True, text=True)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def start(self, node, command):
        return subprocess.Popen([CONSTEL, "exec", self.name, node, "--", *command], stdout=subprocess.PIPE, text=True)

    def counters(self):
        """The relay's, and memory of its process."""
        shown = self.verb("show", self.name) or {}
        return shown.get("relay") or {}

    def memory_bytes(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS"))

    def summary(self):
        """After the end."""
        return json.loads((self.results / "summary.json").read_text())


class Bridge:
    """The paper's network: namespaces on a bridge of the host's, and nothing else."""

    def __init__(self, count):
        # Another mark each time: the kernel takes a namespace's interfaces away some time after the namespace.
        self.count, self.mark = count, f"sb{os.getpid() % 100000}x{next(RUNS)}"
        self.addresses = [f"10.77.{i // 250}.{i % 250 + 1}" for i in range(count)]

    def name(self, number):
        return f"{self.mark}-{number}"

    def __enter__(self):
        try:
            self.make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def make(self):
        lines = [f"link add {self.mark} type bridge", f"link set {self.mark} up"]
        for i in range(self.count):
            subprocess.run(["ip", "netns", "add", self.name(i)], check=True)
            lines += [f"link add {self.mark}v{i} type veth peer name net0 netns {self.name(i)}",
                      f"link set {self.mark}v{i} master {self.mark} up"]
        subprocess.run(["ip", "-batch", "-"], input="\n".join(lines), text=True, check=True)
        for i in range(self.count):
            own = f"link set lo up\nlink set net0 up\naddress add {self.addresses[i]}/16 brd + dev net0\nroute add 239.0.0.0/8 dev net0"
            subprocess.run(["ip", "-n", self.name(i), "-batch", "-"], input=own, text=True, check=True)

    def __exit__(self, *error):
        for i in range(self.count):
            if os.path.exists(f"/run/netns/{self.name(i)}"):
                subprocess.run(["ip", "netns", "delete", self.name(i)])
        if os.path.exists(f"/sys/class/net/{self.mark}"):
            subprocess.run(["ip", "link", "delete", self.mark])

    def start(self, number, command):
        return subprocess.Popen(["ip", "netns", "exec", self.name(number), *command], stdout=subprocess.PIPE, text=True)


def mesh(start, addresses, program, mode, seconds, rate_bps, size, silent=()):
    """Runs the mesh program everywhere at once. `start(number, command)` starts it in a node; who is `silent` only listens."""
    count = len(addresses)
    # The number behind the hyphen tells this run's datagrams from those that are late from the one before.
    folder = WORK / f"shared-{next(RUNS)}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "peers").write_text("\n".join(addresses) + "\n")
    words = lambda i: [str(seconds), str(0 if i in silent else rate_bps), str(size)]
    all_of = [start(i, [str(program), mode, str(i), str(count), str(folder), *words(i)]) for i in range(count)]
    deadline = time.monotonic() + 60
    while len(list(folder.glob("ready-*"))) < count:
        if time.monotonic() > deadline or any(p.poll() not in (None, 0) for p in all_of):
            [p.kill() for p in all_of]
            sys.exit(f"{mode}, n = {count}: not all became ready")
        time.sleep(0.02)
    go = folder / "go.part"
    at = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + 500_000_000
    go.write_text(f"{at}\n")
    before = busy()
    go.rename(folder / "go")
    rows = []
    for number, process in enumerate(all_of):
        out, _ = process.communicate(timeout=seconds + 120)
        rows += [(number, *line.split(",")) for line in out.splitlines()]
    after = busy()
    shutil.rmtree(folder)
    sent = {(r[0], int(r[2])): tuple(map(int, r[3:7])) for r in rows if r[1] == "sent"}
    got = {(int(r[2]), r[0]): (int(r[3]), int(r[4])) for r in rows if r[1] == "got"}
    hosts = [r for r in rows if r[1] == "host"]
    firsts, fulls = ([s[which] for s in sent.values()] for which in (2, 3))
    return {
        "n": count, "connections": count * (count - 1) if mode != "cast" else count, "seconds": seconds,
        "rate_bps": rate_bps, "sent": sum(s[0] for s in sent.values()), "sent_bytes": sum(s[1] for s in sent.values()),
        "got": sum(g[0] for g in got.values()), "got_bytes": sum(g[1] for g in got.values()),
        "per_connection_bps": sorted(g[1] * 8 / seconds for g in got.values()),
        "skew_ms": (max(firsts) - min(firsts)) / 1e6 if firsts else None,
        # A connection on which no more than the first byte went has no time of it.
        "full_skew_ms": (max(fulls) - min(filter(None, fulls))) / 1e6 if mode == "tcp" and any(fulls) else None,
        "never_full": sum(not full for full in fulls) if mode == "tcp" else None,
        "rcvbuf_errors": sum(int(h[2]) for h in hosts), "sndbuf_errors": sum(int(h[4]) for h in hosts),
        "worst_loss": worst_loss(sent, got, mode), "busy_share": share(before, after),
    }


def worst_loss(sent, got, mode):
    """The greatest share that a connection lost."""
    if mode == "tcp":
        return None
    if mode == "cast":
        pairs = [(sent[own][0], g[0]) for own in sent for (f, _), g in got.items() if f == own[0]]
    else:
        pairs = [(s[0], got.get((a, b), (0, 0))[0]) for (a, b), s in sent.items()]
    return max((1 - g / s for s, g in pairs if s), default=None)


def busy():
    """Processor time of the machine: busy, all; clock ticks."""
    cells = [int(x) for x in pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return sum(cells) - cells[3] - cells[4], sum(cells)


def share(before, after):
    return (after[0] - before[0]) / max(1, after[1] - before[1])
