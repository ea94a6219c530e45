"""Where the point of presence stands: round-trip times of pop.yaml's terminal to each, and of what they are made."""

import json
import pathlib
import sys

import common

FILE = str(pathlib.Path(__file__).resolve().parent / "pop.yaml")
POPS = ("pop-london", "pop-frankfurt")


def by_hand(document, pop):
    """Shortest way from the terminal over one satellite and one gateway to `pop`, ns: the edges tried one by one."""
    edges = {(e["from_node"], e["to_node"]): e["delay_ns"] for e in document["edges"]}
    out = lambda node: [(b, ns) for (a, b), ns in edges.items() if a == node]
    ways = []
    for satellite, up in out("bath"):
        for gateway, down in out(satellite):
            for end, cable in out(gateway):
                onward = 0 if end == pop else edges.get((end, pop))
                if end in POPS and onward is not None:
                    ways.append(up + down + cable + onward)
    return min(ways, default=None)


def main():
    text = common.run("plan", FILE, "--pairs", ",".join(f"bath:{pop}" for pop in POPS), "--json")[3]
    print("| point of presence | RTT least .. median .. most | without a path | changes of path |\n|---|---|---|---|")
    for pop, pair in zip(POPS, json.loads(text)["pairs"]):
        rtt = sorted(2e-6 * d for d in pair["delay_ns"] if d is not None)
        print(f"| {pop} | {rtt[0]:.2f} .. {rtt[len(rtt) // 2]:.2f} .. {rtt[-1]:.2f} ms"
              f" | {len(pair['delay_ns']) - len(rtt)} of {len(pair['delay_ns'])} s | {pair['summary']['changes']} |")
        for t_s in range(0, 3600, 600):
            found = by_hand(common.plan_json(FILE, t_s), pop)
            assert found == pair["delay_ns"][t_s], (pop, t_s, found, pair["delay_ns"][t_s])
    print("at 6 instants the same as the sum of the links of the best satellite and gateway, tried one by one")


if __name__ == "__main__":
    sys.exit(main())
