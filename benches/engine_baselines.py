"""Constellations as other emulators make them, for benches/containers: one container or host a satellite, one pair of
interfaces a +Grid link, with addresses and a queueing discipline at both ends.

opensn     containers by the Engine API over its socket, as many at a time as there are processors; interfaces by netlink, moved in
           by the first process's number (OpenSN, III-B). The messages are batches of `ip` and `tc` here, one for all pairs and
           one of each a node: fewer requests than OpenSN's own, which are one a link and end.
starrynet  everything by the `docker` command: a network a link, to which both containers are connected, and disciplines by `docker exec`
           of `tc`; as many at a time as there are processors.
mininet    Debian's Mininet: hosts are namespaces with a shell each, links its own; disciplines by `tc` in the hosts.

The discipline is netem with a delay where this kernel has it, otherwise tbf, which has none: `delay` says which.
"""

import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import resource
import shutil
import socket
import subprocess
import sys
import time

MARK = "bench-baseline"
IMAGE = "bench-tools"


def run(*command, text=None):
    done = subprocess.run([str(c) for c in command], input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout


def quietly(*command):
    """For what is taken away, whether or not it was there."""
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def grid(count, planes):
    """The +Grid: each to the next of its plane, and to the same place of the next plane."""
    slots = count // planes
    links = set()
    for n in range(count):
        plane, slot = divmod(n, slots)
        for other in (plane * slots + (slot + 1) % slots, (plane + 1) % planes * slots + slot):
            if other != n:
                links.add((min(n, other), max(n, other)))
    return sorted(links)


def discipline():
    """Arguments of `tc`, and whether they delay."""
    probe = "ip link set lo up && tc qdisc add dev lo root netem delay 1ms"
    there = subprocess.run(["unshare", "-n", "sh", "-c", probe], stderr=subprocess.DEVNULL).returncode == 0
    return ("netem delay 3ms rate 10gbit", True) if there else ("tbf rate 10gbit burst 1mb latency 50ms", False)


def root(folder):
    """A root file system with a static busybox alone."""
    root = folder / "rootfs"
    (root / "bin").mkdir(parents=True)
    busybox = next((p for p in ("/bin/busybox", "/usr/bin/busybox") if os.path.exists(p)), None)
    if busybox is None:
        sys.exit("this needs busybox-static")
    shutil.copy(busybox, root / "bin/busybox")
    (root / "bin/sleep").symlink_to("busybox")
    return root


@contextlib.contextmanager
def dockerd(folder):
    """An engine of its own, without a network; `DOCKER_HOST` names it."""
    if shutil.which("dockerd") is None:
        sys.exit("this needs dockerd (Debian: apt-get install docker.io)")
    socket = folder / "d.sock"
    command = ["dockerd", "--host", f"unix://{socket}", "--data-root", folder / "docker", "--exec-root", folder / "exec",
               "--pidfile", folder / "docker.pid", "--iptables=false", "--ip6tables=false", "--bridge=none", "--ip-forward=false"]
    with open(folder / "dockerd.log", "w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        while "API listen on" not in (folder / "dockerd.log").read_text():
            if process.poll() is not None:
                sys.exit((folder / "dockerd.log").read_text())
            time.sleep(0.1)
        os.environ["DOCKER_HOST"] = f"unix://{socket}"
        yield
    finally:
        process.terminate()
        process.wait()


def give_image(folder):
    """An image with busybox, `ip` and `tc`, by `docker import`: what both kinds of containers are made of."""
    root = folder / "tools"
    for name in ("bin", "tmp"):
        (root / name).mkdir(parents=True)
    shutil.copy(folder / "rootfs/bin/busybox", root / "bin/busybox")
    for name in ("sleep", "sh", "ping"):
        (root / "bin" / name).symlink_to("busybox")
    for name in ("ip", "tc"):
        program = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
        if program is None:
            sys.exit("the baselines need iproute2")
        shutil.copy(program, root / "bin" / name)
        for word in run("ldd", program).split():
            if word.startswith("/"):
                to = root / word[1:]
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(word, to)
    archive = folder / "tools.tar"
    run("tar", "-C", root, "-cf", archive, ".")
    run("docker", "import", archive, IMAGE)


class Pool:
    def __init__(self):
        self.threads = concurrent.futures.ThreadPoolExecutor(os.cpu_count())

    def each(self, work, items):
        return list(self.threads.map(work, items))


class Api(http.client.HTTPConnection):
    """The Engine API, one connection a question."""

    def __init__(self):
        super().__init__("localhost")

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(os.environ["DOCKER_HOST"].removeprefix("unix://"))


def ask(method, path, body=None):
    api = Api()
    headers = {"Content-Type": "application/json"}
    api.request(method, f"/v1.41{path}", json.dumps(body) if body is not None else None, headers)
    answer = api.getresponse()
    text = answer.read()
    if answer.status >= 300:
        sys.exit(f"{method} {path}: {text.decode()}")
    return json.loads(text) if text else None


class Baseline:
    """Nodes and links that are made, tried, and removed. `pairs` are the links by which the first packets go."""

    def __init__(self, count, planes):
        self.count = count
        self.links = grid(count, planes)
        self.pairs = self.links[:: max(1, len(self.links) // 10)][:10]
        self.qdisc, self.delays = discipline()
        self.pool = Pool()
        # Of each node: link, which end, name of its interface.
        self.ends = {n: [] for n in range(count)}
        for number, link in enumerate(self.links):
            for end, node in enumerate(link):
                self.ends[node].append((number, end, f"eth{len(self.ends[node])}"))

    def address(self, number, end):
        high, low = divmod(number, 256)
        # Docker's bridge has the first address of its network.
        return f"10.{100 + high}.{low}.{2 + end}"

    def first_packets(self):
        """Share of one ping over each of ten links that is answered."""

        def ping(pair):
            number = self.links.index(pair)
            return self.ping(pair[0], self.address(number, 1))

        return sum(self.pool.each(ping, self.pairs)) / len(self.pairs)


class OpenSn(Baseline):
    name = "opensn"

    def up(self):
        def container(n):
            body = {"Image": IMAGE, "Entrypoint": ["/bin/sleep"], "Cmd": ["100000"], "Labels": {MARK: ""},
                    "HostConfig": {"NetworkMode": "none", "CapAdd": ["NET_ADMIN"]}}
            made = ask("POST", f"/containers/create?name={MARK}-{n}", body)["Id"]
            ask("POST", f"/containers/{made}/start")
            return made, ask("GET", f"/containers/{made}/json")["State"]["Pid"]

        self.made = self.pool.each(container, range(self.count))
        names = {(number, end): name for ends in self.ends.values() for number, end, name in ends}
        batch = []
        for number, (a, b) in enumerate(self.links):
            first, second = (f"{names[number, end]} netns {self.made[node][1]}" for end, node in ((0, a), (1, b)))
            batch.append(f"link add name {first} type veth peer name {second}")
        run("ip", "-batch", "-", text="\n".join(batch))

        def inside(n):
            enter = ["nsenter", "-t", self.made[n][1], "-n"]
            lines = []
            for number, end, name in self.ends[n]:
                lines += [f"addr add {self.address(number, end)}/24 dev {name}", f"link set {name} up"]
            run(*enter, "ip", "-batch", "-", text="\n".join(lines))
            run(*enter, "tc", "-batch", "-", text="\n".join(f"qdisc add dev {e[2]} root {self.qdisc}" for e in self.ends[n]))

        self.pool.each(inside, range(self.count))

    def ping(self, node, address):
        command = ["nsenter", "-t", str(self.made[node][1]), "-n", "ping", "-c", "1", "-W", "1", address]
        return subprocess.run(command, stdout=subprocess.DEVNULL).returncode == 0

    def down(self):
        self.pool.each(lambda made: ask("DELETE", f"/containers/{made[0]}?force=true"), self.made)


class StarryNet(Baseline):
    name = "starrynet"

    def up(self):
        # Containers of an engine's default network, which this engine has not.
        run("docker", "network", "create", "--subnet", "10.99.0.0/16", f"{MARK}-base")

        def container(n):
            run("docker", "run", "--detach", "--cap-add", "NET_ADMIN", "--network", f"{MARK}-base", "--name", f"{MARK}-{n}",
                "--label", MARK, "--entrypoint", "/bin/sleep", IMAGE, "100000")

        self.pool.each(container, range(self.count))

        def link(numbered):
            number, ends = numbered
            network = f"{MARK}-link-{number}"
            run("docker", "network", "create", "--subnet", f"{self.address(number, -2)}/24", network)
            for end, node in enumerate(ends):
                own = self.address(number, end)
                run("docker", "network", "connect", "--ip", own, network, f"{MARK}-{node}")
                # What the engine called it.
                listed = run("docker", "exec", f"{MARK}-{node}", "/bin/ip", "-o", "-4", "addr")
                name = next(line.split()[1] for line in listed.splitlines() if f" {own}/" in line)
                run("docker", "exec", f"{MARK}-{node}", "/bin/tc", "qdisc", "add", "dev", name, "root", *self.qdisc.split())

        self.pool.each(link, enumerate(self.links))

    def ping(self, node, address):
        command = ["docker", "exec", f"{MARK}-{node}", "/bin/ping", "-c", "1", "-W", "1", address]
        return subprocess.run(command, stdout=subprocess.DEVNULL).returncode == 0

    def down(self):
        run("docker", "rm", "--force", *(f"{MARK}-{n}" for n in range(self.count)))
        run("docker", "network", "rm", f"{MARK}-base", *(f"{MARK}-link-{n}" for n in range(len(self.links))))


def many_descriptors():
    """Mininet's hosts need several each."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class Mininet(Baseline):
    name = "mininet"
    # Told what was made, how many of them, of how many.
    on_progress = staticmethod(lambda what, count, all_of: None)

    def up(self):
        from mininet.link import Link
        from mininet.node import Node

        # One after the other, as Mininet does: its shells are no threads' matter.
        self.nodes = []
        for n in range(self.count):
            self.nodes.append(Node(f"b{n}", inNamespace=True))
            self.on_progress("nodes", n + 1, self.count)
        names = {(number, end): name for ends in self.ends.values() for number, end, name in ends}
        for number, (a, b) in enumerate(self.links):
            first, second = (f"b{node}-{names[number, end]}" for end, node in ((0, a), (1, b)))
            Link(self.nodes[a], self.nodes[b], intfName1=first, intfName2=second)
            self.on_progress("links", number + 1, len(self.links))
        for n, node in enumerate(self.nodes):
            lines = []
            for number, end, name in self.ends[n]:
                name = f"b{n}-{name}"
                lines.append(f"ip addr add {self.address(number, end)}/24 dev {name}; ip link set {name} up;"
                             f" tc qdisc add dev {name} root {self.qdisc}")
            node.cmd("; ".join(lines))

    def first_packets(self):
        # A host's shell does one thing at a time.
        answered = []
        for a, b in self.pairs:
            number = self.links.index((a, b))
            said = self.nodes[a].cmd(f"ping -c 1 -W 1 {self.address(number, 1)}")
            answered.append("1 received" in said)
        return sum(answered) / len(answered)

    def down(self):
        for node in self.nodes:
            node.cleanup()
            node.terminate()


def ways(wanted):
    """The requested ones that this machine can run; prints the others."""
    classes = {way.name: way for way in (OpenSn, StarryNet, Mininet)}
    found = []
    for name in wanted:
        if name == "mininet":
            try:
                import mininet.node  # noqa: F401
            except ImportError:
                print("SKIPPED: Mininet is not installed (apt-get install --no-install-recommends mininet)", file=sys.stderr)
                continue
        if name == "starrynet" and shutil.which("docker") is None:
            print("SKIPPED: the docker command is not installed (apt-get install docker.io)", file=sys.stderr)
            continue
        found.append(classes[name])
    return found


def lab(way, count, planes, available):
    """One of them: up, first packets, memory, down."""
    baseline = way(count, planes)
    subprocess.run(["sync"], check=True)
    before = available()
    began = time.monotonic()
    try:
        baseline.up()
        up_s = time.monotonic() - began
        answered = baseline.first_packets()
        time.sleep(1)
        used = before - available()
    finally:
        began = time.monotonic()
        baseline.down()
    return {"runtime": way.name, "nodes": count, "links": len(baseline.links), "delay": baseline.delays, "up_s": up_s, "used_bytes": used,
            "first_packets": answered, "down_s": time.monotonic() - began}
