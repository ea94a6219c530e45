"""All-pairs least-delay paths between 100 cities over Shell I, each second for 10 minutes.

Two comparisons, each of like with like:

- the whole job: positions, choice of satellites, links, paths, hop counts and changes of path, by the command
  (from its start to its end) and by Python (numpy and scipy.sparse.csgraph, as fast as we could write it, on fewer
  seconds in a row, scaled). Positions differ by rounding: the delays must agree to a nanosecond a hop.
- the search alone, on ready-made graphs: scipy and networkx get those of single seconds from `constel plan --at`
  (the delays must agree to the nanosecond); Constel's is timed by a test of its own.
"""

import csv
import datetime
import os
import re
import subprocess
import sys
import time

import common

SECONDS = 600
SCIPY_STEPS = int(os.environ.get("SCIPY_STEPS", "10"))
NETWORKX_STEPS = int(os.environ.get("NETWORKX_STEPS", "2"))
WHOLE_STEPS = int(os.environ.get("WHOLE_STEPS", "60"))


def graph_of(document):
    """Arcs between satellites, and each city's satellite with its delay."""
    index = {node["name"]: n for n, node in enumerate(document["nodes"])}
    ground = [n["name"] for n in document["nodes"] if n["kind"] == "ground"]
    arcs, access = [], {name: [] for name in ground}
    for edge in document["edges"]:
        a, b = edge["from_node"], edge["to_node"]
        if edge["kind"] == "isl":
            arcs.append((index[a], index[b], edge["delay_ns"]))
        elif a in access:
            access[a].append((index[b], edge["delay_ns"]))
    return arcs, access, ground, len(index) - len(ground)


def by_scipy(arcs, access, ground, satellites):
    import numpy as np
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import dijkstra

    # Cities have one antenna each: a satellite and the delay to it, or none.
    serving = np.array([hops[0][0] if hops else 0 for hops in access.values()])
    last = np.array([hops[0][1] if hops else float("inf") for hops in access.values()])
    x, y = np.triu_indices(len(ground), 1)
    begun = time.process_time()
    i, j, w = (np.array(column, dtype) for column, dtype in zip(arcs, (int, int, float)))
    matrix = csr_matrix((w, (i, j)), shape=(satellites, satellites))
    roots, row = np.unique(serving, return_inverse=True)
    # Predecessors too: without them there is neither a path nor a hop count.
    distance, _ = dijkstra(matrix, indices=roots, return_predecessors=True)
    delay = last[x] + distance[row[x], serving[y]] + last[y]
    spent = time.process_time() - begun
    return spent, {(ground[a], ground[b]): d for a, b, d in zip(x, y, delay)}


def by_networkx(arcs, access, ground):
    import networkx as nx

    begun = time.process_time()
    graph = nx.DiGraph()
    graph.add_weighted_edges_from(arcs)
    result = {}
    for x, a in enumerate(ground):
        result.update({(a, b): float("inf") for b in ground[x + 1:]})
        for s, up in access[a]:
            distance, _paths = nx.single_source_dijkstra(graph, s)
            for b in ground[x + 1:]:
                for t, down in access[b]:
                    if t in distance:
                        result[a, b] = min(result[a, b], up + distance[t] + down)
    return time.process_time() - begun, result


def search_alone(file):
    """ms a step of each part of Constel's own work on one thread, printed by a test of the plan crate."""
    command = ["cargo", "test", "--release", "-q", "-p", "constel-analysis", "--test", "speed", "--", "--ignored", "--nocapture"]
    environment = dict(os.environ, SCENARIO=str(file))
    text = subprocess.run(command, cwd=common.ROOT, env=environment, check=True, capture_output=True, text=True).stdout
    # `search`: graphs, distances and paths, everything but orbits and links.
    return {part: float(ms) for part, ms in re.findall(r"^(\w+): ([0-9.]+) ms a step$", text, re.M)}


