#!/usr/bin/env python3
"""Orbit-aware link state in user space, after OPSPF (Pan et al., ICC 2019): routers know every coming link from the orbits
(`contacts.json`), and planned changes need no message. A predicted neighbour that was silent for 4 s is lost: both ends
flood it in numbered reports, and routes are shortest paths by delay over the other links. The hello of each second has the
sum of the numbers that its sender knows, and a neighbour that knows more sends its reports. A row of CSV a second on stdout.
"""

import contextlib
import heapq
import json
import pathlib
import select
import socket
import struct
import subprocess
import time

TOLD = pathlib.Path("/run/constel")
GROUP, PORT, IP_PKTINFO = "224.0.0.251", 5521, 8
HELLO_NS, DEAD_NS, TICK_S = 1_000_000_000, 4_000_000_000, 0.1


def read(name):
    return json.loads((TOLD / name).read_text())


def at_port(index):
    return struct.pack("@4s4si", socket.inet_aton(GROUP), bytes(4), index)  # ip_mreqn


class Router:
    def __init__(self):
        self.node, nodes = read("node.json"), read("topology.json")["nodes"]
        self.own, self.ports = self.node["name"], [port["ifindex"] for port in read("ports.json")["ports"]]
        self.ground = {n["name"] for n in nodes if n["class"] == "ground"}
        self.loopbacks = {n["name"]: n["ipv4"] for n in nodes if n["ipv4"] and n["name"] != self.own}
        self.files, self.hops, self.routes = {}, {}, {}  # Next hops: the port and address of each neighbour.
        self.reports, self.known = {}, 0  # node: the number of its newest report, and the neighbours that it lost
        self.heard = {}  # predicted neighbour: when, by CLOCK_MONOTONIC
        self.links, self.changes_ns, self.messages, self.octets = set(), 0, 0, 0
        events = map(json.loads, (TOLD / "events").read_text().splitlines())
        self.zero_ns = next(e["zero_ns"] for e in events if e["kind"] == "clock")  # By CLOCK_MONOTONIC.
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind(("", PORT))
        self.sock.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
        self.sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0)
        for index in self.ports:
            self.sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, at_port(index))

    def look(self):
        """Reads new documents and the clock; returns whether the predicted links or the next hops changed."""
        before, files = (self.links, len(self.hops)), self.files
        self.files = {name: (TOLD / name).stat().st_mtime_ns for name in ("peers.json", "contacts.json")}
        if files.get("peers.json") != self.files["peers.json"]:
            # Only addresses are taken from it, and none is forgotten: it knows failures, which a router has to find.
            self.hops |= {p["node"]: (p["port"], p["far"]["ipv4"]) for p in read("peers.json")["peers"]}
        t_ns = time.monotonic_ns() - self.zero_ns
        if files.get("contacts.json") != self.files["contacts.json"] or t_ns >= self.changes_ns:
            contacts = read("contacts.json")["contacts"]
            changes = (c.get(key) or 0 for c in contacts for key in ("from_ns", "to_ns"))
            self.changes_ns = min((ns for ns in changes if ns > t_ns), default=t_ns + HELLO_NS)
            present = [c for c in contacts if c["from_ns"] <= t_ns < (c.get("to_ns") or t_ns + 1)]
            self.links = {(c["a"], c["b"], c["delay_min_ns"]) for c in present}
        return before != (self.links, len(self.hops))

    def send(self, message, indexes):
        packet = json.dumps(message, separators=(",", ":")).encode()
        for index in indexes:
            self.sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, at_port(index))
            with contextlib.suppress(OSError):  # The interface is down; its neighbour will be silent.
                self.octets += self.sock.sendto(packet, (GROUP, PORT))
                self.messages += 1

    def hear(self):
        """Reads all that has come in; returns whether a report is new."""
        changed = False
        while select.select([self.sock], [], [], 0)[0]:
            packet, about, _, _ = self.sock.recvmsg(65536, 256)
            index = struct.unpack_from("@i", about[0][2])[0]
            kind, node, number, *lost = json.loads(packet)
            if kind == "hello":
                self.heard[node] = time.monotonic_ns()
                for origin, (newest, names) in self.reports.items() if number < self.known else ():
                    self.send(["report", origin, newest, *names], [index])
            elif (more := number - self.reports.get(node, (0, ()))[0]) > 0:
                self.known += more
                self.reports[node] = (number, tuple(lost))
                self.send(["report", node, number, *lost], [i for i in self.ports if i != index])
                changed = True
        return changed

    def judge(self):
        """Compares the neighbours with the prediction, and reports differences; returns whether there are new ones."""
        now_ns = time.monotonic_ns()
        due = {b if a == self.own else a for a, b, _ in self.links if self.own in (a, b)}
        # A link that has just come up has the dead time for its first hello.
        self.heard = {node: self.heard.get(node, now_ns) for node in due}
        lost = tuple(sorted(node for node in due if now_ns - self.heard[node] > DEAD_NS))
        number, reported = self.reports.get(self.own, (0, ()))
        if lost != reported:
            self.known += 1
            self.reports[self.own] = (number + 1, lost)
            self.send(["report", self.own, number + 1, *lost], self.ports)
        return lost != reported

    def compute(self):
        """Finds the first hop of the shortest path to each node and writes the differences to the kernel."""
        lost = {(a, b) for a, (_, names) in self.reports.items() for b in names}
        graph = {}
        for a, b, cost in self.links | {(b, a, cost) for a, b, cost in self.links}:
            if not lost & {(a, b), (b, a)}:
                graph.setdefault(a, []).append((b, cost))
        first, todo = {}, [(0, self.own, None)]
        while todo:
            cost, node, hop = heapq.heappop(todo)
            if node in first:
                continue
            first[node] = hop
            if node == self.own or node not in self.ground:
                for far, more in graph.get(node, []):
                    heapq.heappush(todo, (cost + more, far, hop or far))
        known = {n: self.hops[h] for n, h in first.items() if h in self.hops and n in self.loopbacks}
        lines = [f"route del {self.loopbacks[n]}/32" for n in self.routes.keys() - known.keys()]
        for node, (port, address) in known.items() - self.routes.items():
            way = f"via {address} dev {port} onlink src {self.node['ipv4']}"
            lines.append(f"route replace {self.loopbacks[node]}/32 {way}")
        self.routes = known
        if lines:
            subprocess.run(["ip", "-force", "-batch", "-"], input="\n".join(lines), text=True, capture_output=True)


def main():
    router = Router()
    hello_ns = time.monotonic_ns()
    print("t_s,messages,bytes,reports,routes", flush=True)
    while True:
        now_ns = time.monotonic_ns()
        if now_ns >= hello_ns:
            hello_ns += HELLO_NS
            router.send(["hello", router.own, router.known], router.ports)
            counts = (router.messages, router.octets, len(router.reports), len(router.routes))
            print(f"{(now_ns - router.zero_ns) / 1e9:.3f}", *counts, sep=",", flush=True)
        select.select([router.sock], [], [], TICK_S)
        if any([router.look(), router.hear(), router.judge()]):
            router.compute()


if __name__ == "__main__":
    main()
