"""Namespaces that stand for computers, cables between them, and a box: what the studies here share.

Every started process ends with the process that started it, in every case. Namespaces of one that was killed go with the next.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
CONSTEL = Path(os.environ.get("CONSTEL", HERE.parents[1] / "target/release/constel"))


def ip(*words):
    subprocess.run(["ip", *map(str, words)], check=True)


def ending(signal, *command):
    """The command, which gets this signal when its parent ends."""
    return ["setpriv", "--pdeathsig", signal, *map(str, command)]


class Family(subprocess.Popen):
    """A program of a namespace of processes, which takes with it all that it started."""

    def __init__(self, command, **more):
        super().__init__(ending("KILL", "unshare", "--pid", "--kill-child", *command), **more)

    def terminate(self):
        # `unshare` waits for its child, and hears nothing else.
        self.kill()


def sweep():
    """Removes namespaces of processes that are no more."""
    for space in Path("/run/netns").glob("nist-*-*"):
        if not Path("/proc", space.name.rsplit("-", 1)[1]).exists():
            ip("netns", "delete", space.name)


def in_time(run):
    """Whether the box of a slice was in time: 99 of 100 frames within a thirtieth of the shortest round trip of these studies."""
    return run["fidelity"]["lateness_p99_ns"] <= 10e6


class Spaces:
    """Network namespaces by short names; gone when the `with` is over."""

    def __init__(self, *sides):
        self.named = {side: f"nist-{side}-{os.getpid()}" for side in sides}

    def __enter__(self):
        sweep()
        for space in self.named.values():
            ip("netns", "add", space)
            ip("-n", space, "link", "set", "lo", "up")
        return self

    def __exit__(self, *_):
        for space in self.named.values():
            subprocess.run(["ip", "netns", "delete", space], check=False)

    def inside(self, side, *command):
        return ["ip", "netns", "exec", self.named[side], *map(str, command)]

    def run(self, side, *command, **more):
        return subprocess.run(self.inside(side, *command), check=True, **more)

    def start(self, side, *command, **more):
        return subprocess.Popen(ending("KILL", *self.inside(side, *command)), **more)

    def family(self, side, *command, **more):
        return Family(self.inside(side, *command), **more)

    def set(self, side, **settings):
        for key, value in settings.items():
            self.run(side, "sysctl", "-qw", f"net.ipv4.{key}={value}")

    def cable(self, a, a_name, a_address, b, b_name, b_address):
        ip("-n", self.named[a], "link", "add", a_name, "type", "veth", "peer", "name", b_name, "netns", self.named[b])
        for side, name, address in ((a, a_name, a_address), (b, b_name, b_address)):
            ip("-n", self.named[side], "link", "set", name, "up")
            if address:
                ip("-n", self.named[side], "address", "add", address, "dev", name)

    def route(self, side, to, via):
        ip("-n", self.named[side], "route", "add", to, "via", via)


class Box:
    """`constel box A B` in a namespace, up within the `with`; `summary` and `results` are there behind it."""

    def __init__(self, spaces, side, interfaces, rules, work, *flags):
        self.name = f"nistnet-{os.getpid()}"
        self.results = Path(work) / "results"
        file = Path(work) / "box.yaml"
        file.write_text(rules)
        command = spaces.inside(side, CONSTEL, "box", *interfaces, "--name", self.name, "--rules", file, "--results", self.results, *flags)
        self.command = ending("TERM", *command)
        self.summary = None

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL)
        while not any(lab["lab"] == self.name and lab["state"] == "running" for lab in labs()):
            if self.process.poll() is not None:
                sys.exit("the box has ended")
            time.sleep(0.1)
        return self

    def show(self):
        shown = subprocess.run([CONSTEL, "box", "show", self.name, "--json"], check=True, capture_output=True)
        return json.loads(shown.stdout)

    def __exit__(self, *_):
        end([self.process])
        file = self.results / "summary.json"
        self.summary = json.loads(file.read_text()) if file.exists() else None


def labs():
    listed = subprocess.run([CONSTEL, "list", "--json"], capture_output=True).stdout
    found = json.loads(listed or "[]")
    return found["labs"] if isinstance(found, dict) else found


def end(processes):
    for process in processes:
        if process.poll() is None:
            process.terminate()
    for process in processes:
        process.wait(30)


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]
