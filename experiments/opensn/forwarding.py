"""Forwarding by the kernels' tables and by one map, the same scenario in turn: how long changed routes take to stand, what
is lost at handovers, and the relay's processor time. Without arguments the two Iridium scenarios; `computed` is
Shell I with 100 stations. SECONDS_OF_LAB shortens a run.
"""

import os
import re
import sys

import labs

HERE = labs.pathlib.Path(__file__).resolve().parent
SECONDS = int(os.environ.get("SECONDS_OF_LAB", "51"))


def scenario(name, forwarding):
    """The scenario of this folder, wherever it stands then, this long, forwarding so."""
    text = (HERE / f"{name}.yaml").read_text().replace("../../scenarios", str(labs.ROOT / "scenarios"))
    for pattern, new in [(r"(?m)^duration: .*$", f"duration: {SECONDS} s"),
                         (r"(?m)^  mode: computed$", f"  mode: computed\n  forwarding: {forwarding}"),
                         # No flow may outlive the lab.
                         (r"for: \d+ s", f"for: {SECONDS - 3} s")]:
        text, count = re.subn(pattern, new, text)
        assert count, pattern
    return text


def ms(ns):
    return f"{ns / 1e6:.2f}"


def row(summary):
    """The result of a run, in words."""
    stood = sorted(h["converged_after_ns"] for h in summary["handovers"] if h["converged_after_ns"] is not None)
    middle = ms(stood[len(stood) // 2]) if stood else "-"
    steps = summary["steps"]
    lost = sum(h.get("lost_probes") or 0 for h in summary["handovers"])
    cpu = summary["relay"].get("cpu_ns", 0)
    trust = summary["verdict"]
    return (f"{len(summary['handovers'])} handovers, routes converged after {middle} ms (median; {ms(stood[-1]) if stood else '-'} at "
            f"most), {lost} probes lost; neighbours and routes of a step p50 {ms(steps['kernel_ns']['p50'])}, p99 "
            f"{ms(steps['kernel_ns']['p99'])} ms; relay {cpu / 1e9:.2f} s; "
            f"{'trustworthy' if trust['trustworthy'] else trust['reasons']}")


def main():
    for name in sys.argv[1:] or ["plain", "drained"]:
        for forwarding in ("tables", "map"):
            with labs.Lab(f"sn-{name}-{forwarding}", scenario(name, forwarding)) as lab:
                print(f"{name:8} {forwarding:6}: {row(lab.summary())}", flush=True)


main()
