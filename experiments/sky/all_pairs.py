"""All-pairs least-delay paths between 100 cities over Shell I, each second for 10 minutes.

Constel's time is everything: start, positions, choice of satellites, paths, hop counts and changes of path.
networkx and scipy get ready-made graphs of single seconds (from `constel plan --at`) and are timed for the search
alone, on fewer seconds; their CPU time (both run on one CPU) is scaled. Delays must agree to the nanosecond.
"""

import csv
import os
import sys
import time

import common

SECONDS = 600
SCIPY_STEPS = int(os.environ.get("SCIPY_STEPS", "10"))
NETWORKX_STEPS = int(os.environ.get("NETWORKX_STEPS", "2"))


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

    begun = time.process_time()
    i, j, w = (np.array(x) for x in zip(*arcs))
    matrix = csr_matrix((w.astype(float), (i, j)), shape=(satellites, satellites))
    roots = sorted({s for hops in access.values() for s, _ in hops})
    # Predecessors too: without them there is neither a path nor a hop count.
    distance, _ = dijkstra(matrix, indices=roots, return_predecessors=True)
    row = {s: n for n, s in enumerate(roots)}
    result = {}
    for x, a in enumerate(ground):
        for b in ground[x + 1:]:
            result[a, b] = min(
                (up + distance[row[s], t] + down for s, up in access[a] for t, down in access[b]), default=float("inf"))
    return time.process_time() - begun, result


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


def main():
    file = common.shell1("all-pairs", common.cities(100))
    ours = {}
    for threads in sorted({1, os.cpu_count()}):
        wall, cpu, mb, _ = common.run("plan", file, "--pairs", "all", "--to", f"{SECONDS}s", "--threads", str(threads))
        ours[threads] = {"wall_s": wall, "cpu_s": cpu, "peak_mb": mb}
        print(f"constel, {threads} thread(s): {wall:.2f} s, {mb:.0f} MB", flush=True)
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
        wall, found = by_scipy(arcs, access, ground, satellites)
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
                worst = max(worst, abs(int(ours_ns) - delay))
                compared += 1
    mean = {name: sum(times) / len(times) for name, times in spent.items()}
    data = {"host": common.host(), "constel": ours, "per_step_s": spent, "mean_step_s": mean,
            "delays_compared": compared, "pairs_without_path_in_both": without, "largest_difference_ns": worst}
    common.save("all-pairs", data)
    print(f"{compared} delays compared ({without} times neither found a path), largest difference {worst} ns")
    for name, step_s in mean.items():
        print(f"{name}: {step_s * 1e3:.0f} ms a step, scaled {step_s * SECONDS:.0f} s")
        for threads, run in ours.items():
            print(f"| {name} | Constel, {threads} thread(s): {run['wall_s']:.2f} s, CPU {run['cpu_s']:.2f} s"
                  f" | {step_s * SECONDS / run['wall_s']:.0f}x, by CPU time {step_s * SECONDS / run['cpu_s']:.0f}x |")
    assert worst == 0


if __name__ == "__main__":
    sys.exit(main())
