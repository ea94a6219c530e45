"""Locations of the point of presence: round-trip times of pop.yaml's terminal to each, and of what they are made."""

import heapq
import json
import pathlib
import sys

import common

FILE = str(pathlib.Path(__file__).resolve().parent / "pop.yaml")
POPS = ("pop-london", "pop-frankfurt")


def shortest(document, pop):
    """Least delay from the terminal to `pop` over the plan's edges, ns."""
    onward = {}
    for edge in document["edges"]:
        onward.setdefault(edge["from_node"], []).append((edge["to_node"], edge["delay_ns"]))
    best, queue = {}, [(0, "bath")]
    while queue:
        delay_ns, node = heapq.heappop(queue)
        if best.setdefault(node, delay_ns) == delay_ns:
            for to, edge_ns in onward.get(node, []):
                if to not in best:
                    heapq.heappush(queue, (delay_ns + edge_ns, to))
    return best.get(pop)


def main():
    text = common.run("plan", FILE, "--pairs", ",".join(f"bath:{pop}" for pop in POPS), "--json")[3]
    print("| point of presence | RTT least .. median .. most | without a path | changes of path |\n|---|---|---|---|")
    for pop, pair in zip(POPS, json.loads(text)["pairs"]):
        rtt = sorted(2e-6 * d for d in pair["delay_ns"] if d is not None)
        print(f"| {pop} | {rtt[0]:.2f} .. {rtt[len(rtt) // 2]:.2f} .. {rtt[-1]:.2f} ms"
              f" | {len(pair['delay_ns']) - len(rtt)} of {len(pair['delay_ns'])} s | {pair['summary']['changes']} |")
        for t_s in range(0, 3600, 600):
            found = shortest(common.plan_json(FILE, t_s), pop)
            assert found == pair["delay_ns"][t_s], (pop, t_s, found, pair["delay_ns"][t_s])
    print("at 6 instants the same as the least sum of delays over the plan's edges")


if __name__ == "__main__":
    sys.exit(main())
