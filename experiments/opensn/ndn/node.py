#!/usr/bin/env python3
"""A node of Named Data Networking straight on Ethernet (type 0x8624), without IP: packets by python-ndn, forwarding here.

    node.py forward                  a forwarder: PIT, content store, routes learned from where Data came
    node.py produce PREFIX           the same with a producer of 1,000 bytes for any name below PREFIX
    node.py consume PREFIX COUNT     a consumer: COUNT Interests, five a second, each sent again after a second, thrice at most

An Interest that no route is known for, or that is sent again, goes to every port but its own; Data goes back as its Interest came.
"""

import os
import select
import socket
import sys
import time

from ndn.encoding import InterestParam, MetaInfo, Name, make_data, make_interest, parse_data, parse_interest, parse_tl_num
from ndn.security import DigestSha256Signer

TYPE = 0x8624
# What NDN's forwarders use for all nodes on a link.
ALL = bytes.fromhex("01005e0017aa")
LIFETIME_S = 4
APPLICATION = "application"


def packet(frame):
    """A frame less its padding."""
    _, size = parse_tl_num(frame)
    length, more = parse_tl_num(frame, size)
    return frame[: size + more + length]


class Forwarder:
    def __init__(self):
        self.faces = {}
        for name in sorted(os.listdir("/sys/class/net")):
            if name != "lo":
                face = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(TYPE))
                face.bind((name, TYPE))
                self.faces[name] = face
        self.pending, self.nonces, self.store, self.routes = {}, {}, {}, {}
        # An application: what it does with an Interest, and with Data.
        self.interest_for_application = self.data_for_application = lambda name, wire: None

    def send(self, face, wire):
        if face == APPLICATION:
            return
        try:
            self.faces[face].sendto(wire, (face, TYPE, 0, 0, ALL))
        except OSError:
            # A full queue, or a port without a far end: as if lost on its way.
            pass

    def interest(self, wire, came_by):
        name, param, _, _ = parse_interest(wire)
        key, now = Name.to_bytes(name), time.monotonic()
        if (key, param.nonce) in self.nonces:
            return
        self.nonces[key, param.nonce] = now
        if key in self.store:
            self.send(came_by, self.store[key])
            return
        answer = self.interest_for_application(name, wire)
        if answer is not None:
            self.send(came_by, answer)
            return
        known = self.pending.get(key)
        again = known is not None and now - known[1] < LIFETIME_S
        asked = known[0] if again else set()
        asked.add(came_by)
        self.pending[key] = (asked, now)
        route = self.routes.get(bytes(name[0]))
        for face in [route] if route in self.faces and route != came_by and not again else self.faces:
            if face != came_by:
                self.send(face, wire)

    def data(self, wire, came_by):
        name, _, _, _ = parse_data(wire)
        key = Name.to_bytes(name)
        asked, _ = self.pending.pop(key, (set(), 0))
        if not asked:
            return
        self.routes[bytes(name[0])] = came_by
        self.store[key] = wire
        if len(self.store) > 1000:
            self.store.pop(next(iter(self.store)))
        for face in asked:
            if face == APPLICATION:
                self.data_for_application(name, wire)
            else:
                self.send(face, wire)

    def serve(self, until):
        while (rest := until - time.monotonic()) > 0:
            ready, _, _ = select.select(list(self.faces.values()), [], [], min(rest, 1))
            for face in ready:
                frame, about = face.recvfrom(65536)
                if about[2] == socket.PACKET_OUTGOING:
                    continue
                wire = packet(frame)
                handle = {5: self.interest, 6: self.data}.get(wire[0])
                if handle:
                    handle(wire, about[0])
            old = time.monotonic() - LIFETIME_S
            if len(self.nonces) > 10000:
                self.nonces = {key: at for key, at in self.nonces.items() if at > old}


def produce(forwarder, prefix):
    prefix = Name.from_str(prefix)

    def answer(name, _):
        if not Name.is_prefix(prefix, name):
            return None
        return make_data(name, MetaInfo(freshness_period=1000), b"x" * 1000, signer=DigestSha256Signer())

    forwarder.interest_for_application = answer


def consume(forwarder, prefix, count):
    got = {}
    forwarder.data_for_application = lambda name, _: got.setdefault(Name.to_str(name), time.monotonic())
    print("seq,sent_s,rtt_ms,tries", flush=True)
    begun = time.monotonic()
    for n in range(count):
        name = f"{prefix}/{n}"
        sent = time.monotonic()
        for tries in range(1, 4):
            nonce = int.from_bytes(os.urandom(4), "big")
            forwarder.interest(make_interest(name, InterestParam(nonce=nonce, lifetime=4000)), APPLICATION)
            until = time.monotonic() + 1
            while name not in got and time.monotonic() < until:
                forwarder.serve(time.monotonic() + 0.002)
            if name in got:
                break
        rtt = f"{(got[name] - sent) * 1e3:.3f}" if name in got else ""
        print(f"{n},{sent - begun:.3f},{rtt},{tries}", flush=True)
        forwarder.serve(sent + 0.2)


def main():
    forwarder = Forwarder()
    if sys.argv[1] == "consume":
        consume(forwarder, sys.argv[2], int(sys.argv[3]))
        return
    if sys.argv[1] == "produce":
        produce(forwarder, sys.argv[2])
    forwarder.serve(float("inf"))


main()
