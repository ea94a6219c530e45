"""The part `manet` of `run`: daemons for networks without infrastructure on a chain whose ends change places, and on a grid that breaks."""

import json

from flying import answered_by_second, probes, sent_bytes
from swarm import HERE, WORK, Lab, points

NODES = {"chain": 4, "grid": 25}
SECONDS, CHANGE_S = 120, 60


def node(number, n):
    return f"node-{number:0{len(str(n - 1))}d}"


def manet():
    """babeld and batmand on a chain of three hops whose ends move, and on 25 craft: how long until routes converge and converge again, at what cost."""
    keys = [{"protocol": protocol, "shape": shape} for shape in ("chain", "grid") for protocol in ("babeld", "batmand")]
    points("manet", keys, lambda protocol, shape: [routed(protocol, shape)])


def near(shape, n, broken=False):
    """Pairs that hear each other. In the chain the last two change places; in the grid the inner craft are gone."""
    if shape == "chain":
        order = [0, 1, 3, 2] if broken else [0, 1, 2, 3]
        return {(order[i], order[i + 1]) for i in range(n - 1)}
    width = 5
    pairs = {(r * width + c, r * width + c + 1) for r in range(width) for c in range(width - 1)}
    pairs |= {(r * width + c, (r + 1) * width + c) for r in range(width - 1) for c in range(width)}
    # What is left is the way round by the first column and the last row.
    left = {*range(0, n, width), *range(n - width, n)}
    return {p for p in pairs if left.issuperset(p)} if broken else pairs


def scenario(protocol, shape, scripts):
    """The network's matrix, manet.csv, and the scenario without its head; `scripts` is the folder of those that start a protocol."""
    n = NODES[shape]
    lines = ["from,to,delay_ms,t_s"]
    for t_s, broken in ((0, False), (CHANGE_S, True)):
        for a, b in sorted(near(shape, n, broken)):
            lines += [f"{node(a, n)},{node(b, n)},1,{t_s}", f"{node(b, n)},{node(a, n)},1,{t_s}"]
    traffic = [f"  - {{name: routing-{i}, at: 0 s, for: {SECONDS - 1} s, run: {{node: {node(i, n)}, command: [sh, /mnt/{protocol}]}}}}" for i in range(n)]
    traffic.append(f"  - {{name: ends, at: 0 s, for: {SECONDS - 2} s, ping: {{from: {node(0, n)}, to: {node(n - 1, n)}, interval: 100 ms, family: ipv4}}}}")
    body = f"ground: {{hosts: {{node: {{count: {n}, latitude: 0 deg, longitude: 0 deg}}}}}}\n" \
        "networks: {radio: {members: [node-*], law: {matrix: manet.csv}, link: {rate: 2 Mbit/s, queue: 64 KiB}}}\nrouting: {mode: none}\n" \
        f"mounts:\n  - {{host: {scripts}, at: /mnt}}\ntraffic:\n" + "\n".join(traffic) + "\n"
    return "\n".join(lines) + "\n", body


def routed(protocol, shape):
    """One run: the furthest probe each other ten times a second."""
    matrix, body = scenario(protocol, shape, HERE / "manet")
    WORK.mkdir(parents=True, exist_ok=True)
    (WORK / "manet.csv").write_text(matrix)
    with Lab("swarm-manet", body, seconds=SECONDS, more=["--profile", "10"]) as lab:
        lab.finish()
    return judged(lab.results, NODES[shape])


def judged(results, n):
    """Figures of a run's folder: when the first probe was answered, for how long none was after the change, the resources."""
    summary = json.loads((results / "summary.json").read_text())
    sent = probes(results, "ends")
    # Repaired: the first answer after the first loss that follows the change.
    after = [(t, ok) for t, ok in sent if t >= CHANGE_S]
    lost = [t for t, ok in after if not ok]
    back = next((t for t, ok in after if ok and (not lost or t > lost[0])), None)
    return {"n": n, "first_answer_s": next((t for t, ok in sent if ok), None), "outage_s": back - lost[0] if lost and back else (None if lost else 0.0),
            "lost_after_change": len([t for t in lost if back and t < back]), "loss_ratio": 1 - sum(ok for _, ok in sent) / max(1, len(sent)),
            "sent": len(sent), "verdict": summary["verdict"], **sent_bytes(results / "interfaces", n, SECONDS),
            "answered_by_second": answered_by_second(sent, SECONDS)}
