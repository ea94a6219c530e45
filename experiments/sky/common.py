"""Functions that the experiments share: the command, scenarios, timing, the host."""

import json
import os
import pathlib
import platform
import resource
import subprocess
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CONSTEL = os.environ.get("CONSTEL", str(ROOT / "target/release/constel"))
RAW = pathlib.Path(os.environ.get("RAW", HERE / "raw"))
RAW.mkdir(parents=True, exist_ok=True)
CITIES = ROOT / "scenarios/data/cities-top-1000-by-2025-population.csv"

MU, EARTH, J2, FLATTENING, C = 3.986004418e14, 6378137.0, 1.08262668e-3, 1 / 298.257223563, 299792458.0

START = "2026-11-21T00:00:00Z"
SHELL1_WALKER = {"satellites": 1584, "planes": 72, "phasing": 65, "altitude_m": 550e3, "inclination_deg": 53}

SHELL1 = """constel: 1
name: shell1
seed: 1
start: 2026-11-21T00:00:00Z
duration: 1 d
step: 1 s
constellations:
  shell1:
    walker: {{pattern: delta, inclination: 53 deg, satellites: 1584, planes: 72, phasing: 65, altitude: 550 km}}
    isl: {{pattern: plus-grid, link: {{rate: 200 Mbit/s}}}}
    gsl: {{min_elevation: 25 deg, link: {{rate: 100 Mbit/s}}}}
ground:
{ground}
"""


def scenario(name, text):
    path = RAW / f"{name}.yaml"
    path.write_text(text)
    return str(path)


def shell1(name, ground):
    return scenario(name, SHELL1.format(ground=ground))


def cities(first):
    return f"  from:\n    - {{file: {os.path.relpath(CITIES, RAW)}, first: {first}}}"


def run(*args, out=None):
    """Runs constel; (wall seconds, CPU seconds, peak memory in MB, stdout unless it goes to a file)."""
    before = time.perf_counter()
    with open(out, "wb") if out else open(os.devnull, "wb") as sink:
        process = subprocess.Popen([CONSTEL, *args], stdout=sink if out else subprocess.PIPE)
        text = None if out else process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, args
    return time.perf_counter() - before, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, text


def plan_json(file, at_s):
    return json.loads(run("plan", file, "--at", f"{at_s}s", "--json")[3])


def host():
    model = "?"
    with open("/proc/cpuinfo") as f:
        for line in f:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return {"cpu": model, "cpus": os.cpu_count(), "kernel": platform.release(), "load": os.getloadavg()}


def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def save(name, data):
    (RAW / f"{name}.json").write_text(json.dumps(data, indent=1) + "\n")
