"""Runs of labs, and what they take of the machine meanwhile."""

import os
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def available_mib():
    rows = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    return int(rows["MemAvailable"].split()[0]) / 1024


def peak_mib(pid):
    """Of the lab's own process; 0 when that has ended."""
    try:
        rows = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        return int(rows["VmHWM"].split()[0]) / 1024
    except (OSError, KeyError):
        return 0


def run(scenario, name, results, flags):
    """`constel run`; its exit code, what the machine had less at the worst moment, and what the lab's process took at most, MiB."""
    before, own = available_mib(), 0
    least = before
    command = ["target/release/constel", "run", scenario, "--name", name, "--results", results, *flags]
    with open(os.devnull, "w") as nowhere:
        lab = subprocess.Popen(command, cwd=ROOT, stdout=nowhere, stderr=nowhere)
        while lab.poll() is None:
            least, own = min(least, available_mib()), max(own, peak_mib(lab.pid))
            time.sleep(0.2)
    return lab.returncode, before - least, own
