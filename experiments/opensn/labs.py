"""Runs labs and reads what they came to; shared by the experiments here. Needs root and a built `constel`."""

import csv
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONSTEL = os.environ.get("CONSTEL", str(ROOT / "target/release/constel"))
WORK = pathlib.Path(os.environ.get("WORK", "/tmp/constel-opensn"))
RAW = pathlib.Path(__file__).resolve().parent / "raw"

# Satellites serve one station at a time, which FRR's IS-IS and OSPFv3 need: the same sky for all.
IRIDIUM = """constel: 1
name: {name}
seed: 1
start: 2026-11-21T05:14:00Z
duration: {seconds} s
step: 1 s
clock: {{hold: until-routes-converge}}
constellations:
  iridium:
    walker: {{pattern: star, inclination: 86.4 deg, satellites: 66, planes: 6, phasing: 2, altitude: 780 km}}
    isl: {{pattern: plus-grid, seam: false, polar_cutoff: 60 deg, max_range: 6000 km,
          link: {{rate: 100 Mbit/s, queue: 256 KiB}}}}
    gsl: {{min_elevation: 8.2 deg, policy: {policy}, beams: 1, link: {{rate: 50 Mbit/s, queue: 128 KiB}}}}
ground:
  from:
    - file: {root}/scenarios/data/cities-top-1000-by-2025-population.csv
      names: [Tokyo, Delhi, São-Paulo, {{city: New-York-Newark, as: new-york}}, Cairo, Lagos, Buenos-Aires,
              Moscow, London, Lima, Johannesburg, Singapore, Sydney, Nairobi]
{ground}
routing: {routing}
{more}
traffic:
{traffic}
"""

def iridium(name, seconds, routing, traffic, ground="", more="", policy="longest-visible"):
    """A scenario over IRIDIUM."""
    return IRIDIUM.format(name=name, seconds=seconds, root=ROOT, routing=routing, traffic=traffic, ground=ground,
                          more=more, policy=policy)


PAIRS = [("tokyo", "london"), ("sydney", "new-york"), ("buenos-aires", "johannesburg"), ("delhi", "lima")]


def pings(seconds, interval_ms=100):
    """IPv4 probes between PAIRS from 1 s on."""
    return "\n".join(
        f"  - {{name: ping-{a}-{b}, at: 1 s, for: {seconds - 2} s, "
        f"ping: {{from: {a}, to: {b}, interval: {interval_ms} ms, family: ipv4}}}}"
        for a, b in PAIRS)


class Lab:
    """A `constel run` in the background; ends with the `with` block."""

    def __init__(self, name, scenario):
        WORK.mkdir(parents=True, exist_ok=True)
        self.name, self.results = name, WORK / name
        self.file = WORK / f"{name}.yaml"
        self.file.write_text(scenario)
        shutil.rmtree(self.results, ignore_errors=True)
        self.log = open(WORK / f"{name}.log", "w")
        self.process = subprocess.Popen(
            [CONSTEL, "run", str(self.file), "--name", name, "--results", str(self.results)],
            stdout=self.log, stderr=subprocess.STDOUT)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.process.poll() is None:
            self.process.send_signal(2)
            self.process.wait(60)

    def verb(self, *words):
        """A verb's JSON document; None when it failed."""
        done = subprocess.run([CONSTEL, *words, "--json"], capture_output=True, text=True)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def t_s(self):
        """Lab time; None before the clock runs."""
        rows = [row for row in self.verb("list") or [] if row["lab"] == self.name]
        if not rows or rows[0]["state"] != "running":
            return None
        t_ns = (self.verb("show", self.name) or {}).get("t_ns")
        return None if t_ns is None else t_ns / 1e9

    def wait_until(self, t_s):
        """Waits for a lab time; False when the lab ended before."""
        while self.process.poll() is None:
            now = self.t_s()
            if now is not None and now >= t_s:
                return True
            time.sleep(0.1 if now is None else min(0.5, max(0.02, t_s - now)))
        return False

    def summary(self, more=lambda summary: {}):
        """Waits for the end and reads the summary; what `more` makes of it is kept beside."""
        self.process.wait()
        path = self.results / "summary.json"
        if not path.exists():
            sys.exit(f"{self.name} gave no summary: see {self.log.name}")
        summary = json.loads(path.read_text())
        keep(self.name, summary, **more(summary))
        return summary

    def phases(self, converged_s=None):
        """Resources of a run while it was built, until routes had converged, and after that, from its series. If kernels' tables are
        not sampled, `converged_s` of lab time says when they had converged."""
        with open(self.results / "series.csv", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        lab = [float(r["t_s"]) for r in rows if r["stage"].startswith("lab time")]
        right = [float(r["t_s"]) for r in rows if r["routes_right_ratio"] and float(r["routes_right_ratio"]) == 1]
        started = [int(r["daemons_started"] or 0) for r in rows]
        built = next((float(r["t_s"]) for r, n in zip(rows, started) if n and n == max(started)), lab[0])
        stood = lab[0] + converged_s if converged_s is not None else right[0] if right else None
        ends = {"construction": built, "convergence": stood, "operation": lab[-1]}
        phases, begin = [], 0.0
        for name, end in ends.items():
            if end is None:
                continue
            of = [r for r in rows if begin < float(r["t_s"]) <= end]
            if of:
                phases.append({
                    "phase": name, "seconds": end - begin,
                    "processor_ratio": sum(float(r["processor_ratio"]) for r in of) / len(of),
                    "memory_bytes": max(int(r["memory_used_bytes"]) for r in of),
                })
            begin = end
        return {"phases": phases, "memory_before_bytes": int(rows[0]["memory_used_bytes"])}


def keep(name, summary, **more):
    """Keeps what a run came to in raw/NAME.json, from which report.py writes the tables of the page."""
    RAW.mkdir(exist_ok=True)
    about = {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "kernel": os.uname().release,
        "processors": os.cpu_count(),
        "commit": subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"],
                                 capture_output=True, text=True).stdout.strip(),
    }
    (RAW / f"{name}.json").write_text(json.dumps({**about, **more, "summary": summary}, indent=1) + "\n")


def cost(summary):
    """Processor seconds and memory of the daemons at the end, in words."""
    rows = [row for row in summary["daemons"] if row["when"] == "end"]
    return "; ".join(
        f"{row['program']} {row['cpu_total_s']:.1f} s, {row['private_bytes']['p50'] / 2**20:.1f} MiB" for row in rows)


def rng():
    return random.Random(int(os.environ.get("SEED", "1")))
