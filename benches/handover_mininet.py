#!/usr/bin/python3
"""Handover as Mininet does it: the old link is deleted, a new one is made, addresses are set again.

Debian's package `mininet`; hosts are its nodes (namespaces with a shell), links its veth pairs.
Prints JSON, one line a count: seconds from the command until the last station's ping gets through.
A count for which the commands take more than LIMIT_S is given up, and reported as such.

    benches/handover_mininet.py [COUNT ...]
"""
import json
import resource
import signal
import sys
import time

try:
    from mininet.link import Link
    from mininet.node import Node
except ImportError:
    sys.exit("handover_mininet: Mininet is not installed (apt-get install --no-install-recommends mininet)")

LIMIT_S = 300


def handover(count):
    old, new = Node("cstA", inNamespace=True), Node("cstB", inNamespace=True)
    stations = []
    try:
        # One by one, so that those made are taken away if one cannot be.
        for n in range(count):
            stations.append(Node(f"cs{n}", inNamespace=True))
        links = [Link(s, old, intfName1=f"cs{n}-e", intfName2=f"A-{n}") for n, s in enumerate(stations)]
        signal.alarm(LIMIT_S)
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
            pass
        return {"what": "handover_mininet", "count": count, "commands_s": commands,
                "first_packet_s": time.monotonic() - begin}
    except TimeoutError:
        return {"what": "handover_mininet", "count": count, "given_up_after_s": LIMIT_S}
    finally:
        signal.alarm(0)
        for node in [old, new, *stations]:
            node.cleanup()
            node.terminate()


def give_up(*_):
    raise TimeoutError


if __name__ == "__main__":
    # A node needs several descriptors.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    signal.signal(signal.SIGALRM, give_up)
    for count in [int(arg) for arg in sys.argv[1:]] or [1, 10, 100]:
        print(json.dumps(handover(count)), flush=True)
