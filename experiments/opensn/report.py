#!/usr/bin/env python3
"""Writes the tables of README.md from raw/*.json and *-series.csv, between `<!-- table ... -->` and `<!-- end -->`.

    experiments/opensn/report.py [--check]     --check: changes nothing, exit code 1 where a table is not its data's

`<!-- table runs A B -->`     one row a run: what it came to
`<!-- table changes A B -->`  one row a failure or repair
`<!-- table series A B -->`   one column a run that has its own raw file: what its series shows
`<!-- table phases A B -->`   one row a run and phase: what it took of the machine
`<!-- table images A B -->`   one row a run: what its images did
`<!-- table video A B -->`    one row a run: when the ends reached each other, what its handovers cost, what the viewer saw
"""

import csv
import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    return "\n".join(lines + ["| " + " | ".join(str(c) for c in row) + " |" for row in rows])


def seconds(ns):
    if ns is None:
        return "not before the end"
    return f"{ns / 1e6:.1f} ms" if ns < 1e9 else f"{ns / 1e9:.2f} s"


def kept(names):
    return [(name, json.loads((HERE / f"raw/{name}.json").read_text())["summary"])
            for name in names if (HERE / f"raw/{name}.json").exists()]


def missing(names, suffix):
    lacking = [name for name in names if not (HERE / suffix.format(name)).exists()]
    return f"\n\nThere is no raw data yet of {', '.join(lacking)}." if lacking else ""


def verdict(summary):
    return "trustworthy" if summary["verdict"]["trustworthy"] else "not trustworthy"


def lateness(summary):
    late, wait = summary["relay"]["lateness"], summary["fidelity"]["machine"].get("processor_wait_ratio")
    times = ", ".join(f"{late[q] / 1e6:.2f}" for q in ("p50_ns", "p99_ns", "max_ns"))
    return f"{times} ({late['count']:,}); " + ("-" if wait is None else f"{wait:.0%}")


def runs(names):
    rows = []
    for name, s in kept(names):
        handovers = s.get("handovers") or []
        stood = sorted(h["converged_after_ns"] for h in handovers if h["converged_after_ns"] is not None)
        control = (s.get("convergence") or {}).get("control") or {}
        first = (s.get("convergence") or {}).get("first_s")
        daemons = [row for row in s.get("daemons") or [] if row["when"] == "end"]
        rows.append([
            name.removeprefix("sn-"),
            "-" if first is None else f"{first:.1f} s",
            f"{control['frames']:,}" if control.get("frames") else "-",
            "; ".join(f"{d['program']} {d['cpu_total_s']:.1f} s, {d['private_bytes']['p50'] / 2**20:.1f} MiB" for d in daemons) or "-",
            len(handovers),
            f"{seconds(stood[len(stood) // 2])} ({seconds(stood[-1])})" if stood else "-",
            sum(h.get("lost_probes") or 0 for h in handovers),
            lateness(s),
            verdict(s),
        ])
    head = ["run", "first convergence after", "control frames until then", "daemons: processor time, memory of one",
            "handovers", "convergence after one: median (greatest)", "probes lost by them",
            "frames late, ms: p50, p99, MAX (of); wait for a processor", "verdict"]
    return (table(head, rows) if rows else "") + missing(names, "raw/{}.json")


def changes(names):
    rows = [
        [name.removeprefix("sn-"), f"{c['t_ns'] / 1e9:.0f} s: {c['kind']}, {c['cause']}", len(c["objects"]),
         seconds(c["converged_after_ns"]), c.get("lost_probes") or 0]
        for name, s in kept(names) for c in s.get("changes") or []
    ]
    head = ["run", "lab time, what", "objects", "converged after", "probes lost"]
    return (table(head, rows) if rows else "") + missing(names, "raw/{}.json")


