#!/usr/bin/env python3
"""Writes the tables of the pages from raw data (RAW, default experiments/protocols/raw), between `<!-- table PROTOCOL... -->` and `<!-- end -->`.

    experiments/protocols/report.py [--check]     --check: changes nothing, exit code 1 where a table is not that of its data
"""

import json
import os
import pathlib
import re
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
RAW = pathlib.Path(os.environ.get("RAW", HERE / "raw"))
NAMES = {"distance-vector": "distance vector", "opspf": "OPSPF, program", "model": "OPSPF, model", "lipsin": "LIPSIN", "bird": "BIRD, OSPF"}


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


def read(pattern):
    """Returns the runs of the files of raw data that match."""
    return [json.loads(file.read_text()) for file in sorted(RAW.glob(pattern))]


def with_probes(protocol, folder="."):
    """Returns the figures of the runs with probes and a failure, by row."""
    runs = read(f"{folder}/{protocol}-[0-9]*.json")
    cut = [outages(run) for run in runs if run["failed_t_ns"]]
    programs = [run["programs"]["all_run_s"] for run in runs if run.get("programs")]
    firsts = [max(first_answers(run)) for run in runs]
    pair = [first_answers({"flows": {"": run["flows"]["ping-gs-tokyo-gs-london"]}})[0] for run in runs]
    return {
        "all programs run after": f"{span(programs)} s" if programs else "no programs" if protocol == "model" else "started before lab time",
        # LIPSIN's messages go from Tokyo to London only.
        "convergence from nothing, all pairs": "-" if protocol == "lipsin" else f"{span(firsts)} s",
        "convergence from nothing, Tokyo to London": f"{span(pair)} s",
        "outage when a laser on the path fails": f"{span([max((gap for gap, _ in gaps), default=0) for gaps in cut], 2)} s",
        "probes lost in it": span([max((lost for _, lost in gaps), default=0) for gaps in cut], 0),
        "trustworthy runs": f"{sum(run['verdict']['trustworthy'] for run in runs)} of {len(runs)}",
    }


def quiet(protocol):
    """Returns the control traffic of the run without probes and failures, by row."""
    run = json.loads((RAW / f"{protocol}-quiet.json").read_text())
    frames, octets = sent(run, 15, 25)
    return {
        "control traffic, first 10 s": f"{sent(run, 0, 10)[1]:,} bytes",
        "largest second of it": f"{max(sent(run, second, second + 1)[1] for second in range(24)):,} bytes",
        "control traffic a second, 15 s to 25 s": f"{octets / 10:,.0f} bytes, {frames / 10:.0f} frames",
    }


def handovers(runs):
    """Returns the outages of the flows from stations that were handed over, s: for each station and time a list with one value for each run."""
    found = {}
    for run in runs:
        for handover in run["handovers"]:
            at_s, gaps = handover["t_ns"] / 1e9, run["flows"].get(handover["station"])
            if gaps is None:
                continue
            cut = [gap["until_s"] - gap["after_s"] for gap in gaps
                   if gap["after_s"] is not None and gap["until_s"] is not None and gap["after_s"] - 0.1 < at_s < gap["until_s"]]
            found.setdefault((at_s, handover["station"]), []).append(max(cut, default=0))
    return found


def two_clocks(kind):
    """Returns the rows of the same measurement in real and in virtual time: name, real, virtual."""
    if kind == "handovers":
        real, virtual = handovers(read("handover/handover-*.json")), handovers(read("virtual/handover-*.json"))
        return [(f"{station}, {at_s:.0f} s", f"{span(real.get((at_s, station), []), 2)} s", f"{span(outage, 2)} s") for (at_s, station), outage in sorted(virtual.items())]
    real, virtual = with_probes(kind), with_probes(kind, "virtual")
    # The programs' start has no figure without a zero of lab time.
    return [(row, real[row], virtual[row]) for row in real if row != "all programs run after"]


def clocks(match):
    """Returns the table of a measurement in both times."""
    lines = ["| | real time | virtual time |", "|---|---|---|"]
    lines += ["| " + " | ".join(row) + " |" for row in two_clocks(match.group(1))]
    return f"<!-- clocks {match.group(1)} -->\n" + "\n".join(lines) + "\n<!-- end -->"


def carriers(_):
    """Returns the table of handovers by daemon and carrier."""
    lines = ["| | handovers | least | median | most | trustworthy runs |", "|---|--:|--:|--:|--:|--:|"]
    for daemon, carrier, kind in [("BIRD", "always", "handover"), ("BIRD", "follows", "bird-follows"), ("FRR", "always", "frr-always"), ("FRR", "follows", "frr-follows")]:
        runs = read(f"handover/{kind}-*.json")
        outages = sorted(cut for cuts in handovers(runs).values() for cut in cuts)
        figures = [f"{value:.2f} s" for value in (outages[0], statistics.median(outages), outages[-1])]
        trusted = f"{sum(run['verdict']['trustworthy'] for run in runs)} of {len(runs)}"
        lines.append("| " + " | ".join([f"{daemon}, carrier: {carrier}", str(len(outages)), *figures, trusted]) + " |")
    return "<!-- carriers -->\n" + "\n".join(lines) + "\n<!-- end -->"


def table(match):
    columns = [with_probes(protocol) | quiet(protocol) for protocol in match.group(1).split()]
    lines = ["| | " + " | ".join(NAMES[protocol] for protocol in match.group(1).split()) + " |", "|---" * (len(columns) + 1) + "|"]
    lines += ["| " + " | ".join([row, *(column[row] for column in columns)]) + " |" for row in columns[0]]
    return f"<!-- table {match.group(1)} -->\n" + "\n".join(lines) + "\n<!-- end -->"


def main():
    for page in sorted(HERE.glob("*.md")):
        text = page.read_text()
        new = re.sub(r"<!-- table ([^>]*?) -->\n.*?<!-- end -->", table, text, flags=re.S)
        new = re.sub(r"<!-- clocks ([^>]*?) -->\n.*?<!-- end -->", clocks, new, flags=re.S)
        new = re.sub(r"<!-- carriers -->\n.*?<!-- end -->", carriers, new, flags=re.S)
        if "--check" in sys.argv and new != text:
            sys.exit(f"report: {page.name} is not that of the raw data; run experiments/protocols/report.py")
        if new != text:
            page.write_text(new)


if __name__ == "__main__":
    main()
