#!/usr/bin/python3
"""Handovers and new delays as StarryNet does them: by the `docker` command, a network a link.

    benches/handover_starrynet.py [COUNT ...]

A dockerd of its own; stations and two satellites are containers. Each station loses its link to the first satellite (both disconnected, its
network removed) and gets one to the second (a network, both connected, a discipline by `docker exec` of `tc`). As many stations change at a
time as there are processors. Measured are the seconds from the first command until the last station's ping gets through. Then every link's discipline is changed, as a
new delay is set. Prints JSON, one line a count.
"""

import json
import pathlib
import sys
import tempfile
import time

import engine_baselines
from engine_baselines import IMAGE, MARK, run


def handover(count, pool, qdisc):
    stations = [f"{MARK}-s{n}" for n in range(count)]
    satellites = [f"{MARK}-a", f"{MARK}-b"]
    networks = []

    def container(name):
        run("docker", "run", "--detach", "--cap-add", "NET_ADMIN", "--network", "none", "--name", name, "--entrypoint", "/bin/sleep", IMAGE, "100000")
        # What has no network cannot be given one.
        run("docker", "network", "disconnect", "none", name)

    def discipline(verb, name, address):
        listed = run("docker", "exec", name, "/bin/ip", "-o", "-4", "addr")
        device = next(line.split()[1] for line in listed.splitlines() if f" {address}/" in line)
        run("docker", "exec", name, "/bin/tc", "qdisc", verb, "dev", device, "root", *qdisc.split())

    def link(n, satellite, generation):
        high, low = divmod(n + generation * 1000, 256)
        network, base = f"{MARK}-{generation}-{n}", f"10.{150 + high}.{low}"
        run("docker", "network", "create", "--subnet", f"{base}.0/24", network)
        networks.append(network)
        for end, name in ((2, satellites[satellite]), (3, stations[n])):
            run("docker", "network", "connect", "--ip", f"{base}.{end}", network, name)
            discipline("add", name, f"{base}.{end}")
        return base

    def gone(n):
        network = f"{MARK}-0-{n}"
        for name in (satellites[0], stations[n]):
            run("docker", "network", "disconnect", network, name)
        run("docker", "network", "rm", network)
        networks.remove(network)

    def over(n):
        gone(n)
        return link(n, 1, 1)

    try:
        pool.each(container, [*satellites, *stations])
        pool.each(lambda n: link(n, 0, 0), range(count))
        began = time.monotonic()
        bases = pool.each(over, range(count))
        run("docker", "exec", stations[-1], "/bin/ping", "-c", "1", "-W", "5", f"{bases[-1]}.2")
        handovers_s = time.monotonic() - began
        began = time.monotonic()
        pool.each(lambda n: discipline("change", stations[n], f"{bases[n]}.3"), range(count))
        return {"what": "handover_starrynet", "count": count, "first_packet_s": handovers_s, "changed_s": time.monotonic() - began}
    finally:
        engine_baselines.quietly("docker", "rm", "--force", *satellites, *stations)
        engine_baselines.quietly("docker", "network", "rm", *networks)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        engine_baselines.root(folder)
        with engine_baselines.dockerd(folder):
            engine_baselines.give_image(folder)
            qdisc, _ = engine_baselines.discipline()
            pool = engine_baselines.Pool()
            for count in [int(arg) for arg in sys.argv[1:]] or [1, 10]:
                print(json.dumps(handover(count, pool, qdisc)), flush=True)


if __name__ == "__main__":
    main()
