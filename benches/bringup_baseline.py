#!/usr/bin/env python3
"""The plain way to make a constellation's namespaces and interfaces: one `ip -batch`.

Reads `constel plan FILE --at 0s --json` from stdin, makes the same namespaces and veth pairs (host ends
sharded the same way, so that the comparison is fair to the kernel's tables), and deletes them again.
Prints one JSON object with the seconds each half took. With `--addressed` it does so once more with interfaces that
are up and have an IPv4 and a link-local IPv6 address each, as a node that can talk must, and says how long deleting
took then; giving addresses (one `ip` per namespace) is not timed. Run it under `unshare --mount --net` (benches/bringup
does): names then live in a private /run/netns and nothing is left behind, even if it is killed.
"""

import json
import subprocess
import sys
import tempfile
import time

HOST_ENDS_PER_SHARD = 400


def batch(lines: list[str], netns: str | None = None) -> float:
    with tempfile.NamedTemporaryFile("w", suffix=".batch") as file:
        file.write("\n".join(lines) + "\n")
        file.flush()
        command = ["ip"] + (["-n", netns] if netns else []) + ["-batch", file.name]
        start = time.monotonic()
        subprocess.run(command, check=True)
        return time.monotonic() - start


def wait_empty(shards: int, limit_s: float = 120.0) -> None:
    """Deleting a namespace only queues its interfaces for deletion; wait until the host ends are gone."""
    end = time.monotonic() + limit_s
    for shard in range(shards):
        while True:
            out = subprocess.run(
                ["ip", "-n", f"shard{shard}", "-o", "link"], check=True, capture_output=True, text=True
            ).stdout
            if sum("veth" in line or line.split(": ")[1].startswith("h") for line in out.splitlines()) == 0:
                break
            if time.monotonic() > end:
                sys.exit("host ends did not go away")
            time.sleep(0.005)


def make(plan: dict, ports: list, shards: int) -> float:
    up = [f"netns add shard{i}" for i in range(shards)]
    up += [f"netns add {node['name']}" for node in plan["nodes"]]
    for number, (node, port) in enumerate(ports):
        shard = number // HOST_ENDS_PER_SHARD
        up.append(
            f"link add h{number} netns shard{shard} numtxqueues 1 numrxqueues 1 type veth "
            f"peer name {port} netns {node} numtxqueues 1 numrxqueues 1"
        )
    return batch(up)


def address(plan: dict, ports: list, shards: int) -> None:
    for shard in range(shards):
        own = range(shard * HOST_ENDS_PER_SHARD, min((shard + 1) * HOST_ENDS_PER_SHARD, len(ports)))
        batch([f"link set h{number} up" for number in own], f"shard{shard}")
    number = 0
    for node in plan["nodes"]:
        lines = ["link set lo up"]
        for port in node["ports"]:
            lines += [f"link set {port} up", f"address add 10.{number >> 16}.{number >> 8 & 255}.{number & 255}/31 dev {port}"]
            number += 1
        batch(lines, node["name"])


def delete(plan: dict, shards: int) -> float:
    down_s = batch([f"netns del {node['name']}" for node in plan["nodes"]])
    start = time.monotonic()
    wait_empty(shards)
    down_s += time.monotonic() - start
    return down_s + batch([f"netns del shard{i}" for i in range(shards)])


def main() -> None:
    plan = json.load(sys.stdin)
    ports = [(node["name"], port) for node in plan["nodes"] for port in node["ports"]]
    shards = -(-len(ports) // HOST_ENDS_PER_SHARD)
    figures = {"namespaces": len(plan["nodes"]), "interfaces": len(ports)}
    figures["up_s"] = make(plan, ports, shards)
    figures["down_s"] = delete(plan, shards)
    if sys.argv[1:] == ["--addressed"]:
        make(plan, ports, shards)
        address(plan, ports, shards)
        figures["addressed_down_s"] = delete(plan, shards)
    json.dump(figures, sys.stdout)
    print()


if __name__ == "__main__":
    main()