class Whole:
    """The whole job in numpy and scipy: the scenario's circular orbits with the drifts of J2 in closed form."""

    def __init__(self, file):
        import numpy as np

        self.np = np
        numbers = common.SHELL1_WALKER
        planes, slots = numbers["planes"], numbers["satellites"] // numbers["planes"]
        plane, slot = np.divmod(np.arange(numbers["satellites"]), slots)
        r, i = common.EARTH + numbers["altitude_m"], np.radians(numbers["inclination_deg"])
        motion = np.sqrt(common.MU / r**3)
        drift = 1.5 * common.J2 * (common.EARTH / r) ** 2 * motion
        self.r, self.sin_i, self.cos_i = r, np.sin(i), np.cos(i)
        self.raan = 2 * np.pi * plane / planes
        self.u = 2 * np.pi * (slot / slots + plane * numbers["phasing"] / numbers["satellites"])
        self.raan_rate, self.u_rate = -drift * np.cos(i), motion + drift * (4 * np.cos(i) ** 2 - 1)
        self.start = datetime.datetime.fromisoformat(common.START.replace("Z", "+00:00"))
        # Links: the next slot, and the nearest in phase of the next plane (phasing over half: the slot behind).
        across = np.where(plane < planes - 1, -1, numbers["phasing"] - 1)
        ahead = plane * slots + (slot + 1) % slots
        east = (plane + 1) % planes * slots + (slot + across) % slots
        self.a = np.concatenate([np.arange(len(plane))] * 2)
        self.b = np.concatenate([ahead, east])
        self.names, self.ground, self.up = self.cities(file)

    def cities(self, file):
        np = self.np
        document = common.plan_json(file, 0)
        rows = [n for n in document["nodes"] if n["kind"] == "ground"]
        ground = np.array([n["position_itrf_m"] for n in rows])
        # Up is the ellipsoid's normal at height 0.
        normal = ground / np.array([1, 1, (1 - common.FLATTENING) ** 2])
        return [n["name"] for n in rows], ground, normal / np.linalg.norm(normal, axis=1)[:, None]

    def gmst(self, t_s):
        """IAU 1982, from UTC."""
        now = self.start + datetime.timedelta(seconds=t_s)
        days = (now - datetime.datetime(2000, 1, 1, 12, tzinfo=datetime.timezone.utc)) / datetime.timedelta(days=1)
        c = days / 36525
        seconds = 67310.54841 + (8640184.812866 + (0.093104 - 6.2e-6 * c) * c) * c
        return 2 * self.np.pi * ((days % 1 + seconds / 86400) % 1)

    def positions(self, t_s):
        np = self.np
        u, raan = self.u + self.u_rate * t_s, self.raan + self.raan_rate * t_s - self.gmst(t_s)
        x, y = np.cos(u), np.sin(u)
        sin, cos = np.sin(raan), np.cos(raan)
        return self.r * np.stack([cos * x - sin * y * self.cos_i, sin * x + cos * y * self.cos_i, y * self.sin_i], axis=1)

    def step(self, t_s):
        """Delay (ns) and path of every pair."""
        np = self.np
        from scipy.sparse import csr_matrix
        from scipy.sparse.csgraph import dijkstra

        sky = self.positions(t_s)
        away = sky[None, :, :] - self.ground[:, None, :]
        far = np.linalg.norm(away, axis=2)
        above = np.einsum("ijk,ik->ij", away, self.up) >= np.sin(np.radians(25)) * far
        nearest = np.where(above, far, np.inf).argmin(axis=1)
        lit = above.any(axis=1)
        a, b = sky[self.a], sky[self.b]
        along = b - a
        length = np.linalg.norm(along, axis=1)
        share = np.clip(-(a * along).sum(axis=1) / length**2, 0, 1)
        clear = np.linalg.norm(a + along * share[:, None], axis=1) >= common.EARTH + 80e3
        ns = np.ceil(length / common.C * 1e9)[clear]
        i, j = self.a[clear], self.b[clear]
        count = len(sky)
        matrix = csr_matrix((np.concatenate([ns, ns]), (np.concatenate([i, j]), np.concatenate([j, i]))), shape=(count, count))
        roots, row = np.unique(nearest, return_inverse=True)
        distance, before = dijkstra(matrix, indices=roots, return_predecessors=True)
        access = np.ceil(far[np.arange(len(nearest)), nearest] / common.C * 1e9)
        x, y = np.triu_indices(len(nearest), 1)
        # The search starts at the second city of a pair.
        delay = access[x] + access[y] + distance[row[y], nearest[x]]
        delay[~(lit[x] & lit[y])] = np.inf
        # All paths at once, hop by hop; -1 after their end.
        at = np.where(np.isfinite(delay), nearest[x], -1)
        path = [at]
        while (at >= 0).any():
            at = np.where(at >= 0, before[row[y], at], -1)
            at = np.where(at < 0, -1, at)
            path.append(at)
        return delay, np.stack(path, axis=1)

    def run(self, steps):
        """CPU seconds a step and, by step, delay and hops of every pair; changes of path of every pair."""
        np = self.np
        pairs = len(self.names) * (len(self.names) - 1) // 2
        least, most, total = np.full(pairs, np.inf), np.zeros(pairs), np.zeros(pairs)
        samples, changes, last, found = np.zeros(pairs), np.zeros(pairs, int), None, []
        begun = time.process_time()
        for t_s in range(steps):
            delay, path = self.step(t_s)
            good = np.isfinite(delay)
            hops = np.where(good, (path >= 0).sum(axis=1) + 1, 0)
            least, most = np.minimum(least, delay), np.maximum(most, np.where(good, delay, 0))
            total, samples = total + np.where(good, delay, 0), samples + good
            if last is not None:
                wide = max(path.shape[1], last.shape[1])
                pad = lambda p: np.pad(p, ((0, 0), (0, wide - p.shape[1])), constant_values=-1)
                changes += (pad(path) != pad(last)).any(axis=1)
            last = path
            found.append((delay, hops))
        return (time.process_time() - begun) / steps, found, changes


