"""The parts of `run` that need another kernel: in QEMU without hardware virtualisation, by tools/kernels. Figures of what an emulated machine
could do, of delays and repair above all, and beside each other."""

import json
import shutil
import subprocess

import swarm
from swarm import HERE, ROOT, WORK, points

KERNELS = ROOT / "tools/kernels"
DRIVERS = ("relay", "edt", "netem")


def boot(series, limit_s, job, files):
    """The console of a guest that runs the job; `files` are those it has, by their paths there."""
    WORK.mkdir(parents=True, exist_ok=True)
    subprocess.run([KERNELS / "fetch", series], check=True)
    script = WORK / "job"
    script.write_text(job)
    pairs = [f"{here}:{there}" for there, here in files.items()]
    done = subprocess.run([KERNELS / "boot", series, str(limit_s), script, *pairs], capture_output=True, text=True)
    (WORK / f"console-{series}").write_text(done.stdout + done.stderr)
    if done.returncode:
        raise SystemExit(f"the guest ended with {done.returncode}: see {WORK}/console-{series}")
    return done.stdout


def program(name):
    return shutil.which(name) or raise_missing(name)


def raise_missing(name):
    raise SystemExit(f"{name} is not installed here")


def sections(console):
    """What stands behind each `=== NAME` of a console."""
    told, name = {}, None
    for line in console.splitlines():
        if line.startswith("=== "):
            name = line[4:]
            told[name] = ""
        elif name:
            told[name] += line + "\n"
    return told


def drivers():
    """Becker's Figs 8 and 9 from a scenario, with each driver in one guest."""
    points("drivers", [{"kernel": "6.12"}], lambda kernel: edged(kernel))


def edged(series):
    folder = HERE / "guest"
    job = "echo 1 > /sys/kernel/rcu_expedited\ncd /mesh\nfor driver in " + " ".join(DRIVERS) + "; do\n" \
        "  sed \"s/DRIVER/$driver/\" edges.yaml > $driver.yaml\n  constel run $driver.yaml --results /tmp/$driver 2> /tmp/log || tail -3 /tmp/log\n" \
        "  echo \"=== $driver\"; cat /tmp/$driver/summary.json; echo; echo '=== end'\ndone\n"
    files = {"/bin/constel": swarm.CONSTEL, "/bin/iperf3": program("iperf3"), "/bin/timeout": program("timeout"), "/mesh/edges.yaml": folder / "edges.yaml",
             "/mesh/edges.csv": folder / "edges.csv"}
    told = sections(boot(series, 900, job, files))
    rows = []
    for driver in DRIVERS:
        summary = json.loads(told[driver])
        flows = {flow["name"]: flow for flow in summary["flows"]}
        rows.append({"driver": driver, "n": 16, "flows": flows, "verdict": summary["verdict"]})
    return rows
