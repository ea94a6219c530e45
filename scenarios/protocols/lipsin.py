#!/usr/bin/env python3
"""LIPSIN over Ethernet frames (Jokela et al., SIGCOMM 2009). A frame carries a Bloom filter of the links on its path, and a
node sends it on over every link whose identity is in the filter. Nodes have no table of destinations and no addresses.

The source plays the topology manager: it reads the links of the lab (`topology.json`) and computes the shortest path by
hops. A filter may match other links too (a false positive); a hop limit bounds the copies that this makes.
With --to a node sends ten messages a second, each row of CSV on stdout is one: lab time, number, links of the path, bits
set in the filter. With --from it prints those that arrive: lab time of sending, number, links passed, delay. Other nodes
print frames sent so far, and those of them that were false positives at this node, once a second.

    lipsin.py [--to NODE | --from NODE]
"""

import argparse
import hashlib
import json
import os
import select
import socket
import struct
import time

TOLD = "/run/constel"
ETHERTYPE = 0x88B5  # For experiments (IEEE 802).
BITS, HASHES, HOPS = 248, 5, 32
HEADER = struct.Struct("!31sBQQ32s32s")  # Filter, hop limit, number, time of sending, source and destination.
EVERY_S, LOOK_S = 0.1, 0.05


def read(name):
    with open(f"{TOLD}/{name}") as file:
        return json.load(file)


def identity(a, b):
    """Returns the link identity of the direction from `a` to `b`: a few bits set of many."""
    digest = hashlib.sha256(f"{a}>{b}".encode()).digest()
    bits = (int.from_bytes(digest[2 * i : 2 * i + 2], "big") % BITS for i in range(HASHES))
    return sum({1 << bit for bit in bits})


def path(a, b):
    """Returns the nodes of a shortest path over the present links; only `a` without a path."""
    links = {}
    for link in read("topology.json")["links"]:
        links.setdefault(link["a"], []).append(link["b"])
        links.setdefault(link["b"], []).append(link["a"])
    before, todo = {a: None}, [a]
    for node in todo:
        for far in sorted(links.get(node, [])):
            if far not in before:
                before[far] = node
                todo.append(far)
    nodes = [b]
    while before.get(nodes[-1]):
        nodes.append(before[nodes[-1]])
    return nodes[::-1] if nodes[-1] == a else [a]


class Node:
    def __init__(self):
        self.own = read("node.json")["name"]
        self.sockets, self.out, self.revision = {}, [], None
        self.sent = self.false = 0
        for port in os.listdir("/sys/class/net"):
            if port != "lo":
                self.sockets[port] = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
                self.sockets[port].bind((port, ETHERTYPE))

    def look(self):
        """Reads the node's links again if they changed: identity, port and Ethernet address of each."""
        peers = read("peers.json")
        if peers["revision"] != self.revision:
            self.revision = peers["revision"]
            ends = ((identity(self.own, p["node"]), p["port"], p["far"]["mac"]) for p in peers["peers"])
            self.out = [(link, port, bytes.fromhex(mac.replace(":", ""))) for link, port, mac in ends]

    def forward(self, frame, came=None):
        """Sends a frame over every link in its filter but the one over which it came: a port and the far address."""
        zfilter = int.from_bytes(frame[:31], "big")
        matches = [end for link, *end in self.out if link & zfilter == link and end != came]
        for port, mac in matches:
            try:
                self.sockets[port].sendto(frame, (port, ETHERTYPE, 0, 0, mac))
                self.sent += 1
            except OSError:
                pass  # The interface is down.
        # A path leaves a node by one link: more are false positives, whichever of them they are.
        self.false += max(0, len(matches) - 1)

    def arrived(self):
        """Yields the frames that came in, each with the end from which it came."""
        for sock in select.select(list(self.sockets.values()), [], [], LOOK_S)[0]:
            frame, about = sock.recvfrom(2048)
            if about[2] != socket.PACKET_OUTGOING and len(frame) == HEADER.size:
                yield frame, [about[0], about[4]]


def zero_ns():
    """Returns lab time zero by CLOCK_MONOTONIC: programs of `traffic` start when lab time runs."""
    with open(f"{TOLD}/events") as file:
        events = [json.loads(line) for line in file]
    return next(event["zero_ns"] for event in events if event["kind"] == "clock")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--to")
    parser.add_argument("--from", dest="source")
    args = parser.parse_args()
    node, zero = Node(), zero_ns()
    columns = "t_s,number,links,bits" if args.to else "t_s,number,links,delay_ms" if args.source else "t_s,frames,false"
    print(columns, flush=True)
    number, due, look = 0, time.monotonic(), 0
    while True:
        now_ns = time.monotonic_ns()
        if now_ns / 1e9 >= look:
            node.look()
            look = now_ns / 1e9 + LOOK_S
        if now_ns / 1e9 >= due:
            t_s = f"{(now_ns - zero) / 1e9:.3f}"
            if args.to:
                nodes = path(node.own, args.to)
                zfilter = 0
                for a, b in zip(nodes, nodes[1:]):
                    zfilter |= identity(a, b)
                names = [name.encode() for name in (node.own, args.to)]
                node.forward(HEADER.pack(zfilter.to_bytes(31, "big"), HOPS, number, now_ns, *names))
                print(t_s, number, len(nodes) - 1, zfilter.bit_count(), sep=",", flush=True)
                number, due = number + 1, due + EVERY_S
            elif not args.source:
                print(t_s, node.sent, node.false, sep=",", flush=True)
                due += 1
        for frame, came in node.arrived():
            zfilter, left, seen, sent_ns, _, goal = HEADER.unpack(frame)
            if goal.rstrip(b"\0").decode() == node.own:
                delay_ms = f"{(time.monotonic_ns() - sent_ns) / 1e6:.3f}"
                print(f"{(sent_ns - zero) / 1e9:.3f}", seen, HOPS - left + 1, delay_ms, sep=",", flush=True)
            elif left > 1:
                node.forward(frame[:31] + bytes([left - 1]) + frame[32:], came)


if __name__ == "__main__":
    main()
