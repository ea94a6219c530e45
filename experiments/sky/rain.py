"""Effects of a storm on a terminal's link: C/N, modulation and rate each minute, from rain.yaml."""

import pathlib

import common

FILE = str(pathlib.Path(__file__).resolve().parent / "rain.yaml")

print("| lab time | up | down |\n|---|---|---|")
for minute in range(10):
    edges = common.plan_json(FILE, 60 * minute)["edges"]
    rates = []
    for key in ("from_node", "to_node"):
        mine = [e["rate_bps"] / 1e6 for e in edges if e[key] == "bath"]
        rates.append(f"{mine[0]:.1f} Mbit/s" if mine else "no link")
    print(f"| {minute} min | {rates[0]} | {rates[1]} |")