def whole_job(file):
    whole = Whole(file)
    whole.step(0)
    step_s, found, changes = whole.run(WHOLE_STEPS)
    out = common.RAW / "pairs.csv"
    common.run("plan", file, "--pairs", "all", "--csv", "--to", f"{WHOLE_STEPS}s", out=out)
    number = {name: n for n, name in enumerate(whole.names)}
    count, worst, other_hops, compared, ours_changes = len(number), 0, 0, 0, 0
    with open(out) as f:
        for row in csv.DictReader(f):
            a, b = number[row["a_node"]], number[row["b_node"]]
            delay, hops = found[int(row["t_s"])]
            pair = a * count - a * (a + 1) // 2 + b - a - 1
            assert (row["delay_ns"] == "") == (delay[pair] == float("inf")), row
            ours_changes += row["changed"] in ("1", "true")
            if row["delay_ns"]:
                compared += 1
                worst = max(worst, abs(int(row["delay_ns"]) - int(delay[pair])))
                other_hops += int(row["hops"]) != int(hops[pair])
    data = {"steps": WHOLE_STEPS, "step_s": step_s, "compared": compared, "largest_difference_ns": worst,
            "other_hop_counts": other_hops, "changes_of_path": int(changes.sum()), "constel_changes_of_path": ours_changes}
    print(f"the whole job in Python: {step_s * 1e3:.1f} ms a step; {compared} delays within {worst:.0f} ns, {other_hops} other"
          f" hop counts, {data['changes_of_path']} changes of path, Constel {ours_changes}", flush=True)
    # A light time is rounded up: a nanosecond more or less a hop, and another way where two are equally long.
    assert worst <= 20 and other_hops <= compared / 1000
    return data


def main():
    file = common.shell1("all-pairs", common.cities(100))
    ours = {}
    for threads in sorted({1, os.cpu_count()}):
        runs = [common.run("plan", file, "--pairs", "all", "--to", f"{SECONDS}s", "--threads", str(threads))[:3] for _ in range(3)]
        wall, cpu, mb = min(runs)
        ours[threads] = {"wall_s": wall, "cpu_s": cpu, "peak_mb": mb, "all_wall_s": [r[0] for r in runs]}
        print(f"constel, {threads} thread(s): best of 3 {wall:.2f} s, CPU {cpu:.2f} s, {mb:.0f} MB", flush=True)
    parts = search_alone(file)
    print("constel, 1 thread, ms a step: " + ", ".join(f"{k} {v}" for k, v in parts.items()), flush=True)
    whole = whole_job(file)
    out = common.RAW / "pairs.csv"
    common.run("plan", file, "--pairs", "all", "--csv", "--to", f"{SECONDS}s", "--every", "60s", out=out)
    truth = {}
    with open(out) as f:
        for row in csv.DictReader(f):
            truth.setdefault(int(row["t_s"]), {})[row["a_node"], row["b_node"]] = row["delay_ns"]
    spent, worst, compared, without = {"scipy": [], "networkx": []}, 0, 0, 0
    for step in range(SCIPY_STEPS):
        t_s = step * 60 % SECONDS
        arcs, access, ground, satellites = graph_of(common.plan_json(file, t_s))
        wall, found = by_scipy(tuple(map(list, zip(*arcs))), access, ground, satellites)
        spent["scipy"].append(wall)
        results = [found]
        if step < NETWORKX_STEPS:
            wall, found = by_networkx(arcs, access, ground)
            spent["networkx"].append(wall)
            results.append(found)
        for found in results:
            for pair, delay in found.items():
                ours_ns = truth[t_s][pair]
                # A city at 60 degrees north has no satellite at times: then nobody may find a path.
                assert (ours_ns == "") == (delay == float("inf")), (t_s, pair)
                if ours_ns == "":
                    without += 1
                    continue
                worst = max(worst, abs(int(ours_ns) - int(delay)))
                compared += 1
    mean = {name: sum(times) / len(times) for name, times in spent.items()}
    data = {"host": common.host(), "constel": ours, "constel_parts_ms": parts, "whole_job_in_python": whole,
            "per_step_s": spent, "mean_step_s": mean,
            "delays_compared": compared, "pairs_without_path_in_both": without, "largest_difference_ns": worst}
    common.save("all-pairs", data)
    print(f"{compared} delays compared ({without} times neither found a path), largest difference {worst} ns")
    for name, step_s in {"the whole job in Python": whole["step_s"], **mean}.items():
        print(f"{name}: {step_s * 1e3:.1f} ms a step, scaled {step_s * SECONDS:.1f} s")
        for threads, run in ours.items():
            print(f"| {name} | Constel, everything, {threads} thread(s): {run['wall_s']:.2f} s, CPU {run['cpu_s']:.2f} s"
                  f" | {step_s * SECONDS / run['wall_s']:.0f}x, by CPU time {step_s * SECONDS / run['cpu_s']:.0f}x |")
        if name in mean:
            print(f"| {name} | Constel, the search alone, 1 thread: {parts['search']:.3f} ms a step"
                  f" | {step_s * 1e3 / parts['search']:.0f}x |")
    assert worst == 0


if __name__ == "__main__":
    sys.exit(main())
