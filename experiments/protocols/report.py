#!/usr/bin/env python3
"""Prints the tables of the example protocols from raw data: RAW, default experiments/protocols/raw."""

import json
import os
import pathlib

RAW = pathlib.Path(os.environ.get("RAW", pathlib.Path(__file__).resolve().parent / "raw"))
PROTOCOLS = ["distance-vector", "opspf", "lipsin", "bird", "model"]


def span(values, digits=1):
    """Returns the least and the greatest of some numbers as text; `-` without numbers."""
    texts = sorted({f"{value:.{digits}f}" for value in values}, key=float)
    return " to ".join(texts[:: max(1, len(texts) - 1)]) or "-"


def first_answers(run):
    """Returns the times of sending of the first answered probe of each flow, s; infinite if there was none."""
    firsts = [next((g["until_s"] for g in gaps if g["after_s"] is None), None) for gaps in run["flows"].values()]
    return [float("inf") if first is None else first for first in firsts]


def outages(run):
    """Returns the time between the answered probes around the failure, and the lost ones, for each flow that lost some."""
    failed_s = run["failed_t_ns"][0] / 1e9
    found = []
    for gaps in run["flows"].values():
        for gap in gaps:
            ends_s = float("inf") if gap["until_s"] is None else gap["until_s"]
            if gap["after_s"] is not None and gap["lost"] and failed_s - 0.5 < gap["after_s"] < failed_s + 1 and ends_s > failed_s:
                found.append((ends_s - gap["after_s"], gap["lost"]))
    return found


def sent(run, from_s, to_s):
    """Returns the frames and bytes on all edges between two samples at whole seconds."""
    totals = {}
    for t_ns, total in run["sent_by_t_ns"].items():
        # The last sample is taken while the lab ends.
        totals.setdefault(round(int(t_ns) / 1e9), total)
    before, after = totals.get(from_s, [0, 0]), totals.get(to_s, [0, 0])
    return after[0] - before[0], after[1] - before[1]


def main():
    print("protocol | programs run after, s | first answer: all pairs, s | Tokyo to London, s | outage, s | probes lost | trustworthy runs")
    for protocol in PROTOCOLS:
        runs = [json.loads(file.read_text()) for file in sorted(RAW.glob(f"{protocol}-[0-9]*.json"))]
        if not runs:
            continue
        cut = [outages(run) for run in runs if run["failed_t_ns"]]
        print(protocol, span([run["programs"]["all_run_s"] for run in runs if run["programs"]]),
              span([max(first_answers(run)) for run in runs]),
              span([first_answers({"flows": {"": run["flows"]["ping-gs-tokyo-gs-london"]}})[0] for run in runs]),
              span([max((gap for gap, _ in gaps), default=0) for gaps in cut], 2),
              span([max((lost for _, lost in gaps), default=0) for gaps in cut], 0),
              f"{sum(run['verdict']['trustworthy'] for run in runs)} of {len(runs)}", sep=" | ")
    print("\nprotocol | bytes in the first 10 s | bytes a second, 15 s to 25 s | frames a second | largest second, bytes")
    for protocol in PROTOCOLS:
        file = RAW / f"{protocol}-quiet.json"
        if not file.exists():
            continue
        run = json.loads(file.read_text())
        frames, octets = sent(run, 15, 25)
        most = max(sent(run, second, second + 1)[1] for second in range(24))
        print(protocol, sent(run, 0, 10)[1], f"{octets / 10:.0f}", f"{frames / 10:.0f}", most, sep=" | ")


main()
