#!/usr/bin/env python3
"""How much the plans of a swarm agree: reads what agent.py printed in a run.

    agree.py RESULTS [--of N]

A row of CSV for each cycle: how many craft planned, how many made the plan that most made, how many of the rewards that
could be known were. Then a line with the shares over all cycles in which all craft planned.
"""

import argparse
import collections
import csv
import pathlib


def rows(results):
    for path in sorted(pathlib.Path(results, "flows").glob("*.out")):
        with open(path, newline="") as file:
            reader = csv.DictReader(file)
            if reader.fieldnames == ["cycle", "craft", "known", "plan"]:
                # The last line may have been cut off, and who was started again has named its columns again.
                yield from (row for row in reader if row["plan"] and row["plan"] != "plan")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results")
    parser.add_argument("--of", type=int, default=4, help="how many craft there are")
    args = parser.parse_args()
    cycles = collections.defaultdict(list)
    for row in rows(args.results):
        cycles[int(row["cycle"])].append(row)
    if not cycles:
        parser.exit(1, f"no plans in {args.results}/flows\n")
    print("cycle,planned,agree,known,of")
    agree = known = full = 0
    for cycle, plans in sorted(cycles.items()):
        most = collections.Counter(row["plan"] for row in plans).most_common(1)[0][1]
        heard = sum(int(row["known"]) for row in plans)
        print(f"{cycle},{len(plans)},{most},{heard},{len(plans) * args.of}")
        if len(plans) == args.of:
            full += 1
            agree += most == args.of
            known += heard / (args.of * args.of)
    if full:
        print(f"# of {full} cycles: all agree in {agree / full:.1%}, rewards known {known / full:.1%}")


if __name__ == "__main__":
    main()
