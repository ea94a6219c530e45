"""Runs of labs, and the machine's resources that they use."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def available_mib():
    rows = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    return int(rows["MemAvailable"].split()[0]) / 1024


def peak_mib(pid):
    """CPU time of the lab's own process; 0 when that has ended."""
    try:
        rows = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        return int(rows["VmHWM"].split()[0]) / 1024
    except (OSError, KeyError):
        return 0


def run(scenario, name, folder, flags):
    """`constel run`, to results in the folder: its summary, what the machine had less at the worst moment, and what the lab's process took at most,
    MiB. A run that is not trustworthy counts as a result; without a result, this program ends."""
    before, own = available_mib(), 0
    least, results = before, Path(folder, "results")
    command = ["target/release/constel", "run", scenario, "--name", name, "--results", results, *flags]
    with tempfile.TemporaryFile("w+") as said:
        lab = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=said)
        while lab.poll() is None:
            least, own = min(least, available_mib()), max(own, peak_mib(lab.pid))
            time.sleep(0.2)
        said.seek(0)
        if not (results / "summary.json").exists():
            sys.exit(f"{name}: exit code {lab.returncode}: {said.read()[-600:]}")
    return json.loads((results / "summary.json").read_text()), before - least, own
