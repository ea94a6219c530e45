"""Faults in a lab of routing daemons: daemons killed at random, 1 % of the satellites failed, a plane cut off.

Iridium and 14 cities; the daemons are started again (`restart: {after: 1 s}`). Everything that is not hit must go on:
no other daemon ends, and a second lab, which runs at the same time, is not affected.
"""

import os
import pathlib
import signal
import time

import labs

VARIANTS = {
    "bird-ospf": "{daemon: bird, protocol: ospf, restart: {after: 1 s, at_most: 10 s}}",
    "frr-isis": "{daemon: frr, protocol: isis, restart: {after: 1 s, at_most: 10 s}}",
}
SECONDS = 150
KILLS_S = [10, 35, 60]
SATELLITES_S, PLANE_S, FOR_S = 85, 115, 15


def failures(victim):
    return f"""failures:
  - {{name: one-percent, at: {SATELLITES_S} s, for: {FOR_S} s, nodes: [{victim}]}}
  - {{name: plane-1, at: {PLANE_S} s, for: {FOR_S} s, plane: {{of: iridium, number: 1}}}}"""


def daemons(lab):
    """(pid, program, node) of the lab's daemons, by their marks."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            marks = (entry / "environ").read_bytes().split(b"\0")
            program = (entry / "comm").read_text().strip()
        except OSError:
            continue
        if f"CONSTEL_LAB={lab.name}".encode() not in marks or program == "ping":
            continue
        node = next(m[len(b"CONSTEL_NODE="):].decode() for m in marks if m.startswith(b"CONSTEL_NODE="))
        found.append((int(entry.name), program, node))
    return sorted(found)


def main():
    rng = labs.rng()
    for name, routing in VARIANTS.items():
        # 1 % of 66 satellites is one.
        victim = f"iridium-p{rng.randrange(6):02}-s{rng.randrange(11):02}"
        scenario = labs.iridium(name, SECONDS, routing, labs.pings(SECONDS), more=failures(victim))
        bystander = labs.iridium(
            "bystander", SECONDS, "{mode: computed}",
            f"  - {{name: ping, at: 1 s, for: {SECONDS - 2} s, "
                    "ping: {from: tokyo, to: delhi, interval: 100 ms, family: ipv4}}")
        killed, strangers = [], 0
        with labs.Lab(f"sn-faults-{name}", scenario) as lab, labs.Lab(f"sn-beside-{name}", bystander) as beside:
            for at_s in KILLS_S:
                if not lab.wait_until(at_s):
                    break
                before = daemons(lab)
                pid, program, node = rng.choice(before)
                os.kill(pid, signal.SIGKILL)
                killed.append((program, node))
                time.sleep(0.2)
                after = {pid for pid, _, _ in daemons(lab)}
                gone = [(p, n) for i, p, n in before if i not in after and n != node]
                strangers += len(gone)
            summary, other = lab.summary(), beside.summary()
        print(f"{name}: killed {killed}; daemons of other nodes that ended: {strangers}")
        for change in summary["changes"]:
            stood = change["converged_after_ns"]
            after = "not before the end" if stood is None else f"{stood / 1e9:.2f} s"
            print(f"  t = {change['t_ns'] / 1e9:6.1f} s  {change['kind']:12} {change['cause']:12} "
                  f"{', '.join(change['objects'][:2])}{' ...' if len(change['objects']) > 2 else '':4}  "
                  f"routes converged after {after}, {change.get('lost_probes')} probes lost")
        print(f"  verdict: {summary['verdict']['trustworthy']} {summary['verdict']['reasons']}")
        flow = other["flows"][0]
        print(f"  the lab beside it: {flow['sent_packets']} probes, loss {flow['loss_ratio']}, "
              f"{len(other['changes'])} changes, trustworthy: {other['verdict']['trustworthy']}", flush=True)


main()
