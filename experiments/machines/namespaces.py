"""Machines that are namespaces of this host, for its network and its clocks, each with an agent of its own, and etcd beside them. Root,
`etcd`, `ip`, `nsenter`; a kernel with time namespaces (Linux 5.6 and newer, CONFIG_TIME_NS).

Machines were not started at one time: what each calls now is days from what the others do, by the clocks that cannot be set (CLOCK_MONOTONIC
and CLOCK_BOOTTIME). Namespaces have no wall clocks of their own; where these are to differ (`Walls`), agents run with `wall.c`, and `cc` is
needed."""

import base64
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONSTEL = os.environ.get("CONSTEL", str(ROOT / "target/release/constel"))
# Of namespaces that nobody else sees.
NETWORK = "10.99.0"
STORE_AT = f"{NETWORK}.254"
STORE = f"etcd://{STORE_AT}:2379"
SKIPPED = 77
# By how much machines' clocks are ahead of the host's, in turns. The first one has the clock that the others go by: some are ahead of it,
# others behind.
AHEAD_DAYS = [50, 0, 400, 3]
# etcd's disk where that is to be filled, and how much etcd lets itself have of it.
DISK_MIB, QUOTA_MIB = 1024, 96


def missing(*more):
    """A tool that is not there, in words."""
    for tool in ("etcd", "ip", "nsenter", "setpriv", "unshare", *more):
        if not shutil.which(tool):
            return f"{tool} is not installed" + (" (apt-get install etcd-server)" if tool == "etcd" else "")
    if not os.path.exists("/proc/self/ns/time"):
        return "this kernel has no time namespaces"
    return None


def run_local(machines, results, *flags):
    """The output of `local` about its lab; without a lab, this program ends."""
    command = [ROOT / "experiments/machines/local", str(machines), "--results", results, *flags]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if ran.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with {ran.returncode}: {ran.stdout[-2000:]}")
    return json.loads(ran.stdout)


def keep(file, command, rows, **more):
    """Writes raw data, with what it was measured by and where."""
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], stdout=subprocess.PIPE, text=True).stdout.strip()
    about = {"command": command, "commit": commit, "kernel": os.uname().release, **more, "processors": os.cpu_count(), "rows": rows}
    file.write_text(json.dumps(about, indent=1) + "\n")


class Space:
    """Namespaces for network and clocks that go with this process, however it ends."""

    def __init__(self, ahead_days=0):
        ahead = str(ahead_days * 86_400)
        self.holder = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--time", "--monotonic", ahead, "--boottime", ahead, "sleep",
             "infinity"], stdin=subprocess.DEVNULL)
        path = f"/proc/{self.holder.pid}/ns/net"
        until = time.monotonic() + 10
        # By then its clocks are set: that cannot be done any more once somebody is in the namespace.
        while pathlib.Path(f"/proc/{self.holder.pid}/comm").read_text() != "sleep\n":
            if time.monotonic() > until or self.holder.poll() is not None:
                raise RuntimeError("no namespace was made")
            time.sleep(0.01)
        # A program that changes its clocks is in them with what it begins next.
        self.enter = ["nsenter", f"--net={path}", f"--time=/proc/{self.holder.pid}/ns/time_for_children"]
        self.run("ip", "link", "set", "lo", "up")

    def run(self, *command):
        return subprocess.run([*self.enter, *command], check=True, stdout=subprocess.PIPE, text=True).stdout

    def start(self, *command, **streams):
        streams.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.Popen(["setpriv", "--pdeathsig", "TERM", *self.enter, *command], **streams)

    def end(self):
        self.holder.kill()
        self.holder.wait()


class Disk:
    """A disk that no other process sees and that can be full: a tmpfs in a mount namespace that goes with this process."""

    def __init__(self, at):
        self.at = str(at)
        at.mkdir()
        mount = "mount -t tmpfs -o size=%dm disk \"$0\" && echo there && exec sleep infinity" % DISK_MIB
        self.holder = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "sh", "-c", mount, self.at],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        if self.holder.stdout.readline() != "there\n":
            raise RuntimeError("no disk could be mounted")
        self.enter = ["nsenter", f"--mount=/proc/{self.holder.pid}/ns/mnt"]

    def resize(self, kib):
        """Whether it could be made so large: not where more is on it."""
        command = [*self.enter, "mount", "-o", f"remount,size={kib}k", self.at]
        return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0

    def fill(self):
        """Fills the disk, except for a little if something is written at this very moment."""
        for more_kib in range(0, 4096, 64):
            used = subprocess.run([*self.enter, "df", "--output=used", "-k", self.at], check=True, stdout=subprocess.PIPE, text=True)
            if self.resize(int(used.stdout.split()[-1]) + more_kib):
                return
        raise RuntimeError(f"{self.at} could not be filled")

    def empty(self):
        if not self.resize(DISK_MIB << 10):
            raise RuntimeError(f"{self.at} could not be emptied")

    def end(self):
        self.holder.kill()
        self.holder.wait()