def series(names):
    columns = []
    # A series alone has no verdict, version or machine: it counts with the run's own file only.
    for name, summary in kept([f"sn-{name}" for name in names]):
        name = name.removeprefix("sn-")
        path = HERE / f"{name}-series.csv"
        with open(path) as file:
            samples = list(csv.DictReader(file))

        def first(key):
            """When a count was at its highest for the first time, and the count."""
            counts = [(int(r[key]), float(r["t_s"])) for r in samples if r[key]]
            most = max(c for c, _ in counts)
            return f"{most:,} after {min(t for c, t in counts if c == most):.0f} s"

        memory = [int(r["memory_used_bytes"]) for r in samples]
        right = [float(r["routes_right_ratio"]) for r in samples if r["routes_right_ratio"]]
        settled = [float(r["t_s"]) for r in samples if r["routes_right_ratio"] and float(r["routes_right_ratio"]) == 1]
        after = [r for r, sample in zip(right, (s for s in samples if s["routes_right_ratio"]))
                 if settled and float(sample["t_s"]) >= settled[0]]
        columns.append([
            f"[{name}]({name}-series.svg)", first("nodes_built"), first("daemons_started"),
            f"after {settled[0]:.0f} s" if settled else "never", f"{min(after):.1%}" if after else "-",
            f"{memory[0] / 1e9:.1f}, {max(memory) / 1e9:.1f} GB", f"{float(samples[-1]['t_s']):.0f} s", verdict(summary),
        ])
    names_of_rows = ["", "nodes built", "daemons started", "every route right, first", "routes right after that, least",
                     "memory in use: before, most", "whole run", "verdict"]
    lines = list(zip(names_of_rows, *columns))
    return table(lines[0], lines[1:]) + missing([f"sn-{name}" for name in names], "raw/{}.json")


def whole(names):
    """As kept, with what stands beside the summary."""
    return [(name, json.loads((HERE / f"raw/{name}.json").read_text())) for name in names if (HERE / f"raw/{name}.json").exists()]


def phases(names):
    rows = []
    for name, kept in whole(names):
        given = f", {kept['processors_given']} processors, {kept['memory_given_gib']} GiB" if "processors_given" in kept else ""
        rows += [
            [name.removeprefix("sn-") + given, p["phase"], f"{p['seconds']:.0f} s", f"{p['processor_ratio']:.0%}",
             f"{(p['memory_bytes'] - kept['memory_before_bytes']) / 1e9:.1f} GB", verdict(kept["summary"])]
            for p in kept["phases"]
        ]
    head = ["run", "phase", "how long", "of both processors, mean", "memory above the start, most", "verdict"]
    return (table(head, rows) if rows else "") + missing(names, "raw/{}.json")


def video(names):
    rows = []
    for name, kept in whole(names):
        s, gaps = kept["summary"], sorted(gap["seconds"] for gap in kept["gaps"])
        rows.append([
            name.removeprefix("sn-"), f"{s['size']['containers']:,}", f"{s['times']['bring_up_s']:.1f} s",
            "never" if kept["first_answer_s"] is None else f"{kept['first_answer_s']:.0f} s", len(s["handovers"]),
            f"{len(gaps)}: {gaps[len(gaps) // 2]:.1f} s ({gaps[-1]:.1f} s)" if gaps else "none", f"{kept['frames']:,} of 1,500", verdict(s),
        ])
    head = ["run", "containers", "up after", "first answer, lab time", "handovers", "gaps of a second and more: median (longest)",
            "frames played", "verdict"]
    return (table(head, rows) if rows else "") + missing(names, "raw/{}.json")


def images(names):
    rows = []
    for name, kept in whole(names):
        if "interests" in kept:
            of = kept["interests"]
            said = (f"{of['satisfied']} of {of['asked']} Interests satisfied, {of['at_once']} at the first try (median {of['first_p50_ms']:.0f} ms)")
        else:
            said = (f"every satellite has a route to every other after {kept['all_routes_s']:.0f} s" if kept["all_routes_s"] is not None
                    else f"{kept['lacking']} routes lacking")
            said += f"; ping: {'; '.join(kept['ping'])}"
        s = kept["summary"]
        rows.append([name.removeprefix("sn-"), f"{s['size']['containers']:,}", len(s["handovers"]), said, verdict(s)])
    head = ["run", "containers", "handovers", "result", "verdict"]
    return (table(head, rows) if rows else "") + missing(names, "raw/{}.json")


def main():
    page = (HERE / "README.md").read_text()
    kinds = {"runs": runs, "changes": changes, "series": series, "phases": phases, "video": video, "images": images}
    new = re.sub(
        r"<!-- table (\w+) ([^>]*?) -->\n.*?<!-- end -->",
        lambda m: f"<!-- table {m.group(1)} {m.group(2)} -->\n{kinds[m.group(1)](m.group(2).split()).strip()}\n<!-- end -->",
        page, flags=re.S,
    )
    if "--check" in sys.argv:
        sys.exit(0 if new == page else "report: README.md is not that of the raw data; run experiments/opensn/report.py")
    (HERE / "README.md").write_text(new)


if __name__ == "__main__":
    main()
