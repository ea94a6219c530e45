#!/usr/bin/python3
"""Handover as Mininet does it: the old link is deleted, a new one is made, addresses are set again.

Debian's package `mininet`; hosts are its nodes (namespaces with a shell), links its veth pairs.
Prints JSON, one line a count: seconds from the command until the last station's ping gets through.

    benches/handover_mininet.py [COUNT ...]
"""
import json
import sys
import time

try:
    from mininet.link import Link
    from mininet.node import Node
except ImportError:
    sys.exit("handover_mininet: Mininet is not installed (apt-get install --no-install-recommends mininet)")


def handover(count):
    old, new = Node("cstA", inNamespace=True), Node("cstB", inNamespace=True)
    stations = [Node(f"cs{n}", inNamespace=True) for n in range(count)]
    try:
        links = [Link(s, old, intfName1=f"cs{n}-e", intfName2=f"A-{n}") for n, s in enumerate(stations)]
        begin = time.monotonic()
        for n, (station, link) in enumerate(zip(stations, links)):
            link.delete()
            Link(station, new, intfName1=f"cs{n}-e", intfName2=f"B-{n}")
            third, fourth = divmod(4 * n, 256)
            station.cmd(f"ip addr add 10.77.{third}.{fourth + 1}/30 dev cs{n}-e; ip link set cs{n}-e up")
            new.cmd(f"ip addr add 10.77.{third}.{fourth + 2}/30 dev B-{n}; ip link set B-{n} up")
        commands = time.monotonic() - begin
        third, fourth = divmod(4 * (count - 1), 256)
        while "1 received" not in stations[-1].cmd(f"ping -c1 -W1 10.77.{third}.{fourth + 2}"):
            if time.monotonic() - begin > 300:
                raise SystemExit("the new link does not work")
        return {"what": "handover_mininet", "count": count, "commands_s": commands,
                "first_packet_s": time.monotonic() - begin}
    finally:
        for node in [old, new, *stations]:
            node.cleanup()
            node.terminate()


if __name__ == "__main__":
    for count in [int(arg) for arg in sys.argv[1:]] or [1, 10, 100]:
        print(json.dumps(handover(count)), flush=True)