class Walls:
    """A wall clock for each machine, that can be set while it runs."""

    def __init__(self, count, work):
        self.library = work / "wall.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", self.library, ROOT / "experiments/machines/wall.c"], check=True)
        self.files = [work / f"wall-m{number}" for number in range(1, count + 1)]
        for file in self.files:
            file.write_bytes(bytes(8))

    def set_ahead(self, number, seconds):
        """This machine's wall clock is so far ahead of the host's from now on."""
        # Written where it is, for those that have it mapped.
        with open(self.files[number - 1], "r+b") as file:
            file.write(int(seconds * 1e9).to_bytes(8, sys.byteorder, signed=True))

    def env(self, number):
        return {**os.environ, "LD_PRELOAD": str(self.library), "WALL_AHEAD": str(self.files[number - 1])}


class Way:
    """A box between each machine and the wire: it delays the frames that the machine sends. The box's process ends with this one."""

    def __init__(self, delay, count, work):
        self.name = f"way{os.getpid()}"
        self.space = Space()
        rules = work / "way.yaml"
        rules.write_text(f"rules:\n- forward: {{delay: {delay}}}\n")
        self.rules, self.log = rules, work / "way.log"
        self.pairs = [f"{end}{number}" for number in range(1, count + 1) for end in ("from", "to")]
        self.box = None

    def begin(self):
        with open(self.log, "wb") as log:
            self.box = self.space.start(CONSTEL, "box", *self.pairs, "--name", self.name, "--rules", str(self.rules), "--results",
                                        str(self.rules.with_name("way")), stdout=log, stderr=log)
        until = time.monotonic() + 30
        while subprocess.run([CONSTEL, "box", "show", self.name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
            if self.box.poll() is not None or time.monotonic() > until:
                raise RuntimeError("no box between the machines: " + self.log.read_text()[-500:])
            time.sleep(0.1)

    def end(self):
        if self.box:
            self.box.send_signal(signal.SIGINT)
            self.box.wait(timeout=60)
        self.space.end()


class Machines:
    """Namespaces on one wire, an agent in each, and etcd on the wire: on a disk of its own, or below `work`. With a `way`, frames are
    delayed by it from each machine to the others. With walls, machines have wall clocks of their own."""

    # Words before etcd's own.
    BEFORE_STORE = ()

    def __init__(self, count, work, has_disk=False, way=None, has_walls=False):
        self.work = work
        self.walls = Walls(count, work) if has_walls else None
        # In memory: a store whose disk others keep busy for longer than a lease is another experiment.
        self.disk, self.has_disk = Disk(work / "disk"), has_disk
        self.way = Way(way, count, work) if way else None
        self.wire = Space()
        self.spaces, self.agents, self.etcd = [], [], None
        self.wire.run("ip", "link", "add", "wire", "type", "bridge")
        self.wire.run("ip", "addr", "add", f"{STORE_AT}/24", "dev", "wire")
        self.wire.run("ip", "link", "set", "wire", "up")
        for number in range(1, count + 1):
            space = Space(AHEAD_DAYS[(number - 1) % len(AHEAD_DAYS)])
            self.spaces.append(space)
            name, machine = f"m{number}", str(space.holder.pid)
            if self.way:
                self.way.space.run("ip", "link", "add", f"from{number}", "mtu", "1640", "type", "veth", "peer", "name", "under0", "netns",
                                   machine)
                self.way.space.run("ip", "link", "add", f"to{number}", "mtu", "1640", "type", "veth", "peer", "name", name, "netns",
                                   str(self.wire.holder.pid))
                for end in ("from", "to"):
                    self.way.space.run("ip", "link", "set", f"{end}{number}", "up")
            else:
                self.wire.run("ip", "link", "add", name, "type", "veth", "peer", "name", "under0", "netns", machine)
            self.wire.run("ip", "link", "set", name, "mtu", "1640", "up")
            space.run("ip", "addr", "add", f"{NETWORK}.{number}/24", "dev", "under0")
            space.run("ip", "link", "set", "under0", "mtu", "1640", "up")
        if self.way:
            # Which looks first whether its interfaces are on one wire already.
            self.way.begin()
        for number in range(1, count + 1):
            self.wire.run("ip", "link", "set", f"m{number}", "master", "wire")
        self.wire.run("ip", "link", "set", "wire", "mtu", "1640")
        if self.way:
            # Who asks for an address first waits for twice the way: machines that are there for some time have asked before.
            for space in self.spaces:
                for number in range(1, count + 1):
                    space.run("ping", "-n", "-c", "1", "-W", "5", f"{NETWORK}.{number}")

    def begin(self):
        self.start_store()
        for number in range(1, len(self.spaces) + 1):
            self.agents.append(self.start_agent(number))
            # One after the other: the first has the clock that all others are compared with.
            self.wait(number)

    def start_store(self):
        log = open(self.work / "etcd.log", "ab")
        data, more = [*self.BEFORE_STORE, *self.disk.enter, "etcd", "--data-dir", f"{self.disk.at}/etcd"], []
        if self.has_disk:
            # Snapshots often, so that a full disk is noticed soon.
            more = ["--quota-backend-bytes", str(QUOTA_MIB << 20), "--snapshot-count", "10", "--max-wals", "2"]
        self.etcd = self.wire.start(
            *data, *more, "--listen-client-urls", f"http://{STORE_AT}:2379",
            "--advertise-client-urls", f"http://{STORE_AT}:2379", "--listen-peer-urls", "http://127.0.0.1:2380",
            "--auto-compaction-mode", "periodic", "--auto-compaction-retention", "5m" if self.has_disk else "1h", stdout=log, stderr=log)
        until = time.monotonic() + 20
        while self.store("kv/range", key="constel") is None:
            if time.monotonic() > until or self.etcd.poll() is not None:
                raise RuntimeError("etcd does not answer: " + (self.work / "etcd.log").read_text()[-500:])
            time.sleep(0.1)

    def start_agent(self, number):
        log = open(self.work / f"m{number}.log", "ab")
        env = self.walls.env(number) if self.walls else None
        return self.spaces[number - 1].start(CONSTEL, "agent", "--store", STORE, "--name", f"m{number}", "--underlay", "under0",
                                             stdout=log, stderr=log, env=env)

    def wait(self, count, within_s=30):
        """Waits until `count` machines are up and have compared their clocks over the wire."""
        until = time.monotonic() + within_s
        while True:
            rows = json.loads(self.wire.run(CONSTEL, "machines", "--store", STORE, "--json"))
            known = [row for row in rows if row["state"] == "up" and row["clock_by"] in ("itself", "underlay")]
            if len(known) == count:
                return rows
            if time.monotonic() > until:
                said = {log.stem: log.read_text()[-300:] for log in self.work.glob("m*.log")}
                raise RuntimeError(f"machines do not come up: {rows}; they said {said}")
            time.sleep(0.1)

    def fill_store(self):
        """Puts there what etcd takes at most. It takes no change any more then, until what is too much is gone."""
        code = ("import base64,json,sys,urllib.error as e,urllib.request as u\n"
                "for number in range(2*int(sys.argv[2])):\n"
                "  junk={'key':base64.b64encode(b'junk/%d'%number).decode(),'value':'x'*(4<<18)}\n"
                "  try: u.urlopen(u.Request(sys.argv[1],json.dumps(junk).encode()),timeout=5).read()\n"
                "  except e.HTTPError as error: sys.exit(0 if b'space exceeded' in error.read() else 1)\n"
                "sys.exit(2)")
        self.wire.run(sys.executable, "-c", code, f"http://{STORE_AT}:2379/v3/kv/put", str(QUOTA_MIB))

    def empty_store(self):
        """As its handbook says. Tried again where it has too much to do to answer soon."""
        until = time.monotonic() + 60
        while self.store("kv/put", key="room", value="") is None:
            if time.monotonic() > until:
                raise RuntimeError("etcd takes nothing any more")
            self.store("kv/deleterange", key="junk/", range_end="junk0")
            header = (self.store("kv/range", key="junk/") or {}).get("header", {})
            self.store("kv/compaction", plain={"revision": header.get("revision"), "physical": True})
            self.store("maintenance/defragment")
            self.store("maintenance/alarm", plain={"action": "DEACTIVATE", "alarm": "NOSPACE", "memberID": header.get("member_id")})

    def store(self, verb, plain=None, **question):
        """Asks etcd's gateway from within the wire's namespace; None: no answer, or a refusal."""
        question = {key: base64.b64encode(value.encode()).decode() for key, value in question.items()}
        question.update(plain or {})
        code = ("import sys,urllib.request as u;"
                "r=u.Request(sys.argv[1],sys.stdin.buffer.read() or None);"
                "sys.stdout.write(u.urlopen(r,timeout=5).read().decode())")
        url = f"http://{STORE_AT}:2379/" + ("metrics" if verb == "metrics" else f"v3/{verb}")
        body = "" if verb == "metrics" else json.dumps(question)
        asked = subprocess.run([*self.wire.enter, sys.executable, "-c", code, url], input=body, capture_output=True, text=True)
        if asked.returncode:
            return None
        return asked.stdout if verb == "metrics" else json.loads(asked.stdout)

    def raw_sockets(self, number):
        """Sockets of a machine for frames of Constel's EtherType."""
        rows = self.spaces[number - 1].run("cat", "/proc/net/packet").splitlines()[1:]
        return sum(row.split()[3] == "88b6" for row in rows)

    def labs_left(self):
        """Keys of labs in the store."""
        left = self.store("kv/range", key="constel/labs/", range_end="constel/labs0")
        return [base64.b64decode(row["key"]).decode() for row in (left or {}).get("kvs", [])]

    def traffic(self):
        """Requests to etcd and its writes: changes, bytes from and to clients."""
        text = self.store("metrics") or ""
        def of(name):
            rows = [line.split()[-1] for line in text.splitlines() if line.startswith((name + " ", name + "{"))]
            return sum(float(row) for row in rows)
        names = {"puts": "etcd_debugging_mvcc_put_total", "transactions": "etcd_debugging_mvcc_txn_total",
                 "received_bytes": "etcd_network_client_grpc_received_bytes_total",
                 "sent_bytes": "etcd_network_client_grpc_sent_bytes_total"}
        return {key: of(name) for key, name in names.items()}

    def end(self):
        """Ends agents in good order, then all else. How the agents ended."""
        for agent in self.agents:
            if agent.poll() is None:
                agent.send_signal(signal.SIGINT)
        codes = []
        for agent in self.agents:
            try:
                codes.append(agent.wait(timeout=60))
            except subprocess.TimeoutExpired:
                agent.kill()
                codes.append(None)
        if self.etcd:
            self.etcd.terminate()
            try:
                self.etcd.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self.etcd.kill()
        for held in [*self.spaces, self.wire, self.disk, *([self.way] if self.way else [])]:
            held.end()
        return codes


def host():
    """Objects of this host that a lab could leave: interfaces, groups, runtime folders, processes in labs' names."""
    run = pathlib.Path("/run/constel")
    # Unlike `rglob`, `walk` passes over a group that another lab removes meanwhile.
    groups = [
        os.path.join(folder, name)
        for folder, names, _ in os.walk("/sys/fs/cgroup")
        for name in names
        if "constel" in name
    ]
    parts = [path.name for path in pathlib.Path(tempfile.gettempdir()).glob("constel-part-*")]
    def owned(interface):
        """With the lab that it belongs to, if any."""
        try:
            alias = pathlib.Path("/sys/class/net", interface, "ifalias").read_text().strip()
        except OSError:
            alias = ""
        return f"{interface} {alias}".strip()

    return {
        "interfaces": sorted(owned(interface) for interface in os.listdir("/sys/class/net")),
        "groups": sorted(groups),
        "labs": sorted(path.name for path in run.iterdir() if path.name != "host") if run.exists() else [],
        "parts": sorted(parts),
    }


def children(parent):
    """Processes that this one has started."""
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rsplit(")", 1)[1].split()[1]) == parent:
                found.append(int(stat.parent.name))
        except (OSError, IndexError):
            continue
    return found


def resident_mib(pid):
    """The most memory that a process had so far; nothing of one that has ended."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    rows = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return round(int(rows[0]) / 1024, 1) if rows else 0
