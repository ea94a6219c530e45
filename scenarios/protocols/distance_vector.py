#!/usr/bin/env python3
"""A distance-vector routing protocol, as an example of a protocol of your own: hop counts, split horizon with poisoned
reverse, triggered updates. It needs nothing of the emulator: interfaces, addresses and routes are those of the node.

Each second a router multicasts its vector over every interface, a changed one at once. A neighbour that was silent for
4 s is lost. A row of CSV a second on stdout: CLOCK_MONOTONIC, messages and bytes of UDP sent so far, routes.

    distance_vector.py [--stub]        (a stub announces only itself, so that no traffic crosses it)
"""

import argparse
import json
import select
import socket
import struct
import subprocess
import time

GROUP, PORT = "224.0.0.250", 5520
# Hops. The longest path must be shorter, and routers that lost a destination count up to this.
INFINITY = 24
HELLO_S, DEAD_S, TRIGGERED_S = 1.0, 4.0, 0.05
ENTRY = struct.Struct("!4sB")  # A destination, and the hops to it.
IP_PKTINFO = 8


def interfaces():
    """Returns the router's own address, and each interface with an address by its index: name and address."""
    links = json.loads(subprocess.run(["ip", "-j", "-4", "addr"], capture_output=True, check=True).stdout)
    own, ports = None, {}
    for link in links:
        addresses = [a["local"] for a in link["addr_info"] if not a["local"].startswith("127.")]
        if link["ifname"] == "lo":
            own = addresses[0]
        elif addresses:
            ports[link["ifindex"]] = (link["ifname"], addresses[0])
    return own, ports


def listen(ports):
    """Returns the socket of the protocol, a member of the group at each interface."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("", PORT))
    sock.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0)
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)
    for index in ports:
        member = struct.pack("@4s4si", socket.inet_aton(GROUP), bytes(4), index)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
    return sock


class Router:
    def __init__(self, stub):
        self.own, self.ports = interfaces()
        self.sock = listen(self.ports)
        self.stub = stub
        self.neighbours = {}  # (interface, address): when it was last heard, and its vector
        self.table = {self.own: (0, None)}  # destination: hops, and the neighbour on the way
        self.messages = self.octets = 0

    def announce(self):
        for index in self.ports:
            entries = []
            for destination, (hops, via) in self.table.items():
                if self.stub and via:
                    continue
                # Poisoned reverse: what was learnt over an interface is out of reach there.
                hops = INFINITY if via and via[0] == index else hops
                entries.append(ENTRY.pack(socket.inet_aton(destination), hops))
            out = struct.pack("@4s4si", bytes(4), bytes(4), index)
            self.sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, out)
            try:
                self.octets += self.sock.sendto(b"".join(entries), (GROUP, PORT))
                self.messages += 1
            except OSError:
                pass  # The interface is down; its neighbours will be silent.

    def hear(self):
        """Reads all that has come in; returns whether a neighbour's vector is another one."""
        changed = False
        while select.select([self.sock], [], [], 0)[0]:
            packet, about, _, (address, _) = self.sock.recvmsg(65536, 256)
            index = struct.unpack_from("@i", about[0][2])[0]
            vector = {socket.inet_ntoa(d): hops for d, hops in ENTRY.iter_unpack(packet)}
            changed |= self.neighbours.get((index, address), (0, None))[1] != vector
            self.neighbours[index, address] = (time.monotonic(), vector)
        return changed

    def lose(self, now):
        """Drops silent neighbours; returns whether there were any."""
        silent = [key for key, (heard, _) in self.neighbours.items() if now - heard > DEAD_S]
        for key in silent:
            del self.neighbours[key]
        return bool(silent)

    def compute(self):
        """Computes a new table and writes the differences to the kernel; returns whether there are any."""
        new = {self.own: (0, None)}
        for via, (_, vector) in self.neighbours.items():
            for destination, hops in vector.items():
                known = new.get(destination, (INFINITY, None))
                # Of two equal ways the present one is kept, so that routes do not change without a reason.
                present = self.table.get(destination, (0, None))[1] == via
                if hops + 1 < known[0] or (present and hops + 1 == known[0] and hops + 1 < INFINITY):
                    new[destination] = (hops + 1, via)
        lines = [f"route del {d}/32" for d in self.table if d not in new]
        for destination, (_, via) in new.items():
            if via and self.table.get(destination, (0, None))[1] != via:
                port = self.ports[via[0]][0]
                lines.append(f"route replace {destination}/32 via {via[1]} dev {port} onlink src {self.own}")
        changed = new != self.table
        self.table = new
        if lines:
            batch = ["ip", "-force", "-batch", "-"]
            subprocess.run(batch, input="\n".join(lines), text=True, capture_output=True)
        return changed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stub", action="store_true")
    router = Router(parser.parse_args().stub)
    hello = time.monotonic()
    triggered = None
    print("monotonic_s,messages,bytes,routes", flush=True)
    while True:
        now = time.monotonic()
        changed = router.lose(now) and router.compute()
        if now >= hello or (triggered and now >= triggered):
            router.announce()
            triggered = None
            if now >= hello:
                hello += HELLO_S
                row = (f"{now:.3f}", router.messages, router.octets, len(router.table) - 1)
                print(*row, sep=",", flush=True)
        due = min(hello, triggered or hello)
        select.select([router.sock], [], [], max(0, due - time.monotonic()))
        changed |= router.hear() and router.compute()
        if changed and not triggered:
            triggered = time.monotonic() + TRIGGERED_S


if __name__ == "__main__":
    main()
