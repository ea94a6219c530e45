"""The parts of `run` that need another kernel. Figures of what an emulated machine could do, of delays and repair above all, and beside each other."""

import json
import sys

import swarm
from chains import NODES, SECONDS, judged, scenario
from swarm import HERE, WORK, points

sys.path.insert(0, str(HERE.parent))
from guest import boot, boot_and_keep, program, sections  # noqa: E402

DRIVERS = ("relay", "edt", "netem")


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
    told = sections(boot(WORK, series, 900, job, files))
    rows = []
    for driver in DRIVERS:
        summary = json.loads(told[driver])
        flows = {flow["name"]: flow for flow in summary["flows"]}
        rows.append({"driver": driver, "n": 16, "flows": flows, "verdict": summary["verdict"]})
    return rows


def manet_guest():
    """As `manet`, with batman-adv beside, which is a part of the kernel that this machine's lacks."""
    keys = [{"protocol": protocol, "shape": shape} for shape in ("chain", "grid") for protocol in ("babeld", "batmand", "batman-adv")]
    points("manet_guest", keys, lambda protocol, shape: [meshed(protocol, shape)])


def meshed(protocol, shape):
    matrix, body = scenario(protocol, shape, "/mesh/manet")
    WORK.mkdir(parents=True, exist_ok=True)
    (WORK / "manet.csv").write_text(matrix)
    (WORK / "manet.yaml").write_text(swarm.HEAD.format(name="manet", seconds=SECONDS, seed=1) + body)
    files = {"/bin/constel": swarm.CONSTEL, "/mesh/manet.yaml": WORK / "manet.yaml", "/mesh/manet.csv": WORK / "manet.csv",
             **{f"/mesh/manet/{own.name}": own for own in (HERE / "manet").iterdir()},
             **{f"/bin/{name}": program(name) for name in ("babeld", "batmand")}, "/sbin/ip": program("ip")}
    job = "echo 1 > /sys/kernel/rcu_expedited\nmkdir -p /mnt\nconstel run /mesh/manet.yaml --results /tmp/kept --profile 10 > /tmp/log 2>&1\necho \"ended with $?\"; tail -5 /tmp/log\n"
    _, kept = boot_and_keep(WORK, "6.12-full", 600, job, files, "/tmp/kept")
    return judged(kept, NODES[shape])
